% Runs prevalenceCore, with all second-level permutations, see remake.py:
% octave-cli run_prevalence.m FOLDER path/to/prevalence-permutation
folder = argv(){1}; addpath(argv(){2});
cases = load(fullfile(folder, 'prevalence_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  a = cases{i}.a;
  evalc('results = prevalenceCore(a, size(a, 3) ^ size(a, 2), cases{i}.alpha);');
  for name = {'puGN', 'pcGN', 'puMN', 'pcMN', 'gamma0u', 'gamma0c'}
    outputs{i}.(name{1}) = results.(name{1});
  end
end
save('-v7', fullfile(folder, 'prevalence_out.mat'), 'outputs');
