"""Results that become a group: who they are, what they share, and what is refused."""

import re
import tracemalloc
import warnings
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path

import nibabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from mvpa_kfda import (
    TimeResult,
    bootstrap_latency,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    load_result,
    methods_text,
    regress,
    verify,
)
from mvpa_kfda.data.space import VolumeSpace
from mvpa_kfda.data.volumes import nearest_voxels, take_voxels
from mvpa_kfda.group.subjects import MAY_DIFFER, NUMBERS, Subjects, join_lists
from mvpa_kfda.metrics.pairs import TABLES
from mvpa_kfda.reports.page import report
from mvpa_kfda.reports.summary import word_question
from mvpa_kfda.results.base import Result
from mvpa_kfda.utils.plain import recorded
from mvpa_kfda.utils.rounding import rounded
from tests import build
from tests.html_pages import draw_nothing, keep_sections, read_section

Y = np.random.default_rng(0).permutation(np.repeat(["face", "house"], 6))
N, P = len(Y), 5
OPTIONS = {"cv": 3, "n_permutations": P, "random_state": 0}
GRID = np.diag([3.0, 3.0, 3.0, 1.0])

pytestmark = pytest.mark.filterwarnings(
    "error",
    # What groups of few subjects, and unequal or sorted classes, are told elsewhere.
    "ignore:With .* (the smallest|the prevalence bound)",
    "ignore:Class .* always guessing",
    "ignore:The rows are sorted by class",
    "ignore:.*test trials from groups that were also used",
    "ignore:.* resamples",
)


def gather(results, subjects=None, n_first=None, **options):
    """Gather subjects, of whom the first list has some, or all."""
    entries, n, names = join_lists(results, subjects=subjects)
    return Subjects(entries, n if n_first is None else n_first, names, **options)


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=(N, *shape))


def kept(make):
    """Make what needs no options once."""
    once = cache(make)
    return lambda *of, **options: (make if options else once)(*of, **options)


@kept
def single(seed, **options):
    return cross_validate(noise(seed, 3), Y, **OPTIONS | options)


@kept
def timed(seed, n_times=4, **options):
    return decode_arrays(noise(seed, 3, n_times), Y, **OPTIONS | options)


@kept
def generalized(seed, **options):
    return generalize_arrays(noise(seed, 3, 4), Y, **OPTIONS | options)


# ----------------------------------------------------------------- what is put together


def test_the_second_test_of_generalization_is_gathered():
    results = [generalized(seed) for seed in range(2)]
    gathered = gather(results, need_nulls=True)
    _, (_, nulls, exempt) = gathered.tests
    for second, result in zip(nulls, results, strict=True):
        assert second.dtype == np.float32
        assert_array_equal(gathered.expand(second), result.second_nulls["accuracy"])
    assert_array_equal(gathered.expand(exempt, fill=False), np.eye(4) == 1)
    other = {"X_test": noise(9, 3, 2), "same_trials": True}
    gathered = gather([generalized(k, **other) for k in range(2)], need_nulls=True)
    assert gathered.first.places.shape == (4, 2)
    assert not gathered.tests[1][2].any()
    other = {"X_test": noise(9, 3, 4), "y_test": Y, "same_trials": False, "cv": None}
    others = [generalized(seed, **other) for seed in range(2)]
    courses = [results[0].diagonal(), timed(1)]  # go together
    for single_test in (others, courses):
        ((*_, exempt),) = gather(single_test, need_nulls=True).tests
        assert not exempt.any()
    with pytest.raises(ValueError, match=r"Subject 2 has mode='other_trials', but"):
        gather([results[0], others[1]])
    with pytest.raises(ValueError, match=r"Subject 2 and the first .* n_permutations"):
        gather([results[0], replace(results[1], second_nulls={})], need_nulls=True)


def test_tables_of_pairs_are_means_over_the_first_list():
    scores = {"scoring": ["accuracy", *TABLES.values()]}
    results = [timed(seed, reg=0.1, **scores) for seed in range(3)]
    gathered = gather(results, n_first=2)
    assert {*gathered.matrices} == {*results[0].matrices} == {*TABLES}
    for kind, values in gathered.matrices.items():
        expected = np.mean([each.matrices[kind] for each in results[:2]], axis=0)
        assert_allclose(values, expected, rtol=1e-6, atol=1e-12)
    assert_array_equal(gathered.classes, results[0].classes)


def save(results, paths):
    for result, path in zip(results, paths, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        result.save(path)
    return paths


@pytest.mark.parametrize(
    ("ends", "names"),
    [
        (("sub-01/result.h5", "sub-02/result.h5"), ("sub-01", "sub-02")),
        (("sub-a_time.h5", "xsub-a_sub-b_time.h5"), ("sub-a", "sub-b")),
        (("sub-01/ses-1/r.h5", "sub-01/ses-2/r.h5"), ("ses-1/r", "ses-2/r")),
        (("sub-01/a.h5", "sub-01/b.h5"), ("a", "b")),
        (("first.v1.h5", "first.v2.h5"), ("first.v1", "first.v2")),
        (("ann.v1", "ann.v2"), ("ann.v1", "ann.v2")),
        (("ann.h5", "ann"), ("subject 1", "subject 2")),
    ],
)
def test_names_from_paths(ends, names):
    # The folder above all is no name of one.
    paths = [Path("sub-study") / end for end in ends]
    assert join_lists(paths)[2] == names
    assert join_lists(list(map(str, paths)), subjects=["x", 7])[2] == ("x", "7")


def test_names_of_objects_beside_files_and_patterns(tmp_path):
    for name, expected in (
        ("subject 2", ("subject 1", "subject 2")),
        ("ann", ("ann", "subject 2")),
    ):
        assert join_lists([f"{name}.h5", single(1)])[2] == expected
    (path,) = save([single(0)], [tmp_path / "sub-[1].h5"])
    assert gather([path, single(1)]).names == ("sub-[1]", "subject 2")
    for pattern in (tmp_path / "sub-*.h5", "sub-0?.h5"):
        with pytest.raises(FileNotFoundError, match=r"has to be expanded: sorted\(glo"):
            gather([pattern])


def of_classes(seed, n_face=6, n_house=6, **options):
    """A result of so many trials of each class."""
    y = np.repeat(["face", "house"], [n_face, n_house])
    X = np.random.default_rng(seed).normal(size=(len(y), 3))
    y = np.random.default_rng(seed).permutation(y)
    return cross_validate(X, y, **{"cv": 2, "n_permutations": P} | options)


def test_subjects_with_few_trials_are_left_out(tmp_path):
    enough = [of_classes(seed, 7, 6, random_state=0) for seed in range(5)]
    few = of_classes(7, 8, 5, random_state=0)
    paths = build.saved_in(tmp_path, [*enough[:2], few, *enough[2:]])
    options = {"method": "t", "correction": "none", "random_state": 0}
    group = group_inference(paths, min_trials=6, **options)
    kept = [path for path in paths if "sub-03" not in str(path)]
    assert replace(group, subject_warnings={}) == replace(
        group_inference(kept, **options), subject_warnings={}
    )
    assert list(group.subjects) == ["sub-01", "sub-02", "sub-04", "sub-05", "sub-06"]
    group.save(tmp_path / "group.h5")
    group = load_result(tmp_path / "group.h5")
    words = (
        "Subjects had at least 6 trials of each class; 1 subject with fewer was left "
        "out: sub-03 (5 house)."
    )
    assert words in methods_text(group)
    assert "5 subjects (1 left out, with too few trials)" in repr(group)
    assert verify(group, paths).ok
    everybody = group_inference(paths, min_trials=5, **options)
    assert len(everybody.subjects) == 6
    assert "5 trials of each class. " in methods_text(everybody)
    # Of a pair both are left out.
    with_few = [few, *enough[1:]], [of_classes(seed) for seed in range(20, 25)]
    paired = {"method": "t", "correction": "none", "paired": True, "random_state": 0}
    group = group_inference(with_few[0], other=with_few[1], min_trials=6, **paired)
    expected = group_inference(
        with_few[0][1:], other=with_few[1][1:], subjects=list(group.subjects), **paired
    )
    assert_array_equal(group.pvalues(), expected.pvalues())
    assert list(group.subjects) == [f"subject {i}" for i in range(2, 6)]
    assert verify(group, with_few[0], other=with_few[1]).ok
    swapped = group_inference(with_few[1], other=with_few[0], min_trials=6, **paired)
    assert list(swapped.subjects) == list(group.subjects)
    apart = paired | {"paired": False}
    group = group_inference(with_few[0], other=with_few[1], min_trials=6, **apart)
    assert (len(group.subjects), len(group.other_subjects)) == (4, 5)


@pytest.mark.parametrize("is_few", [False, True])
@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({}, 8),
        ({"average": 2}, 8),  # trials, not averages
        ({"n_repeats": 2, "average": 2}, 8),
        ({"n_repeats": 3, "equalize": True, "average": 1}, 8),
        ({"train_on": np.arange(16) < 10}, None),
    ],
)
def test_trials_of_each_class_are_counted(options, least, is_few):
    y = [np.repeat(["face", "house"], n) for n in (5, 3)]
    y = np.concatenate([*map(np.random.default_rng(0).permutation, y)])
    if least is None:  # 5 and 5 to train on, 3 and 3 to test
        least, options = 3, options | {"cv": None}
    results = []
    for seed in range(2):
        options = {"cv": 2, "random_state": seed} | options
        X = np.random.default_rng(seed).normal(size=(16, 3))
        results.append(cross_validate(X, y, **options))
    if is_few:
        with pytest.raises(ValueError, match=rf"{least + 1} leaves .* 1 \({least} fa"):
            group_inference(results, "t", min_trials=least + 1)
    else:
        assert len(group_inference(results, "t", "none", min_trials=least).subjects) > 1


def test_trials_of_values_are_counted():
    results = [
        regress(
            noise(seed, 3), noise(9 - seed), cv=3, scoring="pearsonr", random_state=0
        )
        for seed in range(2)
    ]
    group = group_inference(results, "t", "none", min_trials=N)
    assert "Subjects had at least 12 trials. " in methods_text(group)
    for least, match in (
        (N + 1, r"out subject 1 \(12\) and subject"),
        (0, "min_trials"),
    ):
        with pytest.raises(ValueError, match=match):
            group_inference(results, "t", "none", min_trials=least)


def test_names_in_both_lists(tmp_path):
    results = [single(seed) for seed in range(4)]
    ends = ["0/sub-0.h5", "0/sub-1.h5", "1/sub-0.h5", "1/sub-1.h5"]
    files = save(results, [tmp_path / end for end in ends])
    lists, other = (files[:2], "t", "none"), files[2:]
    with pytest.warns(RuntimeWarning, match="'sub-0', 'sub-1' are .* paired=True"):
        assert not group_inference(*lists, other=other).paired
    assert group_inference(*lists, other=other, paired=True).paired
    names = ["a", "b"]
    group = group_inference(*lists, other=other, subjects=names)
    assert list(group.subjects) == names
    group_inference(results[:2], "t", "none", other=results[2:])  # have no names
    # No file is read for their names.
    four, more = ([f"{k}/sub-{i}.h5" for i in range(4)] for k in range(2))
    with pytest.warns(RuntimeWarning, match="'sub-0', 'sub-1', 'sub-2' and 1 more are"):
        join_lists(four, more)
    with pytest.warns(RuntimeWarning, match="^'sub-3' are in both"):
        join_lists(four, more, subjects=["a", "b", "c", "sub-3"])
    renamed = [f"sub-{k}.h5" for k in range(4, 8)]
    with pytest.raises(ValueError, match="number 1 is 'sub-4' instead of 'sub-0'"):
        join_lists(four, renamed, paired=True)
    with pytest.raises(ValueError, match=r"order: number 1 is [^,]*\. Sort"):
        join_lists(four, [renamed[0], *more[1:]], paired=True)
    names = ["a", "b", "c", "d"]
    _, n_first, joined = join_lists(four, renamed, names, paired=True)
    assert (n_first, joined[:4], len(joined)) == (4, (*names,), 8)


# --------------------------------------------------------------- what cannot be a group


class GroupResult(Result):
    """What is no result of one subject."""


@pytest.mark.parametrize(
    ("results", "error", "match"),
    [
        ("sub-*.h5", TypeError, r"the text 'sub-\*.h5'.* sorted\(glob.glob\(pattern"),
        (Path("a.h5"), TypeError, r"the text 'a.h5'\. Pass a list"),
        ({"a": 1}, TypeError, r"got a dict\. Pass list\(results.values\(\)\)"),
        (None, TypeError, r"got a NoneType\. Pass a list of two or more"),
        ([], ValueError, r"results is empty; pass two or more"),
        ([1], ValueError, r"single subject.* result\.pvalues\(\) tests one"),
        ([1, 2], TypeError, r"^Subject 1 is no result but a int\. Allowed"),
        ([GroupResult(), 2], TypeError, "^Subject 1 is a GroupResult, which"),
    ],
)
def test_what_is_no_list_of_results(results, error, match):
    with pytest.raises(error, match=match):
        gather(results)


@pytest.mark.parametrize("subjects", ["ab", 2, ["a"], ["a", "a"], ["a", "b", "c"]])
def test_subjects_must_name_each(subjects):
    with pytest.raises(ValueError, match=r"each of the 2 results once, all names"):
        gather([single(0), single(1)], subjects=subjects)


def test_files_that_cannot_be_read(tmp_path):
    good, bad = save([single(0), single(1)], [tmp_path / "sub-1.h5", tmp_path / "s.h5"])
    with pytest.raises(FileNotFoundError, match=r"Subject sub-2 \(.*\): There is no f"):
        gather([good, tmp_path / "sub-2.h5"])
    bad.write_bytes(bad.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"^Subject s \(.*s\.h5\): .* damaged"):
        gather([good, bad])


def test_a_subject_that_comes_twice(tmp_path, monkeypatch):
    a, b = single(0), single(1)
    one, other = save([a, b], [tmp_path / "sub-1.h5", tmp_path / "sub-2.h5"])
    monkeypatch.chdir(tmp_path)
    link, copy = tmp_path / "sub-9.h5", tmp_path / "sub-8.h5"
    link.symlink_to(one)
    copy.write_bytes(one.read_bytes())
    same = r"Subject 1 \(sub-1\.h5\) and subject 2 \(.*\) are the same file; list each"
    for given, match in (
        ([a, b, a], r"Subject 1 and subject 3 are the same obj"),
        (["sub-1.h5", one, other], same),
        ([one, other, link], r"Subject sub-1 .* subject sub-9 .* same fil"),
        ([one, other, copy], "have equal results: one may be a copy"),
        ([a, b, copy], "have equal results: one may be a copy"),
        ([one, other, a], "have equal results: one may be a copy"),
    ):
        with pytest.raises(ValueError, match=match):
            gather(given)
    # Equal scores alone are no copies.
    moved = replace(a, class_scores=a.class_scores + 1e-3)
    gathered = gather([a, moved])
    assert gathered.scores[0] == gathered.scores[1]


def test_what_does_not_go_with_the_first():
    y = np.random.default_rng(0).permutation(np.tile(["a", "b", "c"], 4))
    three = cross_validate(noise(1, 3), y, **OPTIONS)
    sensors = build.clustered("sensors", 1)
    linked = replace(sensors, adjacency=sensors.adjacency[:, 1:])
    one, course = single(0), timed(0)
    both = single(0, scoring=["accuracy", "confusion_matrix"])
    again = r"decode again, with scoring=\['accuracy', 'confusion_matrix', 'kappa'\]"
    for first, other, match in (
        (course, one, r"a DecodingResult instead of a TimeResult\. Run its"),
        (course, timed(1, 5), r"5 times from 0\.000 to 4\.000 s instead o"),
        (course, timed(1, tmin=0.5), r"4 times from 0\.500 to 3\.500 s instead of"),
        (build.clustered("sensors"), linked, "other neighbouring sensors"),
        (one, three, r"another chance level of 'accuracy'.*0\.333333 instead of 0"),
        (one, replace(three, chances={"accuracy": np.nan}), r"nan instead of 0\.5"),
        (both, single(1, scoring="kappa"), "has no metric 'accuracy'.* 'k"),
    ):
        with pytest.raises(ValueError, match=f"^Subject 2 .*{match}"):
            gather([first, other])
    summary, bare = generalized(1, null="max"), single(1, n_permutations=0)
    for results, options, match in (
        ([course, timed(1, 5)], {"resample": True}, "True is for searchlights"),
        ([both, one], {"metric": "kappa"}, f"^Subject 1: Invalid value for.*{again}"),
        ([both, one], {"metric": "confusion_matrix"}, "1: .* is not one number per"),
        ([one, bare], {"need_nulls": True}, r"2 has no label.* subject 2 .*=100\."),
        ([generalized(0), summary], {"need_nulls": True}, r"summary .* null='full'"),
    ):
        with pytest.raises(ValueError, match=match):
            gather(results, **options)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        *(("null", value) for value in (np.nan, 1.01, -0.01)),
        *(("score", value) for value in (np.inf, 1e308)),
        ("second null", 7.0),
    ],
)
def test_damaged_values(where, value):
    results = [generalized(seed) for seed in range(3)]
    scores, null = results[1].scores.copy(), results[1].null.astype(float)
    second = results[1].second_nulls["accuracy"].copy()
    {"null": null[3], "score": scores, "second null": second[0]}[where][2, 1] = value
    kept = {"metrics": scores, "nulls": null, "second_nulls": second}
    kept = {name: {"accuracy": values} for name, values in kept.items()}
    results[1] = replace(results[1], **kept)
    with pytest.raises(ValueError, match=r"^Subject 2 has .*damaged; take it from a b"):
        gather(results, need_nulls=True)


def test_ranges_of_metrics():
    negative = [single(seed, scoring="kappa") for seed in range(2)]
    assert gather(negative, need_nulls=True).nulls[0].min() < 0
    low = replace(negative[0], metrics={"kappa": -1.2})
    with pytest.raises(ValueError, match=r"^Subject 2 has scores of 'kappa'"):
        gather([negative[1], low])


def test_a_lattice_has_no_gaps():
    results = [timed(seed) for seed in range(3)]
    for first in (0, 2):
        some = list(results)
        for k in range(first, 3):
            scores = results[k].scores.copy()
            scores[[1, 3]] = np.nan
            some[k] = replace(results[k], metrics={"accuracy": scores})
        match = (
            rf"^Subject {first + 1} has no score of 4 times .* at time 1 \(first of 2\)"
        )
        with pytest.raises(ValueError, match=match):
            gather(some)


# ------------------------------------------------------------------- volumes, resampled


def brain(mask, affine=GRID, seed=0, undecoded=()):
    """Make a result of searchlights that is noise."""
    space, rng = VolumeSpace(mask, affine), np.random.default_rng(seed)
    n = space.n_positions
    scores = rng.uniform(0.3, 0.7, n)
    null = rng.uniform(0.3, 0.7, (P, n)).astype(np.float32)
    scores[list(undecoded)] = np.nan
    pairs = np.array([np.arange(n - 1), np.arange(1, n)])
    return build.made_of_images(space, scores, null, pairs)


ROW = np.ones((4, 1, 1))


def shifted(mm, step=3.0):
    affine = np.diag([step, 3.0, 3.0, 1.0])
    affine[0, 3] = mm
    return affine


def test_positions_that_only_some_have():
    results = [brain(ROW, seed=0), brain(ROW, seed=1, undecoded=[0])]
    results.append(brain(ROW, seed=2, undecoded=[0, 2]))
    match = r"2 of 4 are left, where .* Subject 3 has fewest, 2\."
    with pytest.warns(RuntimeWarning, match=match) as caught:
        gathered = gather(results, need_nulls=True)
    assert len(caught) == 1
    assert_array_equal(gathered.counted, [False, True, False, True])
    assert_array_equal(gathered.scores, [r.scores[[1, 3]] for r in results])
    for null, result in zip(gathered.nulls, results, strict=True):
        assert null.dtype == np.float32
        assert_array_equal(null, result.null[:, [1, 3]])
    assert gathered.tests[0][2].shape == (2,)
    adjacency = gathered.first.places.adjacency(gathered.counted)
    assert adjacency.shape == (2, 2)
    assert adjacency.nnz == 0
    # Types stay where they can.
    assert_array_equal(gathered.expand([1.5, 2.5]), [np.nan, 1.5, np.nan, 2.5])
    assert gathered.expand(np.ones(2, bool), False).dtype == bool
    assert gathered.expand(np.ones((3, 2), np.float32)).dtype == np.float32
    assert gathered.expand(np.ones((3, 2), np.float32)).shape == (3, 4)
    assert gathered.expand(np.ones(2, int)).dtype == np.float64
    with pytest.raises(ValueError, match=r"0 of 4 are left.* Subject 2 has fewest, 1"):
        gather([results[1], brain(ROW, seed=3, undecoded=[1, 2, 3])])
    # Positions that nobody has are no reason to warn.
    gathered = gather([brain(ROW, seed=s, undecoded=[2]) for s in range(2)])
    assert_array_equal(gathered.counted, [True, True, False, True])


@pytest.mark.parametrize(
    ("mask", "affine", "words"),
    [
        (np.array([1, 1, 0, 1]).reshape(4, 1, 1), GRID, "3 voxels instead of 4 voxels"),
        (ROW, shifted(1.0), "grids with different affines"),
    ],
)
def test_other_grids(mask, affine, words):
    results = [brain(ROW), brain(mask, affine, seed=1)]
    match = rf"Subject 2 differs .*{words}.* resample=True brings all .* every subject"
    with pytest.raises(ValueError, match=match):
        gather(results)
    by_rounding = [brain(ROW), brain(ROW, shifted(2e-4), seed=1)]
    assert gather(by_rounding).counted.all()


# Position of the second subject at each of the first one's; -1 for none.
RESAMPLED = {
    "mask": (np.array([0, 1, 1, 1]).reshape(4, 1, 1), GRID, [-1, 0, 1, 2]),
    "shifted": (ROW, shifted(4.0), [-1, 0, 1, 2]),
    "just beyond the edge": (ROW, shifted(1.0), [0, 1, 2, 3]),
    "finer": (np.ones((12, 1, 1)), shifted(-1.0, step=1.0), [1, 4, 7, 10]),
    "flipped": (ROW, shifted(9.0, step=-3.0), [3, 2, 1, 0]),
    "longer": (np.ones((6, 1, 1)), shifted(-6.0), [2, 3, 4, 5]),
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_resampling(name):
    mask, affine, taken = RESAMPLED[name]
    taken = np.array(taken)
    first = brain(ROW, undecoded=[1])
    second = brain(mask, affine, seed=1, undecoded=[7, 9] if name == "finer" else [])
    with pytest.warns(RuntimeWarning, match=r"different positions"):
        gathered = gather([first, second], need_nulls=True, resample=True)
    expected = (taken >= 0) & ((name != "finer") | (taken != 7))
    expected[1] = False  # where the first one has no score
    assert_array_equal(gathered.counted, expected)
    assert gathered.first.places.difference(first.places) == ""
    assert_array_equal(gathered.scores[0], first.scores[expected])
    assert_array_equal(gathered.scores[1], second.scores[taken[expected]])
    assert gathered.nulls[1].dtype == np.float32
    assert_array_equal(gathered.nulls[0], first.null[:, expected])
    assert_array_equal(gathered.nulls[1], second.null[:, taken[expected]])


@pytest.mark.parametrize("mm", [-300.0, 300.0])
def test_grids_that_do_not_overlap(mm):
    with pytest.raises(ValueError, match="voxels of subject 2 do not overlap"):
        gather([brain(ROW), brain(ROW, shifted(mm), seed=1)], resample=True)


def test_nearest_voxels_of_an_oblique_grid():
    rng = np.random.default_rng(0)
    turned = nibabel.affines.from_matvec(
        2.2 * nibabel.eulerangles.euler2mat(0.3, 0.2, 0.1), [3.0, -2.0, 1.0]
    )
    space = VolumeSpace(rng.random((7, 6, 5)) < 0.7, turned)
    onto = VolumeSpace(rng.random((5, 6, 4)) < 0.8, GRID)
    numbers = np.pad(np.full(space.mask.shape, -1), 9, constant_values=-1)
    numbers[9:-9, 9:-9, 9:-9][space.mask] = np.arange(space.n_positions)
    at = nibabel.affines.apply_affine(np.linalg.inv(turned), onto.points)
    expected = numbers[tuple(9 + np.rint(at).astype(int).T)]
    assert 20 < np.count_nonzero(expected >= 0) < onto.n_positions - 20
    found = nearest_voxels(space, onto)
    assert_array_equal(found, expected)
    values = rng.normal(size=(2, space.n_positions))
    filled = np.where(expected >= 0, values[:, expected], np.nan)
    assert_array_equal(take_voxels(values, found), filled)


def test_files_are_loaded_one_after_the_other(tmp_path):
    # Of a file much is read that is not kept: the predictions, the other metric.
    mask, n_subjects, n_permutations = np.ones((20, 20, 10)), 8, 50
    paths, rng = [], np.random.default_rng(0)
    for number in range(n_subjects):
        made = brain(mask, seed=number, undecoded=[number])
        null = rng.random((n_permutations, 4000), dtype=np.float32)
        both = {"accuracy": null, "roc_auc": null}
        made = replace(
            made,
            metrics={name: made.scores for name in both},
            nulls=both,
            chances=dict.fromkeys(both, 0.5),
        )
        paths.append(tmp_path / f"sub-{number}.h5")
        made.save(paths[-1])
    tracemalloc.start()
    with pytest.warns(RuntimeWarning, match=r"3992 of 4000 are left"):
        gathered = gather(paths, need_nulls=True)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(null.nbytes for null in gathered.nulls)
    assert size == n_subjects * n_permutations * 3992 * 4
    assert kept < 1.2 * size
    # All that was kept, and one file at a time: two nulls and as much again.
    assert peak < size * (1 + 5 / n_subjects)


# ------------------------------------------------------------- analyses that differ


def differing(*recorded, make=timed):
    """Return results that record something else each."""
    results = [make(seed) for seed in range(len(recorded))]
    return [
        replace(result, parameters=result.parameters | changes)
        for result, changes in zip(results, recorded, strict=True)
    ]


RBF = {"kernel": {"name": "RBF", "gamma": 0.1}}
INSTEAD = "kernel (sub-1, sub-2, sub-3 and 2 more: RBF(gamma=0.1) instead of Lin"
NAMES = [f"E{k}" for k in range(9)]
FUNCTION = {"name": "Callable", "function": {"function": "f"}}
CV = recorded(StratifiedKFold(5, random_state=1, shuffle=True))
OTHER_CV = CV | {"n_splits": 6, "random_state": {"name": "Generator"}}


CHANNELS = r"channels \(subject 2: without E0; subject 3: without E0, E1, E2 and 2 more"
LACKING = [NAMES, NAMES[1:], [*NAMES[5:], "Oz"]]
SEEDED = {"cv": CV, "kernel": FUNCTION, "sfreq": 100.0, "n_confounds": 3}
ALIKE = {"cv": OTHER_CV, "kernel": dict(FUNCTION), "sfreq": 100.0 + 1e-9}
ALIKE |= {"n_confounds": 4, "n_folds": 6, "random_state": 2, "n_permutations": 7}
AVERAGES = [{}, *[{"average": n} for n in range(2, 7)]]
OTHER_FOLDS = {"cv": {"name": "LeaveOneGroupOut"}, "n_confounds": 3}
CHANGED = (
    r"cv \(LeaveOneGroupOut\(\) instead of KFold\(shuffle=False\)\), confounds \(yes "
    r"instead of no\)\."
)
KERNEL = r"kernel \(RBF\(gamma=0.1\) instead of Linear\(\)\)\. If this is not on pu"


@pytest.mark.parametrize(
    ("records", "n_first", "told"),
    [
        ([{}, {}, RBF], None, f"^Subject 3 was analysed .* from the first: {KERNEL}"),
        ([{}, {"average": 3}], None, r"average \(3 instead of none\)"),
        ([{}, {"folds_by_labels": True}], None, r"labels \(yes instead of no\)"),
        ([{}, {"of tomorrow": "another"}], None, r"of tomorrow \(another inst"),
        ([{"ch_names": each} for each in LACKING], None, f"^2 of 3 .*{CHANNELS} and w"),
        ([{"ch_names": NAMES}, {"ch_names": NAMES[::-1]}], None, ""),
        ([{}, OTHER_FOLDS], None, CHANGED),
        ([{}, *[RBF] * 5], None, "^5 of 6 subjects were.*" + re.escape(INSTEAD)),
        (AVERAGES, None, r"sub-3: 4 instead of none; and 2 more\)"),
        (AVERAGES[:4], None, r"subject 4: 4 instead of none\)\. If"),
        ([{}, {}, RBF, RBF], 2, ""),  # lists may differ from each other
        ([{}, {}, RBF, {}], 2, "^Subject 4 was analysed differently fro"),
        ([SEEDED, ALIKE], None, ""),
    ],
)
def test_analyses_that_differ_are_told_once(records, n_first, told):
    results, names = differing(*records), [f"sub-{k}" for k in range(len(records))]
    names = names if len(records) > 5 else None
    if not told:
        gather(results, names, n_first)  # warnings are errors
        return
    with pytest.warns(RuntimeWarning, match=told) as caught:
        gather(results, names, n_first)
    assert len(caught) == 1


KINDS = ["TimeResult", "GeneralizationResult", "VolumeResult", "RegressionResult"]
#: A map whose trials were tested in another way does not go with the others.
REFUSED = {"mode", "no mode", "no second_nulls"}


@cache
def subjects(kind):
    options = {"scoring": "pearsonr"} if "Regression" in kind else {}
    results = [build.result(kind, seed, **options) for seed in range(5)]
    # Its words have no number of folds.
    by_runs = {"cv": {"name": "LeaveOneGroupOut"}}
    return [replace(each, parameters=each.parameters | by_runs) for each in results]


def another(value):
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}2"
    if isinstance(value, dict):
        return value | {"name": f"{value['name']}2"}
    return [*(value or ()), "ANOTHER"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_the_record_is_compared_unless_it_may_differ(kind):
    others = subjects(kind)
    for name, value in others[2].parameters.items():
        changed = others[2].parameters | {name: another(value)}
        results = [*others[:2], replace(others[2], parameters=changed), *others[3:]]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if name in REFUSED:
                with pytest.raises(ValueError, match=r"Subject 3"):
                    gather(results)
                continue
            gather(results)
        told = [text for each in caught if "differently" in (text := str(each.message))]
        called = {"ch_names": "channels"}.get(name, name)
        free = name in {*MAY_DIFFER, *NUMBERS, "scoring"}
        if name == "n_confounds":  # some instead of none
            called, free = "confounds", False
        assert len(told) == (not free), (name, told)
        if not free:
            assert told[0].startswith("Subject 3 was analysed differently from")
            assert f"first: {called} (" in told[0]
    wider = replace(others[2], classes=np.array(["cat", "dog"]))
    if "Regression" not in kind:
        with pytest.warns(RuntimeWarning, match=r"classes \(cat, dog instead of"):
            gather([*others[:2], wider])


def variants(result):
    """Yield what a result may differ in from others, and the result that does."""
    for name, n_keys in (("parameters", None), ("versions", 1)):
        record = getattr(result, name)
        for key, value in [*record.items()][:n_keys]:
            lacks = {k: v for k, v in record.items() if k != key}
            yield f"no {key}", replace(result, **{name: lacks})
            yield key, replace(result, **{name: record | {key: another(value)}})
    for field in fields(result):
        default = field.default
        if field.default_factory is not MISSING:
            default = field.default_factory()
        value = getattr(result, field.name)
        is_empty = isinstance(value, dict) and not value  # and cannot be missing
        if default is not MISSING and not is_empty:
            with suppress(ValueError):  # what the others of its fields need is there
                yield f"no {field.name}", replace(result, **{field.name: default})
    groups = build.groups_of(len(result.y)) if result.groups is None else None
    yield "groups", replace(result, groups=groups)
    yield "warnings", replace(result, warnings=("The order is not random.",))
    names = [n for n in ("nulls", "second_nulls") if hasattr(result, n)]
    fewer = {n: {k: v[:4] for k, v in getattr(result, n).items()} for n in names}
    yield "permutations", replace(result, **fewer)
    first, names = result.scoring[0], ("metrics", "nulls", "chances")
    more = {n: getattr(result, n) | {"other": getattr(result, n)[first]} for n in names}
    yield "scores of another metric", replace(result, **more)


@pytest.mark.parametrize("kind", KINDS[:3])
def test_one_subject_differs_in_one_thing(kind):
    others, how = subjects(kind), {"n_permutations": 49, "random_state": 0}
    if kind == "TimeResult":
        how = {"method": "t", "correction": "none"}
    expected = group_inference(others, **how)
    place = 0 if kind == "TimeResult" else 2  # the one that others are compared with
    for number, (thing, one) in enumerate(variants(others[place])):
        results = [*others[:place], one, *others[place + 1 :]]
        if thing in REFUSED:
            with pytest.raises(ValueError, match=r"Subject [23]"):
                group_inference(results, **how)
            continue
        if number % 3 and kind != "TimeResult" and thing != "permutations":
            continue  # by turns
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it differs
            group = group_inference(results, **how)
        if thing not in ("permutations", "no second_scores"):
            assert_array_equal(group.pvalues(), expected.pvalues())
        text = methods_text(group).partition("\n\nReferences")[0]
        assert "of 5 subjects" in text
        for odd in ("None", "ANOTHER", "[", "{"):
            assert odd not in text, (thing, text)
        for title in ("Subjects", "Parameters and versions"):
            assert not thing.startswith("no ") or read_section(group, title).rows


def decoded(seed, n=36, p=4, n_runs=None, **options):
    X, codes = build.trials((n // 3,) * 3, p, 3, seed)
    if n_runs is not None:
        options["groups"] = build.groups_of(n, n_runs)
    options = {"n_permutations": 9, "random_state": seed} | options
    return decode_arrays(X, build.NAMES[codes], **options)


def test_numbers_that_subjects_do_not_share_are_ranges():
    estimated = "Each subject's scores were estimated by "
    confounds = "The effect of 1 to 2 confound regressors was removed"
    groups = estimated + "3- to 5-fold cross-validation with groups kept intact."
    for options, sentence in (
        (lambda s: {"n_runs": 3 + s, "cv": GroupKFold(3 + s)}, groups),
        (lambda s: {"confounds": np.eye(36)[:, : 1 + s % 2], "cv": 3}, confounds),
    ):
        results = [decoded(s, **options(s)) for s in range(3)]
        assert sentence in methods_text(group_inference(results, "t", "none"))


def test_times_may_differ_by_less_than_half_a_sample():
    results, step = [*subjects("TimeResult")], 0.01
    results[2] = replace(results[2], times=results[2].times + 0.4 * step)
    group = group_inference(results, "t", "none")
    assert_array_equal(group.times, results[0].times)
    assert group.parameters["first_level_differences"] == {
        "times": {"up to 0.004 s apart": ["subject 3"]}
    }
    assert "Times of subject 3 differed from those of the first" in methods_text(group)
    results[2] = replace(results[2], times=results[0].times + 0.6 * step)
    with pytest.raises(ValueError, match=r"Subject 3 differs .* 0\.006 to 0\.026"):
        group_inference(results, "t", "none")


def test_what_makes_scores_more_or_less_precise_is_told():
    n_runs = [3, 4, 3, 5]
    results = [decoded(s, n_runs=n, cv=None) for s, n in enumerate(n_runs)]
    results[3] = decoded(3, n=48, n_runs=5, cv=None)
    group = group_inference(results, "sign-flip", random_state=0)
    shared = group.parameters["first_level"]
    assert (shared["n_groups"], shared["n_folds"]) == (n_runs, n_runs)
    text = methods_text(group)
    assert "that were in 3 to 5 groups" in text
    assert "leave-one-group-out cross-validation (3 to 5 folds)." in text
    heads, *rows = read_section(group, "Subjects").rows
    assert heads[2:] == ["Trials", "Groups", "Folds", "Permutations"]
    assert [row[2:4] for row in rows] == [["36", f"{n}"] for n in n_runs[:3]] + [
        ["48", "5"]
    ]


def test_what_subjects_were_warned_of_is_told_once(tmp_path, monkeypatch):
    draw_nothing(monkeypatch)
    keep_sections(monkeypatch, "Methods", "Warnings of the run")
    alike = "Trials are in order: {} % of them."
    texts = [["Mind <b>.", alike.format(50 + k)] for k in range(4)]
    texts = [*texts, ["Mind <b>.", "No trial of <b>."]]
    results = [
        replace(one, warnings=tuple(each))
        for one, each in zip(subjects("TimeResult"), texts, strict=True)
    ]
    names = [f"sub-{k}" for k in range(5)]
    group = group_inference(results, "sign-flip", subjects=names, alpha=0.1)
    told = {
        "Mind <b>.": names,
        alike.format(50): names[:4],
        "No trial of <b>.": ["sub-4"],
    }
    assert group.subject_warnings == told
    two = group_inference(results[:3], "sign-flip", other=results[3:])
    assert two.worded_subject_warnings[0] == "5 of 5 subjects: Mind <b>."
    group.save(tmp_path / "group.h5")
    assert load_result(tmp_path / "group.h5").subject_warnings == told
    html = "".join(report(group).html)
    shown = "Trials are in order: 50 % of them. (The numbers are those of sub-0.)"
    assert f"4 of 5 subjects (sub-0, sub-1, sub-2, and sub-3): {shown}" in html
    assert html.count("Trials are in order") == 2  # and below the text on methods
    assert "1 of 5 subjects (sub-4): No trial of &lt;b&gt;.<" in html
    how = {"min_duration": 0.01, "n_bootstraps": 100, "random_state": 0}
    latency = bootstrap_latency(results, **how)
    for result in (group, latency):
        assert "5 of 5 subjects: Mind <b>." in result.warnings
    page = "".join(report(dict(zip(names, results, strict=True))).html)
    assert page.count("Mind &lt;b&gt;.") == 1
    assert "sub-0, sub-1, sub-2 and 2 more: Mind &lt;b&gt;." in page


# ------------------------------------------------ classes that are not equally frequent


def test_how_much_larger_the_largest_class_is():
    assert gather([timed(0), timed(1)]).unbalanced == 1.0
    y = np.random.default_rng(0).permutation(np.repeat(["face", "house"], [8, 4]))
    uneven = decode_arrays(noise(2, 3, 4), y, **OPTIONS)
    assert gather([timed(0), uneven, timed(1)]).unbalanced == 4 / 3
    y = np.repeat(["face", "house"], [9, 3])
    other = {"X_test": noise(9, 3, 4), "y_test": y, "same_trials": False, "cv": None}
    tested = [generalized(seed, **other) for seed in range(2)]
    assert gather(tested).unbalanced == 1.5  # of the trials that are tested
    numbers = [build.result("RegressionResult", k) for k in (0, 1)]
    assert gather(numbers).unbalanced == 1.0


def test_subjects_whose_area_rests_on_few_test_sets_are_named():
    X, y = np.random.default_rng(0).normal(size=(3, 14, 3)), np.full(14, "house")
    y[[0, 10]] = "face"
    options = {"scoring": "roc_auc", "random_state": 0}
    with pytest.warns(UserWarning, match=r"^Only 1 of 10 test sets hold class 'face' "):
        rare = [cross_validate(x, y, cv=10, **options) for x in X]
    fine = [cross_validate(x, y, cv=2, **options) for x in X]
    words = (
        r"^'roc_auc' of 3 of 6 subjects rests on fewer than half of their test sets, .*"
        r"\(subject 1: 1 of 10 with 2 trials, .*metric='balanced_accuracy'"
    )
    with pytest.warns(RuntimeWarning, match=words):
        gather([*rare, *fine])


def unbalanced(seed, n_more, n_trials=20, n_permutations=9, level=None):
    """Make a result of noise, with `n_more` trials more in one class."""
    rng, half = np.random.default_rng(seed), n_trials // 2
    level = 0.5 + n_more / n_trials / 2 if level is None else level
    hits = rng.binomial(n_trials, level, (n_permutations + 1, 2)) / n_trials
    rows = {"accuracy": hits, "balanced_accuracy": hits - level + 0.5}
    return build.made(
        TimeResult,
        hits[0],
        y=np.repeat([0, 1], [half + n_more // 2, half - n_more // 2]),
        n=n_trials,
        metrics={name: each[0] for name, each in rows.items()},
        nulls={name: each[1:] for name, each in rows.items() if n_permutations},
        chances=dict.fromkeys(rows, 0.5),
        times=np.arange(2.0),
    )


@pytest.mark.parametrize("method", ["t", "sign-flip", "wilcoxon"])
def test_unequal_classes_are_tested_against_permuted_labels(method):
    options = {"random_state": 0, "n_permutations": 99}
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
    assert group_inference(mixed, "bootstrap", **options).permuted_means is None


def test_lists_of_other_class_sizes_are_refused():
    lists = [
        [unbalanced(seed, n, 60, 100) for seed in range(start, start + 8)]
        for start, n in ((0, 0), (10, 40), (20, 40))
    ]
    words = "Permuted labels have a mean accuracy of 0.[45].* Use metric='balanced_ac"
    for paired in (False, True):
        with pytest.raises(ValueError, match=words):
            group_inference(lists[0], "t", "none", other=lists[1], paired=paired)
    group_inference(lists[1], "t", "none", other=lists[2])
    balanced = {"metric": "balanced_accuracy", "other": lists[1]}
    group_inference(lists[0], "t", "none", **balanced)
    # Few trials of equal classes are left out of balance by those that are tested.
    few, many = (
        [unbalanced(100 * n + i, 0, n, 200, level) for i in range(16)]
        for n, level in ((12, 0.45), (100, 0.5))
    )
    words = "^Permuted labels have a mean accuracy of 0.4"
    with pytest.warns(RuntimeWarning, match=words):
        group_inference(few, "t", "none", other=many)


def test_unequal_classes_without_permutations_are_refused():
    equal = [unbalanced(seed, 0, n_permutations=0) for seed in range(5)]
    some, more = ([*equal, unbalanced(9, n, n_permutations=0)] for n in (2, 4))
    for mixed in (some, more):
        group_inference(mixed, "t", "none", metric="balanced_accuracy")
    words = r"1\.2 times as frequent.* 'roc_auc' .*, which 6 of 6 subjects lack"
    with pytest.raises(ValueError, match=words):
        group_inference(more, "t", "none")
    words = "1.1 times as frequent as equal ones.* decode with n_permutations=100"
    with pytest.warns(RuntimeWarning, match=words):
        group_inference(some, "t", "none")


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
