% Runs prevalenceCore, with all second-level permutations, see remake.py:
% octave-cli run_prevalence.m FOLDER path/to/prevalence-permutation
% Versions that list all permutations do so; of others, which draw them at random, the
% function below takes the place of the drawing and lists them.
1;
global N_LISTED

function maps = randi(n_maps, n_subjects, varargin)
  global N_LISTED
  N_LISTED += 1;
  maps = 1 + mod(floor(N_LISTED ./ n_maps .^ (0:n_subjects - 1)'), n_maps);
end

% It draws while it computes; nothing is drawn here.
for name = {'figure', 'text', 'axis', 'drawnow', 'clf', 'subplot', 'plot', 'semilogy', ...
    'hold', 'title', 'xlabel', 'ylabel', 'xlim', 'set', 'gca', 'groot', 'ishandle'}
  eval(sprintf('function varargout = %s(varargin), varargout = {1}; end', name{1}));
end

folder = argv(){1}; addpath(argv(){2}); warning('off', 'all');
cases = load(fullfile(folder, 'prevalence_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  a = cases{i}.a; N_LISTED = 0;
  evalc('results = prevalenceCore(a, size(a, 3) ^ size(a, 2), cases{i}.alpha);');
  for name = {'puGN', 'pcGN', 'puMN', 'pcMN', 'gamma0u', 'gamma0c'}
    if isfield(results, name{1}), outputs{i}.(name{1}) = results.(name{1}); end
  end
end
save('-v7', fullfile(folder, 'prevalence_out.mat'), 'outputs');
