"""Group inference from results to p-values, against loops over every combination."""

import itertools
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from nibabel import Nifti1Image
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.model_selection import KFold

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    load_result,
    methods_text,
    regress,
    searchlight,
)
from mvpa_kfda.reports.summary import word_question
from mvpa_kfda.utils.rounding import rounded

Y = np.tile(["face", "house"], 10)
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def time_courses(n_subjects=3, n_permutations=3, effect=0.0, seed=0, n_times=4, **more):
    """Return results of decoding a few times, the last one with an effect."""
    rng = np.random.default_rng(seed)
    results = []
    for subject in range(n_subjects):
        X = rng.normal(size=(len(Y), 3, n_times))
        X[Y == "house", :, -1] += effect
        options = {"n_permutations": n_permutations, "random_state": subject, "cv": 5}
        results.append(decode_arrays(X, Y, **options | more))
    return results


def maps_of(results):
    """Return the maps (P + 1, positions...) of every subject, the observed first."""
    return [np.concatenate([r.scores[None], r.null]) for r in results]


def every_combination(results, reduce):
    """Return the statistic of every choice of one map per subject, observed first."""
    maps = maps_of(results)
    choices = itertools.product(*(range(len(each)) for each in maps))
    return np.array(
        [
            reduce([each[i] for each, i in zip(maps, choice, strict=True)], axis=0)
            for choice in choices
        ]
    )


def share_as_large(null, observed):
    return (null >= observed - 1e-9).mean(axis=0)


@pytest.mark.parametrize(
    ("method", "reduce", "n_subjects"),
    [("prevalence", np.min, 3), ("prevalence", np.min, 5), ("bootstrap", np.mean, 3)],
)
def test_every_combination_of_permutations(method, reduce, n_subjects):
    # Minima of five subjects are read so often that ranks take the scores' place.
    results = time_courses(n_subjects, effect=2.0)
    group = group_inference(results, method, n_permutations=10_000)
    null = every_combination(results, reduce)
    assert group.n_permutations == 4**n_subjects - 1
    assert_allclose(group.statistic, null[0], **EXACT)
    assert_allclose(group.pvalues("none"), share_as_large(null, null[0]), **EXACT)
    maxima = null.max(axis=1)[:, None]
    assert_allclose(group.pvalues("max"), share_as_large(maxima, null[0]), **EXACT)
    assert_allclose(np.sort(group.null_max), np.sort(maxima[1:, 0]), **EXACT)


def test_shares_of_the_population():
    results = time_courses(6, 4, effect=3.0)
    group = group_inference(results, n_permutations=99999, random_state=0)
    assert group.n_permutations == 5**6 - 1
    maps = np.stack(maps_of(results))  # (S, P + 1, positions)
    p = (maps >= maps[:, 0].min(axis=0) - 1e-9).mean(axis=1)
    assert_allclose(group.p_of_minimum, p, **EXACT)
    assert_allclose(group.pvalues("none"), p.prod(axis=0), **EXACT)
    for gamma in (0.25, 0.5):
        share = (gamma + (1 - gamma) * p).prod(axis=0)
        assert_allclose(group.pvalues("none", hypothesis=gamma), share, **EXACT)
        order = np.argsort(share)
        holm = np.maximum.accumulate(np.minimum(1, [4, 3, 2, 1] * share[order]))
        for name in ("max", None):
            shown = group.pvalues(name, hypothesis=gamma)
            assert_allclose(shown[order], holm, **EXACT)
        bonferroni = np.minimum(1, 4 * share)
        assert_allclose(
            group.pvalues("bonferroni", hypothesis=gamma), bonferroni, **EXACT
        )
    assert_array_equal(
        group.pvalues(hypothesis="majority"), group.pvalues(hypothesis=0.5)
    )
    assert list(group.to_dataframe())[-4:] == [
        *("p", "p_majority", "p_max", "p_majority_holm")
    ]
    # The bound is the share that is just rejected, at one position or at all.
    one, at_once = group.prevalence_bound("none")[-1], group.gamma_0[-1]
    assert 0.1 < at_once < one < 1
    assert_allclose(group.pvalues("none", hypothesis=one)[-1], 0.05, rtol=1e-9, atol=0)
    p_at_once = group.pvalues("bonferroni", hypothesis=at_once)[-1]
    assert_allclose(p_at_once, 0.05, rtol=1e-9, atol=0)
    assert np.isnan(group.gamma_0[:-1]).all()
    assert at_once == group.largest_gamma_0


def test_paper_where_no_permutations_of_subjects_are_known(eight):
    group = group_inference(eight, n_permutations=999, random_state=0)
    p = group.pvalues("none")
    alike = replace(group, p_of_minimum=None, parameters={})
    expected = (0.7 * p ** (1 / 8) + 0.3) ** 8  # Eq. 19
    assert_allclose(alike.pvalues("none", hypothesis=0.3), expected, **EXACT)
    assert_allclose(alike.largest_gamma_0, (0.05 / 4) ** (1 / 8), **EXACT)


def t_of(values):
    return stats.ttest_1samp(values, 0).statistic


@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
def test_every_sign_flip(alternative):
    results = time_courses(5, 0, effect=1.0)
    d = np.stack([r.scores for r in results]) - 0.5
    group = group_inference(
        results, "sign-flip", ["max", "max-step-down"], alternative=alternative
    )
    turn = {"greater": np.copy, "less": np.negative, "two-sided": np.abs}[alternative]
    signs = itertools.product([1, -1], repeat=5)
    null = turn(np.array([t_of(np.array(s)[:, None] * d) for s in signs]))
    assert_allclose(group.statistic, t_of(d), rtol=1e-9, atol=1e-9)
    assert_allclose(group.pvalues("none"), share_as_large(null, null[0]), **EXACT)
    maxima = null.max(axis=1)[:, None]
    assert_allclose(group.pvalues("max"), share_as_large(maxima, null[0]), **EXACT)


@pytest.mark.filterwarnings("ignore:The class of a trial:UserWarning")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("correction", ["max", "cluster", "cluster-size", "tfce"])
def test_sign_flips_of_zeros_and_equal_differences(correction):
    options = {"n_permutations": 200, "random_state": 0}
    results = time_courses(12, 0, n_times=9)
    for result in results:
        result.scores[3:5] = 0.5, 0.8
    group = group_inference(results, "sign-flip", correction, **options)
    assert np.isfinite(group.null_max).all()
    assert group.pvalues()[3] == 1
    assert group.pvalues()[4] < 0.05 or correction == "cluster-size"
    for number, result in enumerate(results):
        result.scores[:] = 0.5
        result.predicted[0] = -1 - number  # or they would be copies
    group = group_inference(results, "sign-flip", correction, **options)
    assert_array_equal(group.pvalues(), 1)
    assert_array_equal(group.null_max, 0)


@pytest.mark.some(2)
@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
@pytest.mark.parametrize("two_groups", [False, True])
@pytest.mark.parametrize("method", ["sign-flip", "t"])
def test_every_cluster(method, two_groups, alternative):
    """Masses of clusters of t, formed at SciPy's quantile, under every exchange."""
    results, other = time_courses(6, 0, 1.0, n_times=8), time_courses(6, 0, 0.0, 9, 8)
    a, b = (np.stack([r.scores for r in each]) for each in (results, other))
    if two_groups:
        options, joined, df = {"other": other}, np.concatenate([a, b]), 10
        maps = [
            stats.ttest_ind(joined[list(rows)], np.delete(joined, rows, axis=0))[0]
            for rows in itertools.combinations(range(12), 6)
        ]
    else:
        options, signs, df = {}, itertools.product([1, -1], repeat=6), 5
        maps = [t_of(np.array(s)[:, None] * (a - 0.5)) for s in signs]
    # The second largest t is a little too small for a cluster, but would not be with
    # one degree of freedom more, or with the whole level on one side.
    second = np.argsort(maps[0])[-2]
    level = stats.t.sf(maps[0][second], df + 0.5)
    sides = (1, -1) if alternative == "two-sided" else (1,)
    height, chain = stats.t.isf(level, df), itertools.chain
    found = [[mass_clusters(side * t, height) for side in sides] for t in maps]
    largest = [max((m for _, m in chain(*each)), default=0.0) for each in found]
    expected = np.ones(8)
    for where, mass in chain(*found[0]):
        expected[where] = np.mean(np.array(largest) >= mass - 1e-9)
    assert (expected < 1).any()
    assert expected[second] == 1
    options |= {"alternative": alternative, "threshold": level * len(sides)}
    group = group_inference(results, method, "cluster", **options)
    assert_allclose(group.pvalues(), expected, **EXACT)


def mass_clusters(t, height):
    """Return the stretches of a time course above a height, and their masses."""
    above = np.flatnonzero(t > height)
    runs = np.split(above, np.flatnonzero(np.diff(above) > 1) + 1)
    return [(run, t[run].sum()) for run in runs if len(run)]


@pytest.mark.parametrize("paired", [False, True])
def test_every_exchange(paired):
    first, second = time_courses(4, 0, effect=2.0), time_courses(4, 0, seed=9)
    a, b = (np.stack([r.scores for r in each]) for each in (first, second))
    group = group_inference(first, "sign-flip", "max", other=second, paired=paired)
    if paired:
        signs = itertools.product([1, -1], repeat=4)
        null = [t_of(np.array(s)[:, None] * (a - b)) for s in signs]
    else:
        joined = np.concatenate([a, b])
        null = [
            stats.ttest_ind(joined[list(rows)], np.delete(joined, rows, axis=0))[0]
            for rows in itertools.combinations(range(8), 4)
        ]
    null = np.abs(null)
    assert group.alternative == "two-sided"
    assert_allclose(group.scores, a.mean(axis=0) - b.mean(axis=0), **EXACT)
    assert_allclose(group.pvalues("none"), share_as_large(null, null[0]), **EXACT)
    maxima = null.max(axis=1)[:, None]
    assert_allclose(group.pvalues("max"), share_as_large(maxima, null[0]), **EXACT)


def test_t_and_wilcoxon_are_those_of_scipy():
    results, other = time_courses(9, 0, effect=1.0), time_courses(9, 0, seed=5)
    a, b = (np.stack([r.scores for r in each]) for each in (results, other))
    a, b = a.round(9), b.round(9)  # accuracies that are equal tie
    # All 2^9 signs, which older SciPy does not take by itself where values tie.
    all_signs = partial(stats.wilcoxon, method=stats.PermutationMethod())
    for method, one, two in (
        ("t", partial(stats.ttest_1samp, popmean=0), stats.ttest_ind),
        ("wilcoxon", all_signs, stats.mannwhitneyu),
    ):
        p = group_inference(results, method, "none").pvalues()
        expected = one((a - 0.5).round(9), alternative="greater").pvalue
        assert_allclose(p, expected, rtol=1e-9, atol=1e-12)
        p = group_inference(results, method, "none", other=other).pvalues()
        assert_allclose(p, two(a, b).pvalue, rtol=1e-9, atol=1e-12)


def test_p_values_adjusted_from_the_uncorrected_ones():
    group = group_inference(time_courses(6, 4, effect=1.0), "t", "fdr")
    p = group.pvalues("none")
    expected = stats.false_discovery_control(p)
    assert_allclose(group.pvalues(), expected, **EXACT)
    assert_allclose(group.pvalues("bonferroni"), np.minimum(1, 4 * p), **EXACT)
    expected = stats.false_discovery_control(p, method="by")
    assert_allclose(group.pvalues("fdr_by"), expected, **EXACT)


def test_two_nulls_of_generalization_are_both_to_be_beaten():
    rng = np.random.default_rng(5)
    results = []
    for seed in range(4):
        X = rng.normal(size=(len(Y), 3, 3))
        X[Y == "house", :, 1:] += 1.0
        options = {"cv": 5, "n_permutations": 4, "random_state": seed}
        results.append(generalize_arrays(X, Y, null="full", **options))
    group = group_inference(results, "bootstrap", n_permutations=9999)
    p, p_max, maxima = [], [], []
    tests = [[(r.metrics, r.nulls), (r.second_scores, r.second_nulls)] for r in results]
    for test in zip(*tests, strict=True):
        maps = [
            np.concatenate([scores["accuracy"][None], nulls["accuracy"]])
            for scores, nulls in test
        ]
        null = np.array([np.mean(drawn, axis=0) for drawn in itertools.product(*maps)])
        p.append((null >= null[0] - 1e-6).mean(axis=0))
        maxima.append(null.max(axis=(1, 2)))
        p_max.append((maxima[-1][:, None, None] >= null[0] - 1e-6).mean(axis=0))
    for found, (one, two) in (("none", p), ("max", p_max)):
        diagonal = np.diag_indices(3)
        assert (two[diagonal] > one[diagonal]).any()  # which must not count
        two[diagonal] = 0
        assert (two > one).any()
        assert (two < one).any()
        assert_allclose(group.pvalues(found), np.maximum(one, two), **EXACT)
    assert_allclose(group.observed_max, max(maxima[0][0], maxima[1][0]), rtol=1e-6)
    assert (maxima[1] > maxima[0] + 1e-6).any()
    assert (maxima[1] < maxima[0] - 1e-6).any()
    expected = np.sort(np.maximum(*maxima)[1:])
    assert_allclose(np.sort(group.null_max), expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------------- every kind of map


def of_arrays(seed):
    X = np.random.default_rng(seed).normal(size=(20, 3))
    return cross_validate(X, Y, cv=5, n_permutations=9, random_state=0)


def images(seed):
    rng = np.random.default_rng(seed)
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    mask = np.ones((4, 3, 3), np.uint8)
    mask[0, 0, 0] = 0
    bold = rng.normal(size=(4, 3, 3, 20))
    bold[2, 1, 1] += 2 * (Y == "face")
    return Nifti1Image(bold, affine), Nifti1Image(mask, affine)


def of_voxels(seed):
    bold, mask = images(seed)
    options = {"radius": 4.0, "cv": 5, "n_permutations": 9, "random_state": 0}
    return searchlight(bold, Y, mask_img=mask, null="full", **options)


def test_images_and_peaks_of_a_group(tmp_path):
    results = [of_voxels(seed) for seed in range(8)]
    group = group_inference(results, n_permutations=999, random_state=0)
    where = group.geometry.mask
    scores = group.to_img().get_fdata()
    assert_allclose(scores[where], group.scores, rtol=1e-6, atol=0)
    p = group.to_img("p", correction="max").get_fdata()
    assert_array_equal(p[where], group.pvalues("max"))
    assert (p[~where] == 1).all()
    bound = group.to_img("gamma_0").get_fdata()[where]
    assert_allclose(bound, group.gamma_0, rtol=1e-6, atol=0)
    peaks = group.peaks()
    # The spheres around the voxel with the effect and those next to it hold it.
    distance = np.abs(peaks[["x", "y", "z"]].to_numpy() - [8, 4, 4]).sum(axis=1)
    assert distance[0] <= 4
    assert (peaks["p_max"] <= 0.05).all()
    with pytest.raises(ValueError, match="Allowed: 'accuracy'"):
        group.to_img("beta")


def test_peaks_of_p_values_without_permutations():
    results = [of_voxels(seed) for seed in range(8)]
    group = group_inference(results, "t", "fdr", alpha=0.2)
    assert group.n_permutations == 0
    peaks = group.peaks()
    assert len(peaks) > 0
    assert (peaks["p_fdr"] <= 0.2).all()
    where, p = group.geometry.mask, group.pvalues("none")
    assert p.max() < 1
    shown = group.to_img("z", correction="none").get_fdata()[where]
    assert_allclose(shown, stats.norm.isf(p), rtol=1e-5, atol=1e-6)


def test_stelzers_clusters():
    results = [of_voxels(seed) for seed in range(8)]
    options = {"n_permutations": 999, "random_state": 0, "threshold": 0.01}
    group = group_inference(results, "bootstrap", "cluster-fdr", **options)
    found = group.pvalues() <= 0.05
    voxel = (group.geometry.points == [8, 4, 4]).all(axis=1)
    assert found[voxel].all()
    assert not found.all()


# -------------------------------------------------------------------------- arguments


@pytest.fixture(scope="module")
def eight():
    return time_courses(8, 9, effect=2.0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "anova"}, "Invalid value for 'method': 'anova'. Allowed: 'prev"),
        ({"correction": "sidak"}, "'correction': 'sidak'.* 'max' controls the family"),
        ({"correction": 5}, "Invalid value for 'correction': 5. Allowed: 'none', 'max"),
        ({"correction": ["max", 5]}, "Invalid value for 'correction': 5"),
        (
            {"correction": "clusters", "method": "bootstrap"},
            "'clusters'.*'tfce', 'cluster-fdr'",
        ),
        ({"correction": []}, "correction is an empty list"),
        ({"correction": "cluster-fdr"}, "is that of method='bootstrap'"),
        ({"alternative": "two-sided"}, "have alternative='greater'"),
        ({"alternative": "up", "method": "t"}, "Invalid value for 'alternative'"),
        ({"alpha": 0}, "Invalid value for 'alpha': 0"),
        ({"alpha": "5%"}, "Invalid value for 'alpha': '5%'"),
        ({"alpha": 5}, r"'alpha': 5\. Allowed: .* below 1, such as 0\.05\."),
        ({"labels": ["a", "b"]}, "labels name results and other; pass other"),
        ({"labels": ["a", "a"]}, r"'labels': \['a', 'a'\]. Allowed: two different"),
        ({"labels": "ab"}, "'labels': 'ab'. Allowed: two different"),
        ({"threshold": 0.5, "method": "t"}, "'threshold': 0.5. Allowed: .* below 0.5"),
        ({"threshold": "0.1"}, "'threshold': '0.1'. Allowed: a p-level"),
        ({"threshold": 3.1, "method": "t"}, r"no t or z: t\(7\) = 3.1 is a p of 0.008"),
        ({"threshold": 3.1}, "no t or z: z = 3.1 is a p of 0.00097"),
        ({"threshold": 1.5}, "Invalid value for 'threshold': 1.5"),
        ({"threshold": 0.6, "method": "t"}, "'threshold': 0.6. Allowed: a p-level"),
        ({"n_permutations": 0}, "n_permutations"),
        ({"metric": "roc_auc"}, "roc_auc"),
        ({"paired": True}, "pass other="),
        ({"resample": np.array([1j, 2])}, "'resample': .* Allowed: True or False"),
        ({"subjects": ["a"]}, "subjects must name each of the 8 results"),
    ],
)
def test_wrong_arguments_are_explained(eight, options, match):
    with pytest.raises((ValueError, TypeError), match=match):
        group_inference(eight, **options)


def test_wrong_second_lists_are_explained(eight):
    with pytest.raises(ValueError, match="takes no other group"):
        group_inference(eight[:4], "prevalence", other=eight[4:])
    with pytest.raises(ValueError, match="results has 5 and other 3"):
        group_inference(eight[:5], "t", other=eight[5:], paired=True)
    with pytest.raises(ValueError, match="are the same object"):
        group_inference(eight[:5], "t", other=eight[4:])
    with pytest.raises(ValueError, match="other holds a single subject"):
        group_inference(eight[:5], "t", other=eight[5:6])


def test_paired_files_of_different_subjects_are_refused(eight, tmp_path):
    files = []
    for number, result in enumerate(eight):
        files.append(tmp_path / f"sub-{number}.h5")
        result.save(files[-1])
    with pytest.raises(ValueError, match="number 1 is 'sub-4' instead of 'sub-0'"):
        group_inference(files[:4], "t", other=files[4:], paired=True)
    mixed = [files[4], *files[1:4]]
    with pytest.raises(ValueError, match=r"order: number 1 is [^,]*\. Sort"):
        group_inference(files[:4], "t", other=mixed, paired=True)
    names = ["a", "b", "c", "d"]
    options = {"other": files[4:], "paired": True, "subjects": names}
    group = group_inference(files[:4], "t", "none", **options)
    assert list(group.subjects) == names


def test_too_few_subjects_or_permutations_are_told():
    few = time_courses(3, 3)
    with pytest.warns(RuntimeWarning, match="3 subjects and 7 .* 'max' is 0.125"):
        group_inference(few, "sign-flip")
    with pytest.warns(RuntimeWarning, match="'max' is 0.0909.* n_permutations=200"):
        group_inference(few, "bootstrap", n_permutations=10)
    with pytest.warns(RuntimeWarning, match="no prevalence bound at 4 positions at"):
        group_inference(few, n_permutations=50)
    words = r"bound cannot exceed 0\.16, so .* More subjects can show it\.$"
    with pytest.warns(RuntimeWarning, match=words):
        group_inference(few, correction="none", n_permutations=50)
    with pytest.warns(RuntimeWarning, match="nothing can be significant") as told:
        group_inference(few, n_permutations=10)
    assert len(told) == 1  # that the bound is out of reach goes without saying
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        group_inference(few, "t", "none")


def test_one_sided_correction_of_bootstrap_clusters(eight):
    with pytest.raises(ValueError, match="clusters of high scores only"):
        group_inference(eight, "bootstrap", "cluster-fdr", alternative="less")


def test_what_was_not_asked_for_is_not_there(eight):
    group = group_inference(eight, n_permutations=200, random_state=0)
    with pytest.raises(ValueError, match=r"correction=\['max', 'tfce'\]"):
        group.pvalues("tfce")
    with pytest.raises(ValueError, match="Invalid value for 'correction'"):
        group.pvalues("sidak")
    with pytest.raises(ValueError, match="Invalid value for 'hypothesis': 'half'"):
        group.pvalues(hypothesis="half")
    with pytest.raises(ValueError, match=r"Invalid value for 'hypothesis': 1\.5"):
        group.pvalues(hypothesis=1.5)
    with pytest.raises(ValueError, match="no image of 4 times"):
        group.to_img()
    with pytest.raises(ValueError, match="no peaks in a table for 4 times"):
        group.peaks()
    with pytest.raises(AttributeError, match="no attribute 'train_times'"):
        _ = group.train_times
    t = group_inference(eight, "t", "none")
    with pytest.raises(AttributeError, match="gives no bound of the prevalence"):
        _ = t.gamma_0
    with pytest.raises(ValueError, match="no null hypothesis about a share"):
        t.pvalues(hypothesis="majority")


def test_clusters_test_the_global_null_only(eight):
    group = group_inference(eight, correction="cluster", n_permutations=999)
    assert np.isfinite(group.pvalues()).all()
    with pytest.raises(ValueError, match="tests the global null hypothesis only"):
        group.pvalues(hypothesis="majority")


def test_metric_without_chance_has_no_one_sample_test():
    X = np.random.default_rng(0).normal(size=(3, 20, 2))
    name = "neg_mean_squared_error"
    options = {"scoring": name, "cv": 5, "n_permutations": 9, "random_state": 0}
    results = [regress(x, x[:, 0] + np.arange(20), **options) for x in X]
    with pytest.raises(ValueError, match="no chance level to test against"):
        group_inference(results, "t")
    assert group_inference(results, "bootstrap").chance != 0


def test_same_names_in_both_groups_are_told(eight, tmp_path):
    files = []
    for number, result in enumerate(eight):
        files.append(tmp_path / f"{number // 4}" / f"sub-{number % 4}.h5")
        files[-1].parent.mkdir(exist_ok=True)
        result.save(files[-1])
    lists = files[:4], "t", "none"
    words = r"'sub-0', 'sub-1', 'sub-2' and 1 more are in .* paired=True"
    with pytest.warns(RuntimeWarning, match=words):
        assert not group_inference(*lists, other=files[4:]).paired
    names = ["a", "b", "c", "sub-3"]
    with pytest.warns(RuntimeWarning, match="'sub-3' are in both"):
        group_inference(*lists, other=files[4:], subjects=names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert group_inference(*lists, other=files[4:], paired=True).paired
        names = ["a", "b", "c", "d"]
        group = group_inference(*lists, other=files[4:], subjects=names)
        assert list(group.subjects) == names
        group_inference(eight[:4], "t", "none", other=eight[4:])  # have no names


def told_by(*arguments, **options):
    """Return the warnings of an inference in words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        group_inference(*arguments, **options)
    return [str(each.message) for each in told]


def test_wilcoxon_out_of_reach_is_told():
    few, others = time_courses(4, 0), time_courses(4, 0, seed=9)
    (words,) = told_by(few, "wilcoxon", "none")
    assert (
        "With 4 subjects the smallest p-value attainable with correction 'none'"
        in words
    )
    assert "is 0.0625, above alpha=0.05" in words
    assert "More subjects make it smaller." in words
    (words,) = told_by(few, "wilcoxon", "fdr", alternative="two-sided", alpha=0.1)
    assert "is 0.125" in words
    (words,) = told_by(time_courses(5, 0), "wilcoxon", "bonferroni")
    assert "is 0.125" in words  # 4 times 1 of 32
    assert not told_by(time_courses(5, 0), "wilcoxon", "none")
    (words,) = told_by(few[:3], "wilcoxon", "none", other=others[:2])
    assert "'none' is 0.0956," in words  # of ties; without any it is 2 of 10
    assert not told_by(few, "wilcoxon", "none", other=others)  # 2 of 70
    assert not told_by(few, "t", "bonferroni")


def test_rank_sums_of_ties_may_go_below_their_exact_floor():
    results = time_courses(6, 0)
    for number, result in enumerate(results):
        result.scores[...] = 0.4 + 0.2 * (number < 3)
    assert not told_by(results[:3], "wilcoxon", "none", other=results[3:])


def test_number_of_permutations_by_default(eight):
    group = group_inference(eight[:3], random_state=0)
    assert group.n_permutations == 999  # all there are
    assert group.parameters["n_permutations"] == 10_000


def test_names_of_what_is_compared(eight, tmp_path):
    options = {"other": eight[4:], "labels": ["patients", "controls"]}
    group = group_inference(eight[:4], "t", "none", **options)
    assert group.labels == ("patients", "controls")
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5").labels == group.labels
    del options["labels"]
    default = group_inference(eight[:4], "t", "none", **options)
    assert default.labels == ("first", "second")
    assert default != group


def test_table_and_words_of_differences(eight):
    group = group_inference(eight[:4], "t", "none", other=eight[4:])
    table = group.to_dataframe()
    assert list(table) == [
        "time",
        *(f"accuracy_{what}" for what in ("difference", "first", "second")),
        "statistic",
        "p",
    ]
    first, second = (
        np.mean([r.scores for r in each], axis=0) for each in (eight[:4], eight[4:])
    )
    assert_allclose(table["accuracy_first"], first, **EXACT)
    assert_allclose(table["accuracy_second"], second, **EXACT)
    assert_allclose(table["accuracy_difference"], first - second, **EXACT)
    largest = max(group.scores, key=abs)
    words = f"largest difference in accuracy {rounded(largest, sign='+')} at"
    assert words in repr(group)
    turned = group_inference(eight[4:], "t", "none", other=eight[:4])
    assert f"{rounded(-largest, sign='+')} at " in repr(turned)
    assert "accuracy" in group_inference(eight, "t", "none").to_dataframe()


def test_images_of_the_majority_null():
    results = [of_voxels(seed) for seed in range(8)]
    group = group_inference(results, n_permutations=999, random_state=0)
    where = group.geometry.mask
    p = group.pvalues(hypothesis="majority")
    assert (p > group.pvalues()).any()
    shown = group.to_img("p", hypothesis="majority").get_fdata()
    assert_array_equal(shown[where], p)
    for name, values in (
        ("neglog10p", -np.log10(p)),
        ("z", stats.norm.isf(np.minimum(p, 0.999))),
    ):
        shown = group.to_img(name, correction="max", hypothesis="majority").get_fdata()
        assert_allclose(shown[where], values, rtol=1e-5, atol=1e-6)
        assert (shown[~where] == 0).all()


def test_spellings_and_numbers_that_are_none(eight):
    group = group_inference(eight, "sign_flip", ["FDR", "Max_Step_Down"])
    assert group.method == "sign-flip"
    assert group.correction == ("fdr", "max-step-down")
    assert_array_equal(group.pvalues("MAX_step_down"), group.pvalues("max-step-down"))
    group = group_inference(eight, n_permutations=200, random_state=0)
    for null in ([0.5], True):
        with pytest.raises(ValueError, match="Invalid value for 'hypothesis'"):
            group.pvalues(hypothesis=null)
    with pytest.raises(ValueError, match="Invalid value for 'alpha': 'x'"):
        group.prevalence_bound(alpha="x")
    with pytest.raises(ValueError, match="'correction': 5"):
        group.pvalues(5)


def test_clusters_of_a_single_position():
    results = [of_arrays(seed) for seed in range(6)]
    options = {"n_permutations": 199, "random_state": 0, "threshold": 0.1}
    group = group_inference(results, "bootstrap", "cluster-fdr", **options)
    assert 0 < group.pvalues() <= 1


def test_bound_is_corrected_by_the_maximum_whatever_is_asked_first(eight):
    options = {"n_permutations": 9999, "random_state": 0}
    group = group_inference(eight, correction=["fdr", "max"], **options)
    expected = group_inference(eight, **options).gamma_0
    assert np.isfinite(expected).any()
    assert_array_equal(group.gamma_0, expected)
    assert (group.prevalence_bound("none") > group.gamma_0)[-1]


def unbalanced(seed, n_more, n_trials=20, n_permutations=9):
    """Return the result of noise, with `n_more` trials more in one class."""
    rng, half = np.random.default_rng(seed), n_trials // 2
    y = np.repeat(["face", "house"], [half + n_more // 2, half - n_more // 2])
    X = rng.normal(size=(n_trials, 3, 2))
    options = {"cv": 4, "n_permutations": n_permutations, "random_state": 0}
    return decode_arrays(X, y, scoring=["accuracy", "balanced_accuracy"], **options)


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
@pytest.mark.parametrize("method", ["t", "sign-flip", "wilcoxon"])
def test_unequal_classes_are_tested_against_permuted_labels(method):
    options = {"random_state": 0, "n_permutations": 999}
    equal = [unbalanced(seed, 0) for seed in range(7)]
    others = [unbalanced(seed, 4) for seed in range(7, 14)]
    mixed = [*equal, others[0]]
    group = group_inference(mixed, method, **options)
    means = np.stack([each.nulls["accuracy"].mean(axis=0) for each in mixed])
    assert_allclose(group.permuted_means, means, rtol=1e-12, atol=0)
    # Ranks that differ by rounding are ties.
    differences = np.round(np.stack([each.scores for each in mixed]) - means, 12)
    expected = {
        "t": lambda x: stats.ttest_1samp(x, 0, alternative="greater").pvalue,
        "wilcoxon": lambda x: stats.wilcoxon(x, alternative="greater").pvalue,
    }.get(method)
    if expected is not None:
        assert_allclose(group.pvalues("none"), expected(differences), rtol=1e-9, atol=0)
    words = f"against the mean of permuted labels ({rounded(means.mean())})"
    assert words in repr(group)
    # Of equal classes, and of metrics that weigh classes alike, chance is the level.
    for results, metric in ((equal, "accuracy"), (mixed, "balanced_accuracy")):
        group = group_inference(results, method, metric=metric, **options)
        assert group.permuted_means is None
        if method == "t":
            scores = np.stack([each.metrics[metric] for each in results])
            p = stats.ttest_1samp(scores, 0.5, alternative="greater").pvalue
            assert_allclose(group.pvalues("none"), p, rtol=1e-9, atol=0)
    for paired in (False, True):
        assert not told_by(equal, method, other=others, paired=paired, **options)
    assert group_inference(mixed, "bootstrap", **options).permuted_means is None


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
def test_lists_of_other_class_sizes_are_refused():
    lists = [
        [unbalanced(seed, n, 60, 100) for seed in range(start, start + 8)]
        for start, n in ((0, 0), (10, 40), (20, 40))
    ]
    words = (
        "Permuted labels have a mean accuracy of 0.4.* Use metric='balanced_accuracy'"
    )
    for paired in (False, True):
        with pytest.raises(ValueError, match=words):
            group_inference(lists[0], "t", "none", other=lists[1], paired=paired)
    assert not told_by(lists[1], "t", "none", other=lists[2])
    balanced = {"metric": "balanced_accuracy", "other": lists[1]}
    assert not told_by(lists[0], "t", "none", **balanced)


def test_lists_of_equal_classes_and_other_numbers_of_trials_are_told():
    def equal(seed, n):
        rng = np.random.default_rng(seed)
        y, X = rng.permutation(np.arange(n) % 2), rng.normal(size=(n, 6, 2))
        return decode_arrays(X, y, n_permutations=200, random_state=seed, reg=0.3)

    few, many = ([equal(100 * n + i, n) for i in range(16)] for n in (12, 100))
    (words,) = told_by(few, "t", "none", other=many)
    assert words.startswith("Permuted labels have a mean accuracy of 0.4")


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
def test_unequal_classes_without_permutations_are_refused():
    equal = [unbalanced(seed, 0, n_permutations=0) for seed in range(5)]
    for n_more, refused in ((2, False), (4, True)):
        mixed = [*equal, unbalanced(9, n_more, n_permutations=0)]
        assert not told_by(mixed, "t", "none", metric="balanced_accuracy")
        if refused:
            words = r"1\.2 times as frequent.* 'roc_auc' .*, which 6 of 6 subjects lack"
            with pytest.raises(ValueError, match=words):
                group_inference(mixed, "t", "none")
            continue
        (words,) = told_by(mixed, "t", "none")
        assert "1.1 times as frequent as equal ones" in words
        assert "decode with n_permutations=100" in words


@pytest.mark.filterwarnings("ignore:Class .* always guessing")
def test_noise_of_unequal_classes_is_not_significant():
    rng, y = np.random.default_rng(0), np.repeat(["face", "house"], [100, 20])
    options = {"cv": 5, "n_permutations": 50, "random_state": 0}
    results = [
        cross_validate(rng.normal(size=(120, 10)), rng.permutation(y), **options)
        for _ in range(12)
    ]
    scores = np.array([each.scores for each in results])
    assert stats.ttest_1samp(scores, 0.5, alternative="greater").pvalue < 0.005
    for method in ("t", "sign-flip", "wilcoxon"):
        group = group_inference(results, method, random_state=0)
        assert group.pvalues() > 0.05
        assert "above the mean of permuted labels" in word_question(group)
        assert "minus the mean of permuted labels of each sub" in methods_text(group)
        names = group.plot().get_legend_handles_labels()[1]
        assert f"mean of permuted labels ({group.permuted_mean():.3g})" in names
    # Wherever chance stands, the mean of permuted labels stands beside it.
    group = group_inference(results, "prevalence", random_state=0)
    mean = np.mean([each.null.mean() for each in results])
    assert_allclose(group.permuted_mean(), mean, rtol=1e-12, atol=0)
    assert f"mean of permuted labels {mean:.3f}" in group.worded_peak("accuracy")


@pytest.mark.filterwarnings("ignore:.*test trials from groups that were also used")
def test_runs_of_unequal_classes_are_tested_against_permuted_labels():
    # The classes are equal, but not in runs: permuted labels score above chance.
    rng, runs, results = np.random.default_rng(0), np.repeat(np.arange(8), 12), []
    often, rarely = np.repeat([0, 1], [9, 3]), np.repeat([0, 1], [3, 9])
    folds = KFold(8, shuffle=True, random_state=0)
    options = {"cv": folds, "n_permutations": 100, "random_state": 0}
    for _ in range(6):
        y = np.concatenate([rng.permutation(each) for each in 4 * [often, rarely]])
        X = rng.normal(size=(96, 10)) + 3 * rng.normal(size=(8, 10))[runs]
        results.append(cross_validate(X, y, groups=runs, **options))
    means = np.array([each.null.mean() for each in results])
    assert means.mean() > 0.52
    group = group_inference(results, "t", "none")
    assert_allclose(group.permuted_means, means, rtol=1e-12, atol=0)


def test_corrected_p_values_are_never_below_uncorrected_ones():
    results = time_courses(15, 0, effect=0.3, n_times=2)
    corrections = ["max", "max-step-down"]
    options = {"n_permutations": 50, "alternative": "two-sided"}
    for seed in range(20):
        options["random_state"] = seed
        group = group_inference(results, "sign-flip", corrections, **options)
        for name in corrections:
            assert (group.pvalues(name) >= group.pvalues("none")).all()
        as_large = group.null_max >= group.observed_max - 1e-9
        assert_allclose(group.pvalues().min(), (1 + as_large.sum()) / 51, **EXACT)
