% Runs MVPA-Light, see remake.py: octave-cli run_mvpa_light.m FOLDER path/to/MVPA-Light
1;

function cfg = setting(model, hyperparameter, metric, fold)
  cfg = struct('feedback', 0, 'cv', 'predefined', 'fold', fold, 'repeat', 1, ...
    'hyperparameter', hyperparameter);
  cfg.metric = metric;
  if any(strcmp(model, {'ridge'})), cfg.model = model; else cfg.classifier = model; end
end

function column = joined(outputs, fold)
  % What was predicted in each fold, in the order of the trials.
  column = zeros(size(fold));
  for k = 1:max(fold), column(fold == k) = outputs{1, k}; end
end

function class = textbook_kernel_fda(c)
  % Kernel FDA whose discriminants have a penalised scatter of one, as in text books.
  P = mv_get_hyperparameter('kernel_fda'); P.reg = 'ridge'; P.lambda = c.klam;
  P.kernel = c.kernel; P.gamma = c.gamma; P.degree = 2; P.coef0 = 1;
  class = zeros(size(c.y));
  for k = 1:max(c.fold)
    train = c.fold ~= k; X = c.X(train, :); y = c.y(train);
    model = train_kernel_fda(P, X, y);
    model.A = real(model.A); model.class_means = real(model.class_means);
    K = model.kernelfun(P, X); N = c.klam * eye(sum(train));
    for j = unique(y)', K_j = K(:, y == j); N += center_columns(K_j) * K_j'; end
    scale = diag(1 ./ sqrt(diag(model.A' * N * model.A)));
    model.A *= scale; model.class_means *= scale;
    class(~train) = test_kernel_fda(model, c.X(~train, :));
  end
end

function K = center_columns(K)
  K = K - mean(K, 2);
end

folder = argv(){1}; addpath(genpath(argv(){2})); pkg load statistics; warning('off', 'all');

cases = load(fullfile(folder, 'mvpa_light_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  c = cases{i}; r = struct(); ridge = struct('reg', 'ridge', 'lambda', c.lam);
  cfg = setting('multiclass_lda', ridge, {'none'}, c.fold);
  r.multiclass_lda = joined(mv_classify(cfg, c.X, c.y), c.fold);
  for metric = {'accuracy', 'kappa', 'confusion', 'precision', 'recall', 'f1'}
    r.(metric{1}) = mv_calculate_performance(metric{1}, 'clabel', r.multiclass_lda, c.y);
  end
  if max(c.y) == 2
    ridge.form = 'primal';
    cfg = setting('lda', ridge, {'none'}, c.fold); cfg.output_type = 'dval';
    d = joined(mv_classify(cfg, c.X, c.y), c.fold); r.lda_dval = d;
    area = @(in) mv_calculate_performance('auc', 'dval', d(in), c.y(in));
    r.auc_fold = arrayfun(@(k) area(c.fold == k), 1:max(c.fold));
    r.auc_pooled = area(true(size(d)));
  end
  r.kernel_fda = textbook_kernel_fda(c);
  cfg = setting('ridge', struct('lambda', c.lam), {'none'}, c.fold);
  r.ridge = joined(mv_regress(cfg, c.X, c.yr), c.fold);
  outputs{i} = r;
end
save('-v7', fullfile(folder, 'mvpa_light_out.mat'), 'outputs');

cases = load(fullfile(folder, 'mvpa_light_time_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  c = cases{i}; ridge = struct('reg', 'ridge', 'lambda', c.lam);
  cfg = setting('multiclass_lda', ridge, {'accuracy'}, c.fold);
  outputs{i}.txt = mv_classify_timextime(cfg, c.X, c.y);
  outputs{i}.across = mv_classify_across_time(cfg, c.X, c.y);
  outputs{i}.cross = mv_classify_timextime(cfg, c.X, c.y, c.X2, c.y2);
end
save('-v7', fullfile(folder, 'mvpa_light_time_out.mat'), 'outputs');
