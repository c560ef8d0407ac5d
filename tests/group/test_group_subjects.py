import re
import tracemalloc
from dataclasses import replace
from pathlib import Path

import mne
import nibabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import StratifiedKFold

from mvpa_kfda import (
    cross_validate,
    decode_arrays,
    decode_epochs,
    generalize_arrays,
    regress,
    searchlight,
)
from mvpa_kfda.data.space import VolumeSpace
from mvpa_kfda.data.volumes import nearest_voxels, take_voxels
from mvpa_kfda.group.subjects import Subjects, join_lists
from mvpa_kfda.results.base import Result
from mvpa_kfda.utils.plain import as_call, recorded
from tests import build

Y = np.random.default_rng(0).permutation(np.repeat(["face", "house"], 6))
N, P = len(Y), 5
OPTIONS = {"cv": 3, "n_permutations": P, "random_state": 0}
GRID = np.diag([3.0, 3.0, 3.0, 1.0])


pytestmark = pytest.mark.filterwarnings("error")


def gather_subjects(results, subjects=None, n_first=None, **options):
    """Gather subjects, of whom the first list has some, or all."""
    entries, n, names = join_lists(results, subjects=subjects)
    return Subjects(entries, n if n_first is None else n_first, names, **options)


def noise(seed, *shape):
    return np.random.default_rng(seed).normal(size=(N, *shape))


def single(seed, **options):
    return cross_validate(noise(seed, 3), Y, **OPTIONS | options)


def timed(seed, n_times=4, **options):
    return decode_arrays(noise(seed, 3, n_times), Y, **OPTIONS | options)


def sensors(seed, linked=(1, 2)):
    info = mne.create_info(3, sfreq=100.0, ch_types="eeg")
    epochs = mne.EpochsArray(noise(seed, 3, 4) * 1e-6, info, verbose=False)
    pairs = np.eye(3, dtype=int)
    pairs[linked, linked[::-1]] = 1
    return decode_epochs(epochs, Y, sensors=pairs, **OPTIONS)


def generalized(seed, **options):
    return generalize_arrays(noise(seed, 3, 4), Y, **OPTIONS | options)


def images(seed, shape=(3, 2, 2)):
    return nibabel.Nifti1Image(np.moveaxis(noise(seed, *shape), 0, -1), GRID)


def spheres(seed, **options):
    mask = nibabel.Nifti1Image(np.ones((3, 2, 2), np.uint8), GRID)
    return searchlight(images(seed), Y, mask_img=mask, radius=4.0, **OPTIONS | options)


def regressed(seed):
    y = np.random.default_rng(seed).normal(size=N)
    return regress(noise(seed, 3), y, **OPTIONS)


def test_second_test_of_generalization():
    results = [generalized(seed) for seed in range(2)]
    gathered = gather_subjects(results, need_nulls=True)
    _, (_, nulls, exempt) = gathered.tests
    for second, result in zip(nulls, results, strict=True):
        assert second.dtype == np.float32
        assert_array_equal(gathered.expand(second), result.second_nulls["accuracy"])
    assert_array_equal(gathered.expand(exempt, fill=False), np.eye(4) == 1)
    other = {"X_test": noise(9, 3, 2), "same_trials": True}
    others = [generalized(seed, **other) for seed in range(2)]
    gathered = gather_subjects(others, need_nulls=True)
    assert gathered.first.places.shape == (4, 2)
    _, (_, nulls, exempt) = gathered.tests
    assert len(nulls) == 2
    assert not exempt.any()
    other = {"X_test": noise(9, 3, 4), "y_test": Y, "same_trials": False, "cv": None}
    others = [generalized(seed, **other) for seed in range(2)]
    gathered = gather_subjects(others, need_nulls=True)
    ((*_, exempt),) = gathered.tests
    assert not exempt.any()
    with pytest.raises(ValueError, match=r"Subject 2 has mode='other_trials', but"):
        gather_subjects([results[0], others[1]])
    with pytest.raises(ValueError, match=r"Subject 2 and the first .* n_permutations"):
        gather_subjects(
            [results[0], replace(results[1], second_nulls={})], need_nulls=True
        )


def test_diagonals_go_with_time_courses():
    results = [generalized(0).diagonal(), timed(1)]
    assert results[0].parameters["mode"] == "plain"
    gathered = gather_subjects(results, need_nulls=True)
    assert gathered.first.places.kind == "TimeResult"
    ((*_, exempt),) = gathered.tests
    assert not exempt.any()


def test_expand_keeps_types_where_it_can():
    results = [brain(np.ones((3, 1, 1)), seed=seed, undecoded=[1]) for seed in (0, 1)]
    gathered = gather_subjects(results)
    assert_array_equal(gathered.expand([1.5, 2.5]), [1.5, np.nan, 2.5])
    assert_array_equal(gathered.expand(np.array([True, True]), False), [1, 0, 1])
    assert gathered.expand(np.ones(2, bool), False).dtype == bool
    assert gathered.expand(np.ones((4, 2), np.float32)).dtype == np.float32
    assert gathered.expand(np.ones((4, 2), np.float32)).shape == (4, 3)
    assert gathered.expand(np.ones(2, int)).dtype == np.float64


# Names


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
def test_names_from_paths(ends, names, tmp_path):
    folder = tmp_path / "sub-study"  # above all, and so no name of one
    paths = save([single(0), single(1)], [folder / end for end in ends])
    assert gather_subjects(paths).names == names
    assert gather_subjects([str(path) for path in paths], subjects=["x", 7]).names == (
        "x",
        "7",
    )


def test_names_of_objects_beside_files(tmp_path):
    (path,) = save([single(0)], [tmp_path / "subject 2.h5"])
    assert gather_subjects([path, single(1)]).names == ("subject 1", "subject 2")
    path.rename(path.with_name("ann.h5"))
    assert gather_subjects([path.with_name("ann.h5"), single(1)]).names == (
        "ann",
        "subject 2",
    )


# What cannot be a group


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
    ],
)
def test_what_is_no_list_of_results(results, error, match):
    with pytest.raises(error, match=match):
        gather_subjects(results)


@pytest.mark.parametrize("subjects", ["ab", 2, ["a"], ["a", "a"], ["a", "b", "c"]])
def test_subjects_must_name_each(subjects):
    with pytest.raises(ValueError, match=r"each of the 2 results once, all names"):
        gather_subjects([single(0), single(1)], subjects=subjects)


def test_outcome_of_a_group_analysis_is_no_subject():
    class GroupResult(Result):
        pass

    with pytest.raises(TypeError, match=r"^Subject ann is a GroupResult, which"):
        gather_subjects([single(0), GroupResult()], subjects=["bob", "ann"])


def test_files_that_cannot_be_read(tmp_path):
    good, bad = save([single(0), single(1)], [tmp_path / "sub-1.h5", tmp_path / "s.h5"])
    with pytest.raises(FileNotFoundError, match=r"Subject sub-2 \(.*\): There is no f"):
        gather_subjects([good, tmp_path / "sub-2.h5"])
    bad.write_bytes(bad.read_bytes()[:3000])
    with pytest.raises(ValueError, match=r"^Subject s \(.*s\.h5\): .* damaged"):
        gather_subjects([good, bad])


def test_a_subject_that_comes_twice(tmp_path, monkeypatch):
    a, b = single(0), single(1)
    one, other = save([a, b], [tmp_path / "sub-1.h5", tmp_path / "sub-2.h5"])
    with pytest.raises(ValueError, match=r"Subject 1 and subject 3 are the same obj"):
        gather_subjects([a, b, a])
    monkeypatch.chdir(tmp_path)
    match = r"Subject 1 \(sub-1\.h5\) and subject 2 \(.*\) are the same file; list each"
    with pytest.raises(ValueError, match=match):
        gather_subjects(["sub-1.h5", one, other])
    link = tmp_path / "sub-9.h5"
    link.symlink_to(one)
    with pytest.raises(ValueError, match=r"Subject sub-1 .* subject sub-9 .* same fil"):
        gather_subjects([one, other, link])
    copy = tmp_path / "sub-8.h5"
    copy.write_bytes(one.read_bytes())
    for given in ([one, other, copy], [a, b, copy], [one, other, a]):
        with pytest.raises(ValueError, match=r"have equal results: one may be a copy"):
            gather_subjects(given)


def test_equal_scores_are_no_copies():
    a = single(0)
    moved = replace(a, class_scores=a.class_scores + 1e-3)
    gathered = gather_subjects([a, moved])
    assert gathered.scores[0] == gathered.scores[1]


@pytest.mark.parametrize(
    ("results", "match"),
    [
        ((timed(0), single(1)), r"a DecodingResult instead of a TimeResult\. Run its"),
        ((timed(0), timed(1, n_times=5)), r"5 times from 0\.000 to 4\.000 s instead o"),
        ((timed(0), timed(1, tmin=0.5)), r"4 times from 0\.500 to 3\.500 s instead of"),
        ((sensors(0), sensors(1, linked=(0, 2))), r"other neighbouring sensors"),
    ],
    ids=["kind", "n_times", "tmin", "sensors"],
)
def test_other_positions(results, match):
    words = rf"^Subject 3 differs from the first subject: .*{match}"
    first, other = results
    second = replace(first, predicted=1 - first.predicted)
    with pytest.raises(ValueError, match=words):
        gather_subjects([first, second, other])
    with pytest.raises(ValueError, match=r"resample=True is for searchlights in vol"):
        gather_subjects([first, second, other], resample=True)
    assert gather_subjects([first, second], resample=True).counted.all()


def test_other_metrics():
    first = single(0, scoring=["accuracy", "confusion_matrix"])
    with pytest.raises(ValueError, match=r"^Subject 2 has no metric 'accuracy'.* 'bal"):
        gather_subjects([first, single(1, scoring="balanced_accuracy")])
    again = r"decode again, with scoring=\['accuracy', 'confusion_matrix', 'kappa'\]"
    with pytest.raises(
        ValueError, match=rf"^Subject 1: Invalid value for 'me.*{again}"
    ):
        gather_subjects([first, single(1)], metric="kappa")
    with pytest.raises(ValueError, match=r"^Subject 1: .* is not one number per pos"):
        gather_subjects([first, single(1)], metric="confusion_matrix")


def test_other_chance_levels():
    y = np.random.default_rng(0).permutation(np.tile(["a", "b", "c"], 4))
    three = cross_validate(noise(1, 3), y, **OPTIONS)
    match = r"^Subject 2 has another chance level of 'accuracy'.*0\.333333 instead of 0"
    with pytest.raises(ValueError, match=match):
        gather_subjects([single(0), three])
    unknown = replace(three, chances={"accuracy": np.nan})
    with pytest.raises(ValueError, match=r"nan instead of 0\.5"):
        gather_subjects([single(0), unknown])


def test_patterns_are_no_paths(tmp_path):
    (path,) = save([single(0)], [tmp_path / "sub-[1].h5"])
    for pattern in (tmp_path / "sub-*.h5", "sub-0?.h5"):
        with pytest.raises(FileNotFoundError, match=r"has to be expanded: sorted\(glo"):
            gather_subjects([pattern])
    assert gather_subjects([path, single(1)]).names == ("sub-[1]", "subject 2")


# Analyses that differ


def differing(*recorded, make=timed):
    """Return results that record something else each."""
    results = [make(seed) for seed in range(len(recorded))]
    return [
        replace(result, parameters=result.parameters | changes)
        for result, changes in zip(results, recorded, strict=True)
    ]


DEFINING = {
    "kernel": {"name": "RBF", "gamma": 0.1},
    "reg": 1.0,
    "average": 3,
    "n_components": 1,
    "permute": "within_groups",
    "window": 0.08,
    "step": 0.02,
    "window_mode": "flatten",
    "sfreq": 250.0,
    "preprocess": [{"name": "StandardScaler"}],
    "train_on": "modality == 'words'",
    "folds_by_labels": True,
    "a field of tomorrow": "another",
}


def in_words(value):
    if value is None or isinstance(value, bool):
        return {None: "none", False: "no", True: "yes"}[value]
    if isinstance(value, dict | list):
        return as_call(value)
    return f"{value:.6g}" if isinstance(value, float) else value


@pytest.mark.parametrize("name", DEFINING)
def test_another_analysis_warns(name):
    results = differing({}, {}, {name: DEFINING[name]})
    after, before = DEFINING[name], results[0].parameters.get(name)
    after, before = map(re.escape, map(str, (in_words(after), in_words(before))))
    match = (
        rf"^Subject 3 was analysed differently from the first: {name} "
        rf"\({after} instead of {before}\)\. If this is not on pu"
    )
    with pytest.warns(RuntimeWarning, match=match) as caught:
        gather_subjects(results)
    assert len(caught) == 1


def test_channels_that_subjects_lack_are_named():
    names = [f"E{k}" for k in range(9)]
    recorded = [{"ch_names": names}, {"ch_names": names[::-1]}]
    gather_subjects(differing(*recorded))
    recorded += [{"ch_names": names[1:]}, {"ch_names": [*names[5:], "Oz"]}]
    match = (
        r"^2 of 4 subjects were analysed differently from the first: channels \("
        r"subject 3: without E0; subject 4: without E0, E1, E2 and 2 more and with Oz"
    )
    with pytest.warns(RuntimeWarning, match=match):
        gather_subjects(differing(*recorded))


def test_other_kinds_of_folds_and_confounds_in_some_warn():
    folds = {"cv": {"name": "LeaveOneGroupOut"}, "n_confounds": 3}
    match = (
        r"cv \(LeaveOneGroupOut\(\) instead of KFold\(shuffle=False\)\), "
        r"confounds \(yes instead of no\)\."
    )
    with pytest.warns(RuntimeWarning, match=match):
        gather_subjects(differing({}, folds))


def test_other_radii_and_classes_warn():
    first, second = spheres(0), spheres(1)
    wider = replace(
        second,
        parameters=second.parameters | {"radius": 8.0, "standardize": False},
        classes=np.array(["cat", "dog"]),
    )
    match = r"radius \(8 .* 4\), standardize .*, classes \(cat, dog instead of face, h"
    with pytest.warns(RuntimeWarning, match=match):
        gather_subjects([first, wider])


def test_one_warning_names_three_subjects():
    other = {"kernel": {"name": "RBF", "gamma": 0.1}}
    with pytest.warns(RuntimeWarning) as caught:
        gather_subjects(
            differing({}, *[other] * 5), subjects=[f"sub-{k}" for k in range(6)]
        )
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith("5 of 6 subjects were analysed differently from the first:")
    named = "kernel (sub-1, sub-2, sub-3 and 2 more: RBF(gamma=0.1) instead of Lin"
    assert named in text


def test_analyses_that_are_the_same_do_not_warn():
    function = {"name": "Callable", "function": {"function": "f"}}
    cv = recorded(StratifiedKFold(5, random_state=1, shuffle=True))
    others = cv | {"n_splits": 6, "random_state": {"name": "Generator"}}
    seeded = {"random_state": 1, "n_confounds": 3, "cv": cv}
    gather_subjects(
        differing(
            {"sfreq": 100.0, "n_folds": 5, "kernel": function, **seeded},
            {
                "cv": others,
                "n_confounds": 4,
                "sfreq": 100.0 + 1e-9,
                "random_state": 2,
                "n_folds": 6,
                "n_permutations": 7,
                "kernel": dict(function),
            },
        )
    )


def test_lists_may_differ_from_each_other_only():
    other = {"kernel": {"name": "RBF", "gamma": 0.1}}
    results = differing({}, {}, other, other)
    gather_subjects(results, n_first=2)
    with pytest.warns(RuntimeWarning, match=r"^2 of 4 subjects were analysed diff"):
        gather_subjects(results)
    with pytest.warns(RuntimeWarning, match=r"^Subject 4 was analysed differently fro"):
        gather_subjects(differing({}, {}, other, {}), n_first=2)


def test_how_much_larger_the_largest_class_is():
    assert gather_subjects([timed(0), timed(1)]).unbalanced == 1.0
    y = np.random.default_rng(0).permutation(np.repeat(["face", "house"], [8, 4]))
    with pytest.warns(UserWarning, match=r"^Class 'face' has 8 trials, 'house' 4: alw"):
        uneven = decode_arrays(noise(2, 3, 4), y, **OPTIONS)
    assert gather_subjects([timed(0), uneven, timed(1)]).unbalanced == 4 / 3
    y = np.repeat(["face", "house"], [9, 3])
    other = {"X_test": noise(9, 3, 4), "y_test": y, "same_trials": False, "cv": None}
    with pytest.warns(UserWarning, match=r"^Class 'face' has 9 trials, 'house' 3: alw"):
        tested = [generalized(seed, **other) for seed in range(2)]
    assert gather_subjects(tested).unbalanced == 1.5  # of the trials that are tested
    assert gather_subjects([regressed(0), regressed(1)]).unbalanced == 1.0


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
        gather_subjects([*rare, *fine])


# Damage


@pytest.mark.parametrize(
    ("where", "value"),
    [
        *(("null", value) for value in (np.nan, np.inf, 1e308, 1.01, -0.01)),
        *(("score", value) for value in (np.inf, 1e308, 1.01, -0.01)),
    ],
)
def test_damaged_values(where, value):
    results = [timed(seed) for seed in range(3)]
    scores, null = results[1].scores.copy(), results[1].null.astype(float)
    if where == "null":
        null[3, 2] = value
    else:
        scores[2] = value
    results[1] = replace(
        results[1], metrics={"accuracy": scores}, nulls={"accuracy": null}
    )
    with pytest.raises(ValueError, match=r"^Subject 2 has .*damaged; take it from a b"):
        gather_subjects(results, need_nulls=True)


def test_damage_of_the_second_null():
    results = [generalized(seed) for seed in range(2)]
    second = results[1].second_nulls["accuracy"].copy()
    second[0, 1, 1] = 7.0
    results[1] = replace(results[1], second_nulls={"accuracy": second})
    with pytest.raises(ValueError, match=r"^Subject 2 .* go from 0.* to 7\. .*damaged"):
        gather_subjects(results, need_nulls=True)


def test_ranges_of_metrics():
    negative = [single(seed, scoring="kappa") for seed in range(2)]
    assert gather_subjects(negative, need_nulls=True).nulls[0].min() < 0
    errors = [
        regress(noise(k, 3), noise(k + 5), scoring="neg_mean_squared_error", **OPTIONS)
        for k in range(2)
    ]
    assert gather_subjects(errors, need_nulls=True).nulls[0].min() < -1
    low = replace(negative[0], metrics={"kappa": -1.2})
    with pytest.raises(ValueError, match=r"^Subject 2 has scores of 'kappa'"):
        gather_subjects([negative[1], low])


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
            gather_subjects(some)


def test_missing_permutations():
    bare = single(1, n_permutations=0)
    match = r"^Subject 2 has no label.* analysis of subject 2 again with n_perm.*=100\."
    with pytest.raises(ValueError, match=match):
        gather_subjects([single(0), bare], need_nulls=True)
    assert gather_subjects([single(0), bare]).nulls == ()
    for make in (spheres, generalized):
        match = r"only a summary .*\(null='max'\).* n_permutations=100 and null='full'"
        with pytest.raises(ValueError, match=match):
            gather_subjects([make(0), make(1, null="max")], need_nulls=True)


# Volumes


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
        gathered = gather_subjects(results, need_nulls=True)
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
    with pytest.raises(ValueError, match=r"0 of 4 are left.* Subject 2 has fewest, 1"):
        gather_subjects([results[1], brain(ROW, seed=3, undecoded=[1, 2, 3])])


def test_positions_that_nobody_has_are_no_reason_to_warn():
    gathered = gather_subjects([brain(ROW, seed=s, undecoded=[2]) for s in range(2)])
    assert_array_equal(gathered.counted, [True, True, False, True])


@pytest.mark.parametrize(
    ("mask", "affine", "words"),
    [
        (np.array([1, 1, 0, 1]).reshape(4, 1, 1), GRID, "3 voxels instead of 4 voxels"),
        (np.ones((5, 1, 1)), GRID, "5 voxels instead of 4 voxels"),
        (ROW, shifted(1.0), "grids with different affines"),
    ],
    ids=["mask", "shape", "affine"],
)
def test_other_grids(mask, affine, words):
    results = [brain(ROW), brain(mask, affine, seed=1)]
    match = rf"Subject 2 differs .*{words}.* resample=True brings all .* every subject"
    with pytest.raises(ValueError, match=match):
        gather_subjects(results)


def test_grids_that_differ_by_rounding():
    results = [brain(ROW), brain(ROW, shifted(2e-4), seed=1)]
    assert gather_subjects(results).counted.all()


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
    first, second = brain(ROW, undecoded=[1]), brain(mask, affine, seed=1)
    with pytest.warns(RuntimeWarning, match=r"different positions"):
        gathered = gather_subjects([first, second], need_nulls=True, resample=True)
    expected = taken >= 0
    expected[1] = False  # where the first one has no score
    assert_array_equal(gathered.counted, expected)
    assert gathered.first.places.difference(first.places) == ""
    assert_array_equal(gathered.scores[0], first.scores[expected])
    assert_array_equal(gathered.scores[1], second.scores[taken[expected]])
    assert gathered.nulls[1].dtype == np.float32
    assert_array_equal(gathered.nulls[0], first.null[:, expected])
    assert_array_equal(gathered.nulls[1], second.null[:, taken[expected]])


def test_resampling_leaves_out_what_was_not_decoded():
    finer = brain(
        np.ones((12, 1, 1)), shifted(-1.0, step=1.0), seed=1, undecoded=[4, 9]
    )
    with pytest.warns(RuntimeWarning, match=r"3 of 4 are left.*Subject 2 has fewest,"):
        gathered = gather_subjects([brain(ROW), finer], resample=True)
    assert_array_equal(gathered.counted, [True, False, True, True])


@pytest.mark.parametrize("mm", [-300.0, 300.0])
def test_resampling_of_grids_apart(mm):
    results = [brain(ROW), brain(ROW, shifted(mm), seed=1)]
    with pytest.raises(ValueError, match=r"voxels of subject 2 do not overlap .* both"):
        gather_subjects(results, resample=True)


def test_nearest_voxels_of_an_oblique_grid():
    rng = np.random.default_rng(0)
    turned = nibabel.affines.from_matvec(
        2.2 * nibabel.eulerangles.euler2mat(0.3, 0.2, 0.1), [3.0, -2.0, 1.0]
    )
    space = VolumeSpace(rng.random((7, 6, 5)) < 0.7, turned)
    onto = VolumeSpace(rng.random((5, 6, 4)) < 0.8, GRID)
    numbers = np.full(space.mask.shape, -1)
    numbers[space.mask] = np.arange(space.n_positions)
    at = nibabel.affines.apply_affine(np.linalg.inv(turned), onto.points)
    at = np.rint(at).astype(int)
    inside = ((at >= 0) & (at < space.mask.shape)).all(axis=1)
    expected = np.full(onto.n_positions, -1)
    expected[inside] = numbers[tuple(at[inside].T)]
    assert 20 < np.count_nonzero(expected >= 0) < onto.n_positions - 20
    found = nearest_voxels(space, onto)
    assert_array_equal(found, expected)
    values = rng.normal(size=(2, space.n_positions))
    taken = take_voxels(values, found)
    assert_allclose(taken[:, expected >= 0], values[:, expected[expected >= 0]], rtol=0)
    assert_array_equal(np.isnan(taken), np.tile(expected < 0, (2, 1)))


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
        gathered = gather_subjects(paths, need_nulls=True)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sum(null.nbytes for null in gathered.nulls)
    assert size == n_subjects * n_permutations * 3992 * 4
    assert kept < 1.2 * size
    # All that was kept, and one file at a time: two nulls and as much again.
    assert peak < size * (1 + 5 / n_subjects)
