"""Cross-decoding: trained on chosen trials, tested on the others, runs left out."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.decomposition import PCA
from sklearn.model_selection import (
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mvpa_kfda import (
    RBF,
    KernelFDA,
    Ridge,
    Tuned,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    group_inference,
    load_result,
    regress,
    searchlight,
    simulate_epochs,
)
from mvpa_kfda.data.trials import Trials, read_train_on
from mvpa_kfda.kfda.folds import cross_folds, left_out_folds, make_folds
from tests import build
from tests.entries import ENTRIES
from tests.reference import reference_cross_validate, reference_generalize

N, P, T, LAM = 72, 5, 3, 4.0
X, CODES = build.trials((24, 24, 24), P, T, separation=1.0)
NAMES = build.NAMES[CODES]
RUNS = build.groups_of(N)
CHOSEN = np.random.default_rng(3).permuted(np.arange(N).reshape(4, 18) % 2, axis=1)
CHOSEN = CHOSEN.ravel() == 1
PERMUTED = {"n_permutations": 12, "random_state": 5}

#: Arguments, and the pairs that they mean before trials are chosen.
SHUFFLE = ShuffleSplit(5, test_size=0.3, train_size=0.5, random_state=0)
ALL = (np.arange(N), np.arange(N))
LAYOUTS = {
    "one model": ({}, [ALL]),
    "runs": ({"groups": RUNS}, list(LeaveOneGroupOut().split(X, CODES, RUNS))),
    "neighbours": ({"cv": 5}, list(KFold(5).split(X))),
    "blind": ({"cv": KFold(4)}, list(KFold(4).split(X))),
    "overlapping": ({"cv": SHUFFLE}, list(SHUFFLE.split(X))),
    "in time": ({"cv": TimeSeriesSplit(3)}, list(TimeSeriesSplit(3).split(X))),
    "by hand": (
        {"cv": [(RUNS < 2, RUNS > 1)], "groups": RUNS},
        [(np.arange(36), np.arange(36, N))],
    ),
}
layouts = pytest.mark.parametrize(("given", "pairs"), LAYOUTS.values(), ids=LAYOUTS)


def chosen_of(pairs, chosen=CHOSEN):
    """Return the folds that train on chosen rows, and test the others, by hand."""
    return [(train[chosen[train]], test[~chosen[test]]) for train, test in pairs]


@cache
def labels_of(name):
    """Return the labels of a layout's permutations, by an analysis of chosen trials."""
    given, _ = LAYOUTS[name]
    analysis = make(NAMES, **given)
    return analysis.task.labels, analysis


def make(y, **given):
    """Return the analysis of a call with `train_on`."""
    from mvpa_kfda.decoding.analysis import make_analysis
    from mvpa_kfda.decoding.procedure import Procedure

    options = {"reg": Ridge(LAM)} | PERMUTED | given
    groups, chosen = options.pop("groups", None), read_train_on(CHOSEN, len(y))
    trials = Trials(y=y, n=len(y), groups=groups, train_on=chosen)
    return make_analysis(trials, Procedure.of(options))


# --------------------------------------------------------------- folds and permutations


@layouts
def test_folds_hold_chosen_and_other_trials(given, pairs):
    result = cross_validate(X[:, :, 0], NAMES, train_on=CHOSEN, **given)
    for found, expected in zip(result.folds, chosen_of(pairs), strict=True):
        assert_array_equal(found[0], expected[0])
        assert_array_equal(found[1], expected[1])
    never = np.ones(N, bool)
    never[np.concatenate([test for _, test in result.folds])] = False
    assert_array_equal(np.ma.getmaskarray(result.predictions), never)
    assert_array_equal(np.isnan(result.class_scores).any(axis=1), never)
    assert never[CHOSEN].all()
    assert result.parameters["train_on"] == "mask"


@pytest.mark.parametrize("name", LAYOUTS)
def test_only_the_labels_trained_with_are_permuted(name):
    labels, analysis = labels_of(name)
    assert len(labels) == 13
    assert_array_equal(labels[:, ~CHOSEN], np.tile(CODES[~CHOSEN], (13, 1)))
    assert (labels[1:, CHOSEN] != CODES[CHOSEN]).any(axis=1).all()
    blocks = np.zeros(N, int)
    if analysis.samples.groups is not None:
        blocks = RUNS
    for block in np.unique(blocks):
        mine = CHOSEN & (blocks == block)
        assert_array_equal(
            np.sort(labels[:, mine], axis=1), np.tile(np.sort(CODES[mine]), (13, 1))
        )


@pytest.mark.parametrize(
    ("name", "permute", "scheme"),
    [
        ("one model", "auto", "free"),
        ("runs", "auto", "within_groups"),
        ("runs", "within_folds", "within_folds"),
        ("neighbours", "auto", "free"),
        ("neighbours", "within_folds", "within_folds"),
        ("blind", "auto", "free"),
        ("by hand", "auto", "within_folds"),
    ],
)
def test_schemes(name, permute, scheme):
    given, _ = LAYOUTS[name]
    result = cross_validate(
        X[:, :, 0], NAMES, train_on=CHOSEN, permute=permute, **given, **PERMUTED
    )
    assert result.parameters["permute"] == scheme


def test_labels_that_are_constant_within_runs_move_with_the_runs():
    codes = np.repeat([0, 1, 0, 1, 0, 1, 0, 1], 9)
    groups = np.repeat(np.arange(8), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = make(codes, groups=groups, permute="auto")
    assert analysis.parameters["permute"] == "groups"
    for run in range(8):
        mine = analysis.task.labels[:, CHOSEN & (groups == run)]
        assert (mine == mine[:, :1]).all()
    assert (analysis.task.labels[:, ~CHOSEN] == codes[~CHOSEN]).all()


def test_all_arrangements_of_the_chosen_labels():
    codes, chosen = np.arange(10) % 2, np.arange(10) < 6
    result = cross_validate(
        np.random.default_rng(0).normal(size=(10, 3)),
        codes,
        train_on=chosen,
        n_permutations=100,
    )
    assert result.parameters["exact"]
    assert result.n_permutations == 19  # of 3 among 6 trials, the observed one aside


def test_folds_of_the_chosen_trials_alone():
    folds = cross_folds(make_folds(None, CODES, RUNS), CHOSEN)
    assert_array_equal(folds.rows_of_all, np.flatnonzero(CHOSEN))
    within = left_out_folds(folds)
    assert within.n == CHOSEN.sum()
    assert [set(RUNS[CHOSEN][test]) for test in within.tests] == [{0}, {1}, {2}, {3}]
    assert left_out_folds(cross_folds(None, CHOSEN)) is None


# ----------------------------------------------------------------- equal to refitting


@pytest.mark.some(19)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kernel", ["linear", RBF(0.1)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_one_set_of_features(name, kernel, wide):
    given, pairs = LAYOUTS[name]
    data = X[:, :, 0]
    if wide:
        noise = np.random.default_rng(1).normal(size=(N, 100))
        data = np.hstack([data, 0.1 * noise])
    K = data @ data.T
    if kernel != "linear":
        K = np.exp(-0.1 * (np.diag(K)[:, None] + np.diag(K) - 2 * K))
    result = cross_validate(
        data, NAMES, kernel=kernel, reg=Ridge(LAM), train_on=CHOSEN, **given, **PERMUTED
    )
    labels, _ = labels_of(name)
    expected = reference_cross_validate(K, CODES, chosen_of(pairs), LAM, labels)
    accuracy = (expected.predictions == CODES[expected.rows]).mean(axis=1)
    assert_allclose(result.scores, accuracy[0], rtol=1e-12)
    assert_allclose(result.null, accuracy[1:], rtol=1e-12)
    assert result.null.std() > 0
    assert_allclose(
        result.class_scores, expected.mean_class_scores(), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("name", ["runs", "neighbours"])
def test_time_generalization(name):
    given, pairs = LAYOUTS[name]
    result = generalize_arrays(
        X,
        NAMES,
        reg=Ridge(LAM),
        train_on=CHOSEN,
        keep_class_scores=True,
        **given,
        **PERMUTED,
    )
    labels, _ = labels_of(name)
    times = range(T)
    expected = reference_generalize(
        [X[:, :, t] @ X[:, :, t].T for t in times],
        [[X[:, :, u] @ X[:, :, t].T for u in times] for t in times],
        CODES,
        chosen_of(pairs),
        [LAM] * T,
        labels,
    )
    accuracy = expected.accuracy(CODES)
    assert_allclose(result.scores, accuracy[0], rtol=1e-6)
    assert_allclose(result.null, accuracy[1:], rtol=1e-6)
    assert_array_equal(result.predicted[:, :, expected.rows], expected.predictions[0])
    assert result.second_nulls == {}
    assert result.parameters["mode"] == "cross_decoding"
    larger = (accuracy[1:] >= accuracy[0] - 1e-9).sum(axis=0)
    assert_allclose(result.pvalues(), (1 + larger) / 13, rtol=1e-12)
    decoded = decode_arrays(
        X, NAMES, reg=Ridge(LAM), train_on=CHOSEN, **given, **PERMUTED
    )
    diagonal = result.diagonal()
    assert_array_equal(diagonal.predicted, decoded.predicted)
    assert_allclose(diagonal.null, decoded.null, rtol=1e-6)
    assert_array_equal(diagonal.pvalues("max"), decoded.pvalues("max"))


STEPS = {
    "zscore": ("zscore", StandardScaler),
    "pca": (PCA(3), lambda: PCA(3)),
}


@pytest.mark.parametrize(("step", "make_step"), STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("name", ["one model", "runs"])
def test_steps_are_learned_from_the_chosen_trials(name, step, make_step):
    given, pairs = LAYOUTS[name]
    data = X[:, :, 0] * np.arange(1, P + 1)
    result = cross_validate(
        data,
        NAMES,
        preprocess=step,
        reg=Ridge(LAM),
        train_on=CHOSEN,
        **given,
        **PERMUTED,
    )
    labels, _ = labels_of(name)
    for i, labelling in enumerate(labels):
        right = total = 0
        for train, test in chosen_of(pairs):
            model = make_pipeline(make_step(), KernelFDA(reg=Ridge(LAM)))
            model.fit(data[train], labelling[train])
            right += (model.predict(data[test]) == CODES[test]).sum()
            total += len(test)
        found = result.scores if i == 0 else result.null[i - 1]
        assert found == pytest.approx(right / total, rel=1e-12)


@pytest.mark.parametrize("name", ["one model", "runs"])
def test_confounds_are_removed_as_the_chosen_trials_say(name):
    given, pairs = LAYOUTS[name]
    confound = np.random.default_rng(2).normal(size=N) + CODES
    data = X[:, :, 0] + confound[:, None]
    result = cross_validate(
        data, NAMES, reg=Ridge(LAM), train_on=CHOSEN, confounds=confound, **given
    )
    right = total = 0
    for train, test in chosen_of(pairs):
        C = confound[:, None]
        slope = np.linalg.lstsq(
            C[train] - C[train].mean(), data[train] - data[train].mean(0), rcond=None
        )[0]
        clean = data - (C - C[train].mean()) @ slope
        model = KernelFDA(reg=Ridge(LAM)).fit(clean[train], CODES[train])
        right += (model.predict(clean[test]) == CODES[test]).sum()
        total += len(test)
    assert result.scores == pytest.approx(right / total, rel=1e-12)
    # And of time generalization, with and without folds.
    maps = generalize_arrays(
        np.stack([data, data], axis=2),
        NAMES,
        reg=Ridge(LAM),
        train_on=CHOSEN,
        confounds=confound,
        **given,
    )
    assert_allclose(maps.scores, right / total, rtol=1e-12)


@pytest.mark.parametrize("reg", ["tuned", Tuned([0.1, 1.0])], ids=str)
def test_penalties_are_tuned_among_the_chosen_trials(reg):
    data = X[:, :, 0]
    for name in ("one model", "runs", "blind"):
        given, pairs = LAYOUTS[name]
        result = cross_validate(data, NAMES, reg=reg, train_on=CHOSEN, **given)
        groups = given.get("groups")
        predicted = np.full(N, -1)
        for train, test in chosen_of(pairs):
            model = KernelFDA(reg=reg)
            more = {} if groups is None else {"groups": groups[train]}
            predicted[test] = model.fit(data[train], CODES[train], **more).predict(
                data[test]
            )
        assert_array_equal(result.predicted, predicted)
        assert np.shape(result.lambdas) == (len(pairs),)


def test_folds_given_by_hand_score_the_same():
    for given, pairs in LAYOUTS.values():
        options = {"reg": Ridge(2.0), "scoring": ["accuracy", "roc_auc"]}
        result = decode_arrays(X, NAMES, train_on=CHOSEN, **given, **options)
        by_hand = decode_arrays(X, NAMES, cv=chosen_of(pairs), **options)
        for name in options["scoring"]:
            assert_allclose(result.metrics[name], by_hand.metrics[name], rtol=1e-12)


def test_a_relative_penalty_is_that_of_the_chosen_trials():
    # The others may be on quite another scale, as of another session.
    data = np.where(CHOSEN[:, None], X[:, :, 0], 100 * X[:, :, 0])
    result = cross_validate(data, NAMES, reg=0.5, train_on=CHOSEN)
    model = KernelFDA(reg=0.5).fit(data[CHOSEN], CODES[CHOSEN])
    assert_array_equal(result.predicted[~CHOSEN], model.predict(data[~CHOSEN]))
    maps = generalize_arrays(data[:, :, None], NAMES, reg=0.5, train_on=CHOSEN)
    assert_array_equal(maps.predicted[0, 0], model.predict(data[~CHOSEN]))


# ------------------------------------------------------------------- nothing leaks


@pytest.mark.parametrize("preprocess", [None, "zscore"])
def test_other_trials_of_training_runs_do_not_matter(preprocess):
    rng = np.random.default_rng(0)
    options = {"groups": RUNS, "train_on": CHOSEN, "preprocess": preprocess}
    data = X[:, :, 0]
    result = cross_validate(data, NAMES, reg=Ridge(LAM), **options, **PERMUTED)
    first = ~CHOSEN & (RUNS == 0)
    changed = data.copy()
    changed[first] += 100 * rng.normal(size=(first.sum(), P))
    found = cross_validate(changed, NAMES, reg=Ridge(LAM), **options, **PERMUTED)
    rest = ~first
    assert_array_equal(found.predicted[rest], result.predicted[rest])
    assert (found.predicted[first] != result.predicted[first]).any()
    # Nor do chosen trials of the tested run.
    changed, same_run = data.copy(), CHOSEN & (RUNS == 0)
    changed[same_run] += 100 * rng.normal(size=(same_run.sum(), P))
    found = cross_validate(changed, NAMES, reg=Ridge(LAM), **options, **PERMUTED)
    assert_array_equal(found.predicted[RUNS == 0], result.predicted[RUNS == 0])
    assert (found.predicted[RUNS == 1] != result.predicted[RUNS == 1]).any()
    # Nor do the labels of tested trials, for any prediction.
    others = NAMES.copy()
    others[~CHOSEN] = rng.permutation(others[~CHOSEN])
    found = cross_validate(data, others, reg=Ridge(LAM), **options)
    assert_array_equal(found.predicted, result.predicted)


# ------------------------------------------------------- the same in every function


def metadata_of(chosen):
    return {"kind": np.where(chosen, "seen", "heard")}


QUERY = "kind == 'seen'"


@pytest.mark.parametrize("given", [{}, {"groups": "run"}], ids=["all", "runs"])
def test_epochs_are_decoded_as_arrays(given):
    epochs = build.epochs(X, CODES, units={}, run=RUNS, **metadata_of(CHOSEN))
    runs = {"groups": RUNS} if given else {}
    options = {"reg": 0.5, **PERMUTED}
    for of_epochs, of_arrays in (
        (decode_epochs, decode_arrays),
        (generalize_epochs, generalize_arrays),
    ):
        expected = of_arrays(X, NAMES, train_on=CHOSEN, **runs, **options)
        for train_on, name in ((QUERY, QUERY), (CHOSEN, "mask")):
            found = of_epochs(epochs, train_on=train_on, **given, **options)
            assert_array_equal(found.predicted, expected.predicted)
            assert_array_equal(found.null, expected.null)
            assert found.parameters["train_on"] == name
            assert found.parameters["mode" if "mode" in found.parameters else "cv"] in (
                "cross_decoding",
                "other_trials",
                {"name": "LeaveOneGroupOut"},
                None,
            )


def test_power_and_sensors():
    metadata = metadata_of(CHOSEN)
    power = build.power(X, CODES, run=RUNS, **metadata)
    found = decode_epochs(power, train_on=QUERY, groups="run", **PERMUTED)
    same = decode_arrays(
        power.data[:, :, 0], NAMES, train_on=CHOSEN, groups=RUNS, **PERMUTED
    )
    assert_array_equal(found.predicted[0], same.predicted)
    assert_array_equal(found.null[:, 0], same.null)
    epochs = build.epochs(X, CODES, units={}, run=RUNS, **metadata)
    found = decode_epochs(
        epochs, sensors=build.chain(P), train_on=QUERY, groups="run", **PERMUTED
    )
    near = [0, 1]
    same = decode_arrays(X[:, near], NAMES, train_on=CHOSEN, groups=RUNS, **PERMUTED)
    assert_array_equal(found.predicted[0], same.predicted)


def test_scales_are_those_of_the_trials_to_train_with():
    types = ("eeg", "eeg", "mag", "mag", "mag")
    data = np.where(CHOSEN[:, None, None], X, 7 * X)
    data[:, :2] *= 30
    epochs = build.epochs(data, CODES, types, run=RUNS, **metadata_of(CHOSEN))
    size = [data[CHOSEN][:, part].std() for part in (slice(2), slice(2, 5))]
    divided = data / np.repeat(size, (2, 3))[:, None]
    for function, on_arrays in (
        (decode_epochs, decode_arrays),
        (generalize_epochs, generalize_arrays),
    ):
        for given in ({}, {"groups": RUNS}):
            options = {"train_on": CHOSEN, "reg": Ridge(5.0), **given}
            found = function(epochs, **options)
            expected = on_arrays(divided, NAMES, **options)
            assert_array_equal(found.predicted, expected.predicted)


@pytest.mark.parametrize("given", [{}, {"groups": RUNS}], ids=["all", "runs"])
def test_images_are_decoded_as_arrays(given, tmp_path):
    table = pd.DataFrame({"label": NAMES, "run": RUNS, **metadata_of(CHOSEN)})
    table.to_csv(tmp_path / "labels.tsv", sep="\t", index=False)
    data, parts = X[:, :, 0], [1, 1, 2, 2, 2]
    options = {"standardize": False, "reg": 0.5, **PERMUTED}
    expected = cross_validate(
        data[:, 2:], NAMES, train_on=CHOSEN, reg=0.5, **given, **PERMUTED
    )
    regions = {"labels_img": parts, **options}
    for y, train_on in (
        (NAMES, CHOSEN),
        ((table, "label"), QUERY),
        ((tmp_path / "labels.tsv", "label"), QUERY),
        ((table, "label"), CHOSEN),
    ):
        found = decode_regions(data, y, train_on=train_on, **given, **regions)
        assert_array_equal(found.predicted[1], expected.predicted)
        assert_allclose(found.null[:, 1], expected.null, rtol=1e-6)
        name = train_on if isinstance(train_on, str) else "mask"
        assert found.parameters["train_on"] == name
    near = build.chain(P) | np.eye(P, dtype=bool)
    found = searchlight(
        data, NAMES, adjacency=near, train_on=CHOSEN, **given, **options
    )
    expected = cross_validate(data[:, :2], NAMES, train_on=CHOSEN, reg=0.5, **given)
    assert_array_equal(found.predicted[0], expected.predicted)


def test_volumes_are_z_scored_within_runs_over_both_kinds():
    cube = np.moveaxis(X, 2, 1).reshape(N, 3, 5, 1)
    in_mask = {"mask_img": build.mask(np.ones((3, 5, 1)))}
    found = searchlight(
        build.volume(cube), NAMES, groups=RUNS, train_on=CHOSEN, radius=50, **in_mask
    )
    z = cube.reshape(4, 18, 15)
    z = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, ddof=1, keepdims=True)
    expected = cross_validate(
        z.reshape(N, 15), NAMES, groups=RUNS, train_on=CHOSEN
    ).predicted
    assert_array_equal(found.predicted, np.tile(expected, (15, 1)))


OF_CLASSES = {
    name: entry for name, entry in ENTRIES.items() if entry.predicts == "classes"
}


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "entry",
    [e for e in OF_CLASSES.values() if not e.tests_others],
    ids=[n for n, e in OF_CLASSES.items() if not e.tests_others],
)
def test_workers_batches_and_files_change_nothing(entry, tmp_path, monkeypatch):
    chosen = np.random.default_rng(1).permutation(np.arange(36) % 2 == 0)
    options = {"train_on": chosen, "n_permutations": 9, "random_state": 0}
    options |= {"scoring": ["accuracy", "roc_auc"]}
    result = entry(**options)
    assert 0 < result.pvalues().min() if np.ndim(result.scores) else True
    if entry.has("n_jobs"):
        assert entry(n_jobs=2, **options) == result
    build.in_batches(2, monkeypatch)
    assert entry(**options) == result
    result.save(tmp_path / "result.h5")
    assert load_result(tmp_path / "result.h5") == result
    assert f"trained on {chosen.sum()} trials, tested on 18 others" in repr(result)
    result.plot(show=False) if entry.holder != "image" else None


# ------------------------------------------------------------------------ what results


def test_figures_say_what_was_trained_with():
    result = cross_validate(X[:, :, 0], NAMES, groups=RUNS, train_on=CHOSEN, **PERMUTED)
    words = f"trained on {CHOSEN.sum()} trials, tested on {(~CHOSEN).sum()} others"
    axes = result.plot()
    titles = [axes.get_title(loc) for loc in ("left", "center", "right")]
    title = " ".join(titles).replace("\n", " ")
    assert words in title
    assert "4 folds" in title
    maps = generalize_arrays(X, NAMES, groups=RUNS, train_on=CHOSEN)
    assert words in ", ".join(maps.title_parts())
    whole = generalize_arrays(X, NAMES, train_on=CHOSEN)
    assert words in ", ".join(whole.title_parts())


def test_curves_and_tables_are_of_the_tested_trials():
    two = NAMES != NAMES[0]
    data, y, chosen = X[two][:, :, 0], NAMES[two], CHOSEN[two]
    result = cross_validate(
        data,
        y,
        groups=RUNS[two],
        train_on=chosen,
        scoring=["accuracy", "confusion_matrix", "roc_auc"],
    )
    assert result.roc().auc > 0.5
    tested = ~np.ma.getmaskarray(result.predictions)
    assert_array_equal(tested, ~chosen)
    counts = result.metrics["confusion_matrix"]
    assert counts.sum() in (pytest.approx((~chosen).sum()), pytest.approx(2.0))
    right = (result.predictions == y)[tested].mean()
    assert result.scores == pytest.approx(right, rel=1e-12)


def test_chance_is_that_of_the_tested_trials():
    # All of one class are to be trained with, so that two are tested.
    chosen = CHOSEN | (CODES == 2)
    result = cross_validate(
        X[:, :, 0], NAMES, train_on=chosen, scoring=["accuracy", "f1_macro"]
    )
    codes = CODES[~chosen]
    whole = generalize_arrays(
        X[chosen],
        NAMES[chosen],
        X[~chosen],
        y_test=NAMES[~chosen],
        same_trials=False,
        scoring=["accuracy", "f1_macro"],
    )
    assert result.chances == whole.chances
    assert set(codes) == {0, 1}


@pytest.mark.parametrize("reg", [0.3, Tuned([0.1, 1.0])], ids=str)
def test_patterns_of_all_are_those_of_all_chosen_trials(reg):
    epochs = simulate_epochs(n_trials=80, n_classes=2, random_state=0)
    chosen, runs = np.arange(80) < 50, np.arange(80) % 4
    options = {"reg": reg, "step": 0.3}
    result = decode_epochs(epochs, train_on=chosen, groups=runs, **options)
    alone = decode_epochs(epochs[chosen], groups=runs[chosen], **options)
    for name, maps in alone.pattern_maps.items():
        if name != "class_folds":  # one by one, with penalties of their own
            scale = np.abs(maps).max()
            assert_allclose(
                result.pattern_maps[name], maps, rtol=1e-6, atol=1e-9 * scale
            )


def test_patterns_are_those_of_the_models_of_chosen_trials():
    epochs = simulate_epochs(n_trials=80, n_classes=2, random_state=0)
    chosen = np.arange(80) % 2 == 0
    runs = np.repeat(np.arange(4), 20)
    options = {"groups": runs, "step": 0.1, "reg": 0.3}
    result = decode_epochs(epochs, train_on=chosen, **options)
    for evoked in result.patterns().values():
        assert evoked.nave == 20
    # The mean over the models of folds, each of its own training trials.
    maps = []
    for run in range(4):
        part = epochs[chosen & (runs != run)]
        maps.append(decode_epochs(part, cv=4, step=0.1, reg=0.3).pattern_maps["class"])
    assert_allclose(
        result.pattern_maps["class_folds"], np.mean(maps, axis=0), rtol=1e-6, atol=1e-12
    )
    general = generalize_epochs(epochs, train_on=chosen, **options)
    assert_allclose(
        general.pattern_maps["class"], result.pattern_maps["class"], rtol=1e-9
    )
    for name, evoked in general.patterns().items():
        assert evoked.nave == result.patterns()[name].nave
    general.diagonal().patterns(average="folds")


def test_groups_of_subjects():
    results = []
    for seed in range(6):
        data, codes = build.trials((24, 24), P, T, seed, separation=2.0)
        chosen = np.random.default_rng(seed).permuted(
            np.arange(48).reshape(4, 12) % 2 == 0, axis=1
        )
        results.append(
            decode_arrays(
                data,
                codes,
                groups=build.groups_of(48),
                train_on=chosen.ravel(),
                n_permutations=49,
                random_state=seed,
            )
        )
    for method in ("sign-flip", "prevalence"):
        group = group_inference(results, method, random_state=0)
        assert group.scores.shape == (T,)


def test_class_sizes_are_those_of_the_tested_trials():
    # Of 24, 24 and 24 trials, 12, 12 and 4 are tested.
    order = np.argsort(np.argsort(CODES, kind="stable"))
    chosen = order % 24 < np.array([12, 12, 20])[CODES]
    results = [
        decode_arrays(
            X + seed * np.random.default_rng(seed).normal(size=X.shape),
            NAMES,
            train_on=chosen,
            n_permutations=9,
            random_state=0,
        )
        for seed in range(3)
    ]
    # The largest class is 12 / 28 of three, 1.29 times as much as a third.
    group = group_inference(results, "t")
    means = np.stack([each.null.mean(axis=0) for each in results])
    assert_allclose(group.permuted_means, means, rtol=1e-12, atol=0)
    without = [replace(each, nulls={}) for each in results]
    with pytest.raises(ValueError, match=r"1\.29 times as frequent as equal ones"):
        group_inference(without, "t")


def test_comparisons_know_what_was_trained_with():
    options = {"groups": RUNS, **PERMUTED}
    one = decode_arrays(X, NAMES, train_on=CHOSEN, **options)
    other = decode_arrays(X, NAMES, train_on=CHOSEN, reg=10.0, **options)
    assert compare(one, other).shape == (T,)
    # With another choice other labels move, though the same trials may be tested.
    pairs = chosen_of(LAYOUTS["runs"][1])
    fewer = CHOSEN & (np.arange(N) % 9 > 0)
    left = [(train[fewer[train]], test) for train, test in pairs]
    another = decode_arrays(X, NAMES, train_on=fewer, cv=left, **options)
    with pytest.raises(ValueError, match=r"trials to train with \(train_on\)"):
        compare(one, another)
    reverse = decode_arrays(X, NAMES, train_on=~CHOSEN, **options)
    with pytest.raises(ValueError, match=r"but they have no tested trial in common\."):
        compare(one, reverse)


def test_checkpoints_know_what_was_trained_with(tmp_path):
    data = X[:, :, 0]
    near = build.chain(P) | np.eye(P, dtype=bool)
    options = {"adjacency": near, "groups": RUNS, "checkpoint": tmp_path / "run.db"}
    options |= PERMUTED
    result = searchlight(data, NAMES, train_on=CHOSEN, **options)
    assert searchlight(data, NAMES, train_on=CHOSEN, **options) == result
    other = CHOSEN.copy()
    other[[0, 1]] = ~other[[0, 1]]
    for train_on in (None, other):
        with pytest.raises(ValueError, match=r"\bother\b|another"):
            searchlight(data, NAMES, train_on=train_on, **options)


# ---------------------------------------------------------------------------- refused


def refused(message, error=ValueError, function=cross_validate, data=None, **options):
    data = X[:, :, 0] if data is None else data
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message) as caught:
            function(data, NAMES, **options)
    assert type(caught.value) is error


MASKS = {
    "all": (np.ones(N, bool), ValueError, r"^train_on selects all of the 72 trials"),
    "none": (np.zeros(N, bool), ValueError, r"^train_on selects none of the 72 trials"),
    "length": (CHOSEN[1:], ValueError, r"^train_on has shape \(71,\) for 72 trials\."),
    "table": (CHOSEN[:, None], ValueError, r"^train_on has shape \(72, 1\) for 72"),
    "numbers": (CHOSEN.astype(int), TypeError, r"must hold booleans.* dtype int64\."),
    "indices": (np.flatnonzero(CHOSEN), TypeError, r"must hold booleans"),
    "texts": (NAMES, TypeError, r"must hold booleans"),
    "missing": (
        pd.array([None, *CHOSEN[1:]], dtype="boolean"),
        ValueError,
        r"^train_on is masked for 1 of 72 trials; drop these trials first\.",
    ),
    "ragged": ([[True], [True, False]], ValueError, r"^train_on is no array"),
    "text": ("run == 1", ValueError, r"^train_on='run == 1' asks a table .* a mask"),
}


@pytest.mark.parametrize(("mask", "error", "message"), MASKS.values(), ids=MASKS)
def test_wrong_masks(mask, error, message):
    refused(message, error, train_on=mask)
    refused(message, error, decode_arrays, X, train_on=mask)
    refused(message, error, generalize_arrays, X, train_on=mask)
    message = message.replace("a table .*", "the table of y, but y is not .*")
    refused(message, error, decode_regions, labels_img=[1] * P, train_on=mask)


def test_masks_of_any_kind():
    expected = cross_validate(X[:, :, 0], NAMES, train_on=CHOSEN, random_state=0)
    for mask in (
        CHOSEN.tolist(),
        pd.Series(CHOSEN, index=np.arange(N)[::-1]),
        pd.array(CHOSEN, dtype="boolean"),
        CHOSEN.astype(object),
    ):
        found = cross_validate(X[:, :, 0], NAMES, train_on=mask, random_state=0)
        assert found == expected


def test_queries_on_the_table_of_labels():
    table = pd.DataFrame({"label": NAMES, "run": RUNS}, index=np.arange(N)[::-1])
    options = {"labels_img": [1] * P}
    for query, message in {
        "run > 5": r"^train_on='run > 5' selects none of the 72 images; .* 'label', 'r",
        "place == 1": r"^train_on='place == 1' is no query on the columns",
        "run": r"it is not true or false for each\.$",
    }.items():
        with pytest.raises(ValueError, match=message):
            decode_regions(X[:, :, 0], (table, "label"), train_on=query, **options)
    found = decode_regions(X[:, :, 0], (table, "label"), train_on="run < 2", **options)
    assert_array_equal(found.folds[0][0], np.arange(36))


def test_trials_of_which_a_query_knows_nothing_are_not_chosen():
    runs = pd.array([*RUNS[:-2], None, None], dtype="Int64")
    chosen = read_train_on("run < 2", N, pd.DataFrame({"run": runs}))
    assert_array_equal(chosen.mask, [*(RUNS[:-2] < 2), False, False])


def test_epochs_without_metadata():
    epochs = build.epochs(X, CODES)
    epochs.metadata = None
    for function in (decode_epochs, generalize_epochs):
        with pytest.raises(
            ValueError, match=r"asks epochs\.metadata, but these epochs"
        ):
            function(epochs, train_on=QUERY)


def test_runs_without_trials_to_test_are_named():
    refused(
        r"^train_on leaves no trial to test in fold 1 of cv=LeaveOneGroupOut\(\) "
        r"\(group 1\): all 18 trials of its test set are selected for training\.",
        train_on=CHOSEN | (RUNS == 1),
        groups=RUNS,
    )
    refused(
        r"no trial to test in fold 0 of cv=KFold\(", train_on=RUNS == 0, cv=KFold(4)
    )
    # What the message advises.
    cv = [(np.flatnonzero(RUNS < 2), np.flatnonzero(RUNS > 1))]
    options = {"cv": cv, "train_on": RUNS < 2, "groups": RUNS, **PERMUTED}
    result = cross_validate(X[:, :, 0], NAMES, **options)
    assert result.parameters["permute"] == "within_groups"
    assert_array_equal(result.folds[0][1], np.arange(36, N))


def test_runs_without_chosen_trials_are_tested():
    chosen = CHOSEN & (RUNS != 2)
    result = cross_validate(X[:, :, 0], NAMES, train_on=chosen, groups=RUNS)
    assert_array_equal(result.folds[2][1], np.flatnonzero(RUNS == 2))
    assert_array_equal(result.folds[2][0], np.flatnonzero(chosen))


def test_training_sets_that_lack_classes():
    refused(
        r"^train_on selects no trial of class 'bee', which is among the trials to be",
        train_on=CHOSEN & (CODES != 1),
        groups=RUNS,
    )
    for function, data in ((generalize_arrays, X), (decode_arrays, X)):
        refused(
            r"^train_on selects no trial of class 'bee'",
            function=function,
            data=data,
            train_on=CODES != 1,
        )
    epochs = build.epochs(X, CODES)
    with pytest.raises(ValueError, match=r"^train_on=\"word != 'bee'\" selects no tri"):
        generalize_epochs(epochs, train_on="word != 'bee'")
    refused(
        r"^train_on leaves no trial to train on in fold 1 of cv=LeaveOneGroupOut\(\) "
        r"\(group 1\); a model needs trials of two",
        train_on=(np.arange(N) < 30) & (RUNS == 1),
        groups=RUNS,
    )
    only = (np.arange(N) % 7 > 0) & ((RUNS == 1) | ((RUNS == 2) & (CODES == 0)))
    refused(
        r"^train_on leaves trials of class 'ant' only to train on in fold 1 of cv=",
        train_on=only,
        groups=RUNS,
    )
    lacking = CHOSEN & ((RUNS == 3) | (CODES != 2))
    with pytest.warns(UserWarning, match=r"No trial of class 'cat' is in the training"):
        cross_validate(X[:, :, 0], NAMES, train_on=lacking, groups=RUNS)


def test_what_does_not_go_together():
    refused(r"^n_repeats=2 without .* train_on", train_on=CHOSEN, n_repeats=2)
    values = build.values_of(X)
    with pytest.raises(ValueError, match=r"^task='regression' has no train_on\. Leave"):
        decode_arrays(X, values, task="regression", train_on=CHOSEN)
    with pytest.raises(TypeError, match="train_on"):
        regress(X[:, :, 0], values, train_on=CHOSEN)
    for more in ({"X_test": X}, {"y_test": NAMES}):
        refused(
            r"^train_on splits X into .* it cannot be combined with X_test or y_test",
            function=generalize_arrays,
            data=X,
            train_on=CHOSEN,
            **more,
        )
    refused(
        r"permute='within_folds' needs folds",
        train_on=CHOSEN,
        permute="within_folds",
        n_permutations=9,
    )


def test_orders_of_labels_are_judged_among_the_chosen_trials():
    # In random order where they are trained with; the others follow a fixed order.
    codes = np.where(CHOSEN, CODES, np.arange(N) % 18 // 6)
    data = X[:, :, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cross_validate(data, codes, groups=RUNS, train_on=CHOSEN)
    codes = np.where(CHOSEN, np.arange(N) % 18 // 6, CODES)
    with pytest.warns(UserWarning, match="Of simulated recordings"):
        cross_validate(data, codes, groups=RUNS, train_on=CHOSEN)


# -------------------------------------------------------------------------- calibrated


def noise_that_is_decodable(seed, between_runs=2.0):
    """Return trials of which only those to be tested hold their classes, and bunched.

    Tested trials fall into two tight bunches by class, so that a model that knows
    nothing names whole bunches. Runs differ from each other, each with both classes.
    """
    rng = np.random.default_rng(seed)
    runs = np.repeat(np.arange(4), 16)
    y = np.concatenate([rng.permutation(np.tile([0, 1], 8)) for _ in range(4)])
    chosen = np.concatenate([rng.permutation(np.arange(16) % 2 == 0) for _ in range(4)])
    data = rng.normal(size=(64, 4)) + between_runs * rng.normal(size=(4, 4))[runs]
    data[~chosen] += 6 * rng.normal(size=4) * (y[~chosen, None] - 0.5)
    return data, y, runs, chosen


def p_without_ties(results):
    """Return p-values with ties broken at random: uniform if the test is right."""
    rng, p = np.random.default_rng(0), []
    for result in results:
        larger = (result.null > result.scores + 1e-9).sum()
        tied = (abs(result.null - result.scores) <= 1e-9).sum()
        p.append((larger + rng.uniform() * (1 + tied)) / (1 + len(result.null)))
    return np.array(p)


CALIBRATED = {
    "one model": {"groups": False},
    "runs": {},
    "runs, z-scored": {"preprocess": "zscore"},
    "neighbours": {"groups": False, "cv": 4},
    "overlapping": {"groups": False, "cv": ShuffleSplit(6, test_size=0.3)},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("given", CALIBRATED.values(), ids=CALIBRATED)
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_p_values_are_uniform_where_tested_trials_are_decodable(given, scoring):
    results = []
    for seed in range(300):
        # Classes are balanced within runs. If runs differ, that is lost where labels
        # are shuffled across them, and p-values are too large.
        between_runs = 0.0 if "groups" in given else 2.0
        data, y, runs, chosen = noise_that_is_decodable(seed, between_runs)
        options = {"groups": runs} | given
        if options["groups"] is False:
            del options["groups"]
        results.append(
            cross_validate(
                data,
                y,
                train_on=chosen,
                scoring=scoring,
                n_permutations=99,
                random_state=seed,
                **options,
            )
        )
    assert np.std([result.scores for result in results]) > 0.1  # bunches
    assert kstest(p_without_ties(results), "uniform").pvalue > 0.01
    p = np.array([result.pvalues() for result in results])
    for alpha in (0.05, 0.1, 0.2, 0.5):
        margin = 3 * np.sqrt(alpha * (1 - alpha) / len(p))
        assert (p <= alpha).mean() < alpha + margin


@pytest.mark.slow
def test_codes_that_are_shared_are_found():
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        data, y, runs, chosen = noise_that_is_decodable(seed)
        data[~chosen] = rng.normal(size=((~chosen).sum(), 4))
        data += 2.0 * (y[:, None] - 0.5)
        result = cross_validate(
            data,
            y,
            groups=runs,
            train_on=chosen,
            reg=0.3,  # what the data choose has little power with few features
            n_permutations=99,
            random_state=seed,
        )
        found += result.pvalues() <= 0.05
    assert found > 30
