% Runs CoSMoMVPA's cluster measures, see remake.py:
% octave-cli run_cosmomvpa.m FOLDER path/to/CoSMoMVPA/mvpa
1;

function p = against_largest(measured)
  % Share of maps, the first one included, whose largest value reaches each of the first.
  p = mean(max(measured, [], 2) >= measured(1, :), 1);
end

folder = argv(){1}; addpath(argv(){2});
cases = load(fullfile(folder, 'cosmomvpa_in.mat')).cases; outputs = {};
for i = 1:numel(cases)
  c = cases{i}; n = size(c.z, 2); neighbours = zeros(n);
  for k = 1:n
    near = [k; find(c.adjacency(:, k))]; neighbours(1:numel(near), k) = near;
  end
  for b = 1:size(c.z, 1)
    z = c.z(b, :);
    tfce(b, 1:n) = cosmo_measure_clusters(z, neighbours, 'tfce', 'dh', c.step);
    mass(b, 1:n) = cosmo_measure_clusters(z, neighbours, 'maxsum', 'threshold', c.threshold);
    extent(b, 1:n) = cosmo_measure_clusters(z, neighbours, 'maxsize', 'threshold', c.threshold);
  end
  outputs{i} = struct('tfce', tfce, 'mass', mass, 'extent', extent, ...
    'tfce_p', against_largest(tfce), 'mass_p', against_largest(mass), ...
    'extent_p', against_largest(extent));
  clear tfce mass extent
end
save('-v7', fullfile(folder, 'cosmomvpa_out.mat'), 'outputs');
