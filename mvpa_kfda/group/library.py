"""Sign flips of subjects' differences through MNE-Python and nilearn.

Both libraries flip signs, form clusters and keep the largest value of each flip. The
p-values are counted here from these maxima: the data is one of the flips, and values
that differ by no more than rounding are ties. Scores of few trials tie often, and a tie
that rounding breaks makes p too small.

What the libraries do not do right is done by this package's own :func:`flip_here`, the
same test: it is the comment at each such place that says why.
"""

import inspect
import warnings
from contextlib import closing
from functools import partial

import numpy as np
from scipy import sparse
from tqdm import tqdm

from ..inference.clusters import ON_HEIGHT
from ..inference.null import ALTERNATIVES, against_maximum, check_level
from ..utils.checks import check_option, generator
from ..utils.parallel import run_in_parallel
from .statistics import LEAST_REST, MAXIMA, SignFlips, flip_here, height_of_t, tidied

#: Flips that nilearn draws from one seed.
_CHUNK = 100


# ----------------------------------------------------------------------- MNE-Python


def flip_with_mne(
    differences,
    neighbours,
    correction,
    *,
    threshold=0.05,
    alternative="greater",
    n_permutations=10000,
    random_state=None,
    n_jobs=None,
    verbose=False,
):
    """Test as :func:`flip_here` through ``mne.stats.permutation_cluster_1samp_test``.

    Parameters
    ----------
    differences, neighbours, threshold, alternative, n_permutations, random_state
        As in :func:`flip_here`.
    correction : {"max", "cluster", "tfce"}
        Correction for the number of positions. TFCE goes in steps of 0.2.
    n_jobs : int | None, default=None
        Number of parallel jobs, as in MNE-Python. Results do not depend on it.
    verbose : bool, default=False
        Whether MNE-Python shows its progress.

    Returns
    -------
    p : array, shape (C,)
        As in :func:`flip_here`.
    null_max : array, shape (P,)
        As in :func:`flip_here`. With "max" it is 0 where all statistics are negative,
        and if all flips are listed and the test is two-sided, each flip stands for its
        mirror image too.

    Raises
    ------
    ValueError
        If the correction, the alternative or the threshold is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> differences = rng.normal([0.0, 2.0, 2.0, 0.0], 0.5, (6, 4))
    >>> flip_with_mne(differences, (4,), "max", alternative="two-sided")[0].round(3)
    array([0.281, 0.031, 0.031, 0.719])
    """
    check_option("correction", correction, ("max", "cluster", "tfce"))
    check_option("alternative", alternative, ALTERNATIVES)
    height = height_of_t(threshold, alternative, len(differences))
    turned = -differences if alternative == "less" else differences
    flips = SignFlips(turned, np.ones((1, len(differences))))
    least = height if correction == "cluster" else 0.0
    two_sided = alternative == "two-sided"
    highest = (np.abs(flips.observed) if two_sided else flips.observed).max()
    if not _mne_is_exact(len(differences), two_sided) or (
        highest <= least  # where it finds no cluster, MNE-Python returns no maxima
    ):
        return flip_here(
            differences,
            neighbours,
            correction,
            threshold=threshold,
            alternative=alternative,
            n_permutations=n_permutations,
            random_state=random_state,
        )
    shape = neighbours if isinstance(neighbours, tuple) else (flips.shape[1],)
    t, clusters, maxima = _run_mne(
        flips,
        shape,
        threshold={"start": 0, "step": 0.2} if correction == "tfce" else least,
        # Of few trials t is often a height of TFCE, and rounding would decide which of
        # equal scores are above it. As in `_inference.clusters`, none of them is.
        scale=1 - ON_HEIGHT if correction == "tfce" else 1.0,
        # For the maximum each position is a cluster, as none has a neighbour.
        adjacency=_mne_adjacency(neighbours, correction, flips.shape[1]),
        tail=0 if two_sided else 1,
        n_permutations=n_permutations + 1,  # MNE-Python counts the data as one
        rng=generator(random_state),
        n_jobs=n_jobs,
        verbose=bool(verbose),
    )
    if correction != "cluster":
        values = np.abs(t).ravel() if two_sided else t.ravel()
        return against_maximum(values, maxima, maxima.dtype), maxima
    masses = np.array([abs(t[cluster].sum()) for cluster in clusters])
    p = np.ones(t.shape)
    for cluster, value in zip(
        clusters, against_maximum(masses, maxima, maxima.dtype), strict=True
    ):
        p[cluster] = value
    return p.ravel(), maxima


def _run_mne(flips, shape, *, tail, scale, **parameters):
    """Return the statistic, the clusters and the maxima without the data's own."""
    from mne.stats import permutation_cluster_1samp_test

    values = flips.values.reshape(-1, *shape).copy()  # MNE-Python flips it in place
    t, clusters, _, maxima = permutation_cluster_1samp_test(
        values,
        tail=tail,
        # MNE-Python's own t is 0, infinite or NaN, as rounding has it, where a flip
        # gives all subjects the same difference.
        stat_fun=partial(_t_of_flipped, flips, scale),
        out_type="indices",
        buffer_size=None,
        **parameters,
    )
    return t, clusters, np.abs(maxima[1:])


def _t_of_flipped(flips, scale, flipped):
    """Return t of flipped differences (S, C), times a scale."""
    return scale * flips.of_sums(flipped.sum(axis=0))


def _mne_adjacency(neighbours, correction, n_positions):
    """Return the neighbours as MNE-Python takes them."""
    if correction == "max":
        return sparse.coo_array((n_positions, n_positions))
    return None if isinstance(neighbours, tuple) else sparse.coo_array(neighbours)


def _mne_is_exact(n_subjects, two_sided):
    """Tell whether MNE-Python's flips and its statistic are what they should be.

    Before version 1.13.2 its TFCE did not weigh the heights, and on a line it counted
    each cluster as one position. Up to now, for one side and up to 20 subjects it lists
    the flips or draws from a list, and this list has the data instead of the flip of
    all subjects. `permutation_t_test` is of no use here: it takes the size of t for one
    side too, a position of zeros makes all its p-values 0, and it holds several arrays
    of all flips and positions.
    """
    from mne.utils import check_version

    return check_version("mne", "1.13.2") and (two_sided or n_subjects > 20)


# -------------------------------------------------------------------------- nilearn


def flip_with_nilearn(
    differences,
    space,
    counted,
    correction,
    *,
    threshold=0.05,
    alternative="greater",
    n_permutations=10000,
    random_state=None,
    n_jobs=None,
    verbose=False,
):
    """Test as :func:`flip_here` through ``nilearn.mass_univariate.permuted_ols``.

    That is the function behind ``nilearn.glm.second_level.non_parametric_inference``,
    which keeps the maxima of the flips to itself.

    Parameters
    ----------
    differences, threshold, alternative, n_permutations, random_state
        As in :func:`flip_here`; C is the number of voxels that count.
    space : VolumeSpace
        The voxels. Neighbours share a face.
    counted : array of bool, shape (space.n_positions,)
        Which voxels the differences are of.
    correction : {"max", "cluster", "cluster-size", "tfce"}
        Correction for the number of positions. The mass of a cluster is the sum of what
        is above the threshold.
    n_jobs : int | None, default=None
        Number of parallel workers. Results do not depend on it.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    p : array, shape (C,)
        As in :func:`flip_here`.
    null_max : array, shape (P,)
        As in :func:`flip_here`.

    Raises
    ------
    ValueError
        If the correction, the alternative or the threshold is not valid.

    Notes
    -----
    :func:`flip_here` does the test in three cases. If all flips are no more than
    n_permutations, it lists them, while nilearn draws at random, with replacement. If a
    voxel has differences of one size in all subjects, nilearn divides by zero. And
    nilearn's TFCE cuts each map at 100 heights up to its own maximum and leaves out
    their distance, which divides the scores by that maximum: next to a strong effect a
    weak one is then hardly ever found. The mass of a cluster is then the sum of t.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda.data.space import VolumeSpace
    >>> space = VolumeSpace(np.ones((2, 2, 1)), np.eye(4))
    >>> differences = np.random.default_rng(0).normal([0, 2, 2, 0], 0.5, (12, 4))
    >>> counted = np.ones(4, dtype=bool)
    >>> p, null_max = flip_with_nilearn(
    ...     differences, space, counted, "max", n_permutations=99, random_state=0
    ... )
    >>> p[1:3], null_max.shape
    (array([0.01, 0.01]), (99,))
    """
    check_option("correction", correction, MAXIMA)
    check_option("alternative", alternative, ALTERNATIVES)
    level, n = check_level(threshold), len(differences)
    mask = np.zeros_like(space.mask)
    mask[space.mask] = counted
    values = tidied(-differences if alternative == "less" else differences)
    listed = 2**n - 1 <= n_permutations
    if listed or correction == "tfce" or _of_one_size(values).any():
        from sklearn.feature_extraction.image import grid_to_graph

        return flip_here(
            differences,
            grid_to_graph(*mask.shape, mask=mask),
            correction,
            threshold=threshold,
            alternative=alternative,
            n_permutations=n_permutations,
            random_state=random_state,
        )
    # Zeros in all subjects become NaN, which nilearn counts into clusters.
    alive = values.any(axis=0)
    mask[mask] = alive
    statistic = np.zeros(len(alive))
    statistic[alive], maxima = _run_nilearn(
        values[:, alive],
        _masker(mask, space.affine),
        _NILEARN_NAMES[correction],
        generator(random_state),
        n_permutations,
        n_jobs,
        verbose,
        two_sided_test=alternative == "two-sided",
        threshold=None if correction == "max" else level,
    )
    if alternative == "two-sided":
        statistic = np.abs(statistic)
    return against_maximum(statistic, maxima, maxima.dtype), maxima


#: What nilearn calls the statistics.
_NILEARN_NAMES = {"max": "t", "cluster": "mass", "cluster-size": "size"}


def _run_nilearn(
    values, masker, name, rng, n_permutations, n_jobs, verbose, **parameters
):
    """Return the statistic (C,) and its maxima (P,).

    nilearn seeds each of its jobs, so with its own n_jobs the number of workers would
    change the flips. Here each chunk of flips has a seed.
    """
    n_chunks = -(-n_permutations // _CHUNK)
    sizes = [len(part) for part in np.array_split(np.arange(n_permutations), n_chunks)]
    seeds = rng.integers(2**31 - 1, size=n_chunks)
    chunks = list(zip(sizes, seeds.tolist(), strict=True))
    shared = values, masker, name, parameters
    with (
        closing(run_in_parallel(_nilearn_chunk, shared, chunks, n_jobs)) as results,
        tqdm(total=n_permutations, unit="flip", disable=not verbose) as bar,
    ):
        statistics, maxima = [], []
        for statistic, found in results:
            statistics.append(statistic)
            maxima.append(found)
            bar.update(len(found))
    return statistics[0], np.concatenate(maxima).astype(float)


def _nilearn_chunk(values, masker, name, parameters, chunk):
    """Return the statistic and the maxima of some flips."""
    from nilearn.mass_univariate import permuted_ols

    size, seed = chunk
    if "output_type" in inspect.signature(permuted_ols).parameters:
        parameters = {**parameters, "output_type": "dict"}  # default from 0.13 on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the whole numbers in its maps of sizes
        found = permuted_ols(
            np.ones((len(values), 1)),
            values,
            model_intercept=False,
            n_perm=max(2, size),  # it warns of a single one
            random_state=seed,
            masker=masker,
            **parameters,
        )
    return found[name][0], found[f"h0_max_{name}"][0, :size]


def _masker(mask, affine):
    from nibabel import Nifti1Image
    from nilearn.maskers import NiftiMasker

    image = Nifti1Image(mask.astype(np.uint8), affine)
    return NiftiMasker(image, standardize=None, reports=False).fit()


def _of_one_size(values):
    """Tell where some flip makes all differences the same, up to `LEAST_REST`."""
    squares = len(values) * np.square(values).sum(axis=0)
    rest = squares - np.square(np.abs(values).sum(axis=0))
    return (squares > 0) & (rest <= LEAST_REST * squares)
