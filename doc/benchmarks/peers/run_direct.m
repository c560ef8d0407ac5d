% Runs the direct method of its author, see remake.py:
% octave-cli run_direct.m FOLDER path/to/Fast-Least-Squares
% The four functions below take the place of MVPA-Light's and of Octave's: all settings
% are given, folds and permutations are those at hand, and predictions are kept.
1;
global FOLDS ORDERS DRAWN PREDICTED

function mv_set_default(varargin), end

function order = randperm(n)
  global ORDERS DRAWN
  DRAWN += 1; order = ORDERS(DRAWN, :);
end

function CV = mv_get_crossvalidation_folds(varargin)
  global FOLDS
  CV.NumTestSets = max(FOLDS);
  CV.test = @(k) FOLDS == k; CV.training = @(k) FOLDS ~= k;
  for k = 1:max(FOLDS), CV.TestSize(k) = sum(FOLDS == k); CV.TrainSize(k) = sum(FOLDS ~= k); end
end

function perf = mv_calculate_performance(metric, outputs, varargin)
  global FOLDS PREDICTED
  column = zeros(size(FOLDS));
  for k = 1:max(FOLDS), column(FOLDS == k) = outputs{1, k}; end
  PREDICTED(:, end + 1) = column; perf = 0;
end

folder = argv(){1}; addpath(argv(){2}); warning('off', 'all');
cases = load(fullfile(folder, 'mvpa_light_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  c = cases{i}; outputs{i} = struct();
  if ~isfield(c, 'perm'), continue, end
  FOLDS = c.fold; ORDERS = c.perm; DRAWN = 0; PREDICTED = zeros(numel(c.y), 0);
  several = max(c.y) > 2;
  cfg = struct('multiclass', several, 'metric', 'acc', 'feedback', 0, 'repeat', 1, ...
    'nperm', size(ORDERS, 1), 'reg', 'ridge', 'lambda', c.lam, 'CV', 'kfold', ...
    'k', max(FOLDS), 'frac', 0.1, 'stratify', 0);
  fast_least_squares(cfg, c.X, c.y);
  if several, outputs{i}.direct_class = PREDICTED; else outputs{i}.direct_dval = PREDICTED; end
end
save('-v7', fullfile(folder, 'mvpa_light_out_direct.mat'), 'outputs');
