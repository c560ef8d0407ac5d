"""Trials averaged in many groupings, folds drawn many times: against a plain loop.

The loop groups trials by the same seeds, averages their kernel values (of a linear
kernel: averages features), and trains the oracle of `reference` anew in every fold of
every repeat of every permutation.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import confusion_matrix, f1_score, roc_auc_score
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
)

from mvpa_kfda import (
    RBF,
    Ridge,
    Tuned,
    compare,
    cross_validate,
    decode_arrays,
    group_inference,
    load_result,
)
from mvpa_kfda.decoding import run as loop
from mvpa_kfda.metrics.pairs import TABLES
from mvpa_kfda.metrics.scores import METRICS
from tests import build, reference
from tests.entries import ENTRIES
from tests.test_contract import area, assert_equal_results, pick, scale_of

R, PERMUTATIONS, SEED = 3, 2, 4
#: Unequal classes: in a fold of three, 9 or 10, 5 and 4 trials.
COUNTS = (28, 15, 12)
DATA, CODES = build.trials(COUNTS, 5, 3, seed=2)
N, C = len(CODES), len(COUNTS)
NAMES = build.NAMES[CODES]
#: Test sets, the last one of four trials, of which no three can be averaged.
FEW = np.where(np.arange(N) < 4, 2, np.arange(N) % 2)
SCORING = ["accuracy", "roc_auc", "f1", "pairwise_accuracy", "crossnobis"]
SCORING += ["confusion_matrix", *TABLES.values()]
NO_CONFOUNDS = np.empty((N, 0))


def of_trials(name):
    """Tell whether an entry classifies trials that are cross-validated."""
    return ENTRIES[name].predicts == "classes" and not ENTRIES[name].tests_others


def two_ways(ways):
    """Parametrise by entries, each with one of the ways, by turns."""
    names = filter(of_trials, ENTRIES)
    pairs = [(n, ways[i % len(ways)]) for i, n in enumerate(names)]
    return pytest.mark.parametrize(("name", "how"), pairs)


# ----------------------------------------------------------------------- the plain loop


@dataclass(frozen=True)
class Procedure:
    """What is done with the trials, as one would write it down in a paper."""

    cv: object = StratifiedKFold(3)
    groups: np.ndarray | None = None
    k: int | None = None
    equalize: bool = False
    average_test: bool = True
    kernels: tuple = (lambda X: linear_kernel,)
    regs: tuple = (0.3,)
    zscored: bool = False
    confounds: np.ndarray = field(default_factory=lambda: NO_CONFOUNDS)
    rank: int | None = None

    @property
    def learns(self):
        return self.zscored or self.confounds.shape[1] > 0

    @property
    def two_sided(self):
        return self.k is not None and not self.average_test


def shuffled(procedure, j):
    """Return the splitter of a repeat."""
    seeds = np.random.SeedSequence(SEED, spawn_key=(3,)).generate_state(R)
    options = {"shuffle": True} if hasattr(procedure.cv, "shuffle") else {}
    options["random_state"] = int(seeds[j])
    if isinstance(procedure.cv, ShuffleSplit):
        return ShuffleSplit(procedure.cv.n_splits, test_size=0.3, **options)
    return type(procedure.cv)(procedure.cv.n_splits, **options)


def given(procedure):
    """Return what is given as cv: of averages the folds, once and for all."""
    if procedure.k is None:
        return procedure.cv
    return split(procedure.cv, CODES, procedure.groups)


def split(cv, labels, groups):
    return list(cv.split(np.zeros(N), labels, groups))


def drawn(procedure, labels, folds, b, j):
    """Return averages by hand, [(trials, class, number of the test set)]."""
    key = np.random.SeedSequence(SEED, spawn_key=(2, b, j))
    draws = np.random.default_rng(key).random(N)
    group = np.zeros(N) if procedure.groups is None else procedure.groups
    averages = []
    for number, (_, test) in enumerate(folds):
        for g in np.unique(group[test]):
            of_class = [
                test[(group[test] == g) & (labels[test] == c)] for c in range(C)
            ]
            m = [len(trials) // procedure.k for trials in of_class]
            if procedure.equalize:
                m = [min(m)] * C
            for c, trials in enumerate(of_class):
                trials = trials[np.argsort(draws[trials])]
                for i in range(m[c]):
                    some = trials[i * procedure.k : (i + 1) * procedure.k]
                    averages.append((some, c, number))
    return averages


@dataclass(frozen=True)
class Side:
    """Samples to be trained with, or to be tested."""

    #: The trials in each.
    members: list
    codes: np.ndarray
    #: The number of the test set of each.
    fold: np.ndarray

    @property
    def S(self):
        S = np.zeros((len(self.members), N))
        for row, trials in zip(S, self.members, strict=True):
            row[trials] = 1 / len(trials)
        return S


def sides(procedure, labels, folds, b, j, tested_as=None):
    """Return the samples that are trained with and those that are tested."""
    single = np.empty(N, int)
    for number, (_, test) in enumerate(folds):
        single[test] = number
    trials = Side([[i] for i in range(N)], labels[b], single)
    if procedure.k is None:
        return trials, trials
    trained = Side(*map_of(drawn(procedure, labels[b], folds, b, j)))
    if tested_as is None:
        return trained, trained if procedure.average_test else trials
    if procedure.average_test:
        averages = drawn(procedure, labels[tested_as], folds, tested_as, j)
        return trained, Side(*map_of(averages))
    return trained, Side(trials.members, labels[tested_as], single)


def map_of(averages):
    members, codes, numbers = zip(*averages, strict=True)
    return list(members), np.array(codes), np.array(numbers)


def without_confounds(X, C, train, rows, rows_C):
    """Take out of rows what confounds explain in the training rows."""
    design = np.column_stack([np.ones(len(train)), C[train]])
    coef = np.linalg.lstsq(design, X[train], rcond=None)[0]
    return rows - rows_C @ coef[1:]


def learned(procedure, cell, trained, tested, train):
    """Return features of training and test samples, by what the fold has learned."""
    A, B = trained.S @ cell.X, tested.S @ cell.X_test
    if procedure.confounds.shape[1]:
        C_A, C_B = trained.S @ procedure.confounds, tested.S @ procedure.confounds
        A, B = (
            without_confounds(A, C_A, train, rows, C_rows)
            for rows, C_rows in ((A, C_A), (B, C_B))
        )
    if procedure.zscored:
        mean, sd = A[train].mean(axis=0), A[train].std(axis=0)
        A, B = (A - mean) / sd, (B - mean) / sd
    return A, B


def kernels_of(procedure, cell, trained, tested, train):
    """Return kernel matrices (m, m) and (m_test, m) for every kernel to choose from."""
    if procedure.learns:
        A, B = learned(procedure, cell, trained, tested, train)
        return [(k(A)(A, A), k(A)(B, A)) for k in procedure.kernels]
    S, S_test = trained.S, tested.S
    return [
        (
            S @ k(cell.X)(cell.X, cell.X) @ S.T,
            S_test @ k(cell.X)(cell.X_test, cell.X) @ S.T,
        )
        for k in procedure.kernels
    ]


def predict_fold(procedure, cell, trained, tested, train, test):
    """Train in a fold; return predictions and class scores of its test samples."""
    pairs = kernels_of(procedure, cell, trained, tested, train)
    grams, crosses = zip(*pairs, strict=True)
    own = procedure.learns or procedure.two_sided
    used = [K[np.ix_(train, train)] if own else K for K in grams]
    lambdas = [[reg * scale_of(K) for reg in procedure.regs] for K in used]
    i, lam = pick(grams, lambdas, trained.codes, train, C)
    model = reference.fit(grams[i][np.ix_(train, train)], trained.codes[train], lam, C)
    rows = crosses[i][np.ix_(test, train)]
    if procedure.rank is not None:
        found, scores = reference.reduced(model, rows, procedure.rank)
        return found, len(train) * scores
    return model.predict(rows), len(train) * model.class_scores(rows)


def once(procedure, cell, trained, tested, folds):
    """Cross-validate; return predictions by sample, scores, and class scores."""
    predicted, areas, sets = [], [], []
    true = []
    for number, (train, test) in enumerate(folds):
        if procedure.k is not None:
            train = np.flatnonzero(trained.fold != number)
            test = np.flatnonzero(tested.fold == number)
        found, scores = predict_fold(procedure, cell, trained, tested, train, test)
        predicted += found.tolist()
        true += tested.codes[test].tolist()
        areas.append(area(tested.codes[test], scores))
        sets.append((tested.codes[test], scores / len(train), len(train)))
    return {
        "accuracy": np.mean(np.equal(predicted, true)),
        "roc_auc": np.mean(areas),
        "f1": f1_score(true, predicted, average="macro"),
        "confusion_matrix": confusion_matrix(true, predicted, labels=range(C)),
        **reference.pairs_of_scores(sets, C),
    }


def repeated(procedure, cell, labels, b=0, stay=False, r=R):
    """Return the scores of every repeat of label vector b, by name.

    Where tested labels stay, the models are tested on what was observed.
    """
    found = []
    for j in range(r):
        tested_as = 0 if stay else None
        if procedure.k is None:
            folds = split(shuffled(procedure, j), labels[b], procedure.groups)
            trained, tested = sides(procedure, labels, folds, b, j)
            if stay:
                tested = Side(tested.members, labels[0], tested.fold)
        else:
            folds = split(procedure.cv, labels[0], procedure.groups)
            trained, tested = sides(procedure, labels, folds, b, j, tested_as)
        found.append(once(procedure, cell, trained, tested, folds))
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def labels_of(procedure):
    """Return the label vectors of trials, (P + 1, n)."""
    options = {"groups": procedure.groups, "seed": SEED}
    if procedure.k is not None:
        cv, permute = given(procedure), "within_folds"
    else:
        # Folds are drawn anew: nothing but the groups is in the way of a label.
        cv, permute = None, "auto"
    return build.permuted(CODES, PERMUTATIONS, cv, permute=permute, **options)


def assert_equals_loop(result, procedure, cells, rtol=1e-7):
    """Assert observed and permuted scores at a middle and the last cell."""
    labels, cells = labels_of(procedure), list(cells.items())
    assert len(cells) == np.size(result.scores)
    for i in sorted({len(cells) // 3, len(cells) - 1}):
        index, cell = cells[i]
        ours = repeated(procedure, cell, labels)
        for name in result.scoring:
            observed = np.asarray(result.metrics[name])[index]
            if name == "confusion_matrix":
                assert_array_equal(observed, ours[name].sum(axis=0))
                continue
            if name in TABLES.values():
                (kind,) = (kind for kind in TABLES if TABLES[kind] == name)
                observed, expected = result.rdm(kind)[index], ours[name].mean(axis=0)
                assert_allclose(observed, expected, rtol=rtol, atol=1e-9)
                continue
            each = result.repeats[name][index]
            assert_allclose(each, ours[name], rtol=rtol, atol=1e-9)
            assert_allclose(observed, ours[name].mean(), rtol=rtol, atol=1e-9)
        nulls = [(result.nulls, False)]
        if getattr(result, "second_nulls", {}):
            nulls.append((result.second_nulls, True))
        for null, stay in nulls:
            for b in range(1, PERMUTATIONS + 1):
                ours = repeated(procedure, cell, labels, b, stay)
                for name, values in null.items():
                    at = values[(b - 1, *index)]
                    assert_allclose(at, ours[name].mean(), rtol=rtol, atol=1e-9)


def run(name, procedure, **options):
    """Run an entry on the trials."""
    options = {
        "reg": 0.3,
        "cv": given(procedure),
        "groups": procedure.groups,
        "n_repeats": R,
        "n_permutations": PERMUTATIONS,
        "random_state": SEED,
        "scoring": SCORING,
    } | options
    if procedure.k is not None:
        options = {
            "average": procedure.k,
            "equalize": procedure.equalize,
            "average_test": procedure.average_test,
        } | options
    return ENTRIES[name](DATA, NAMES, **options)


def of_gamma(X):
    return lambda A, B: rbf_kernel(A, B, gamma=0.05)


RUNS = np.arange(N) % 3
CONFOUND = np.random.default_rng(5).standard_normal((N, 1))
REGS = (3.0, 0.3, 0.03)
LINEAR = {"regs": REGS}, {"reg": Tuned(REGS)}
CHOICE = (
    {"regs": REGS, "kernels": (lambda X: linear_kernel, of_gamma)},
    {"reg": Tuned(REGS), "kernel": ["linear", RBF(0.05)]},
)
WIDE = {"kernels": (of_gamma,)}, {"kernel": RBF(0.05)}
ZSCORED = {"zscored": True}, {"preprocess": "zscore"}
CONFOUNDED = {"confounds": CONFOUND}, {"confounds": CONFOUND}
BOTH = CONFOUNDED[0] | ZSCORED[0], CONFOUNDED[1] | ZSCORED[1]
FIRST = {"rank": 1}, {"n_components": 1}
IN_RUNS = {"groups": RUNS, "cv": LeaveOneGroupOut()}, {}
#: What is done, and how the package is asked for it.
REGROUPED = {
    "averages": ({"k": 2}, ({}, {})),
    "equal": ({"k": 2, "equalize": True}, ({}, {})),
    "undersampled": ({"k": 1, "equalize": True}, ({}, {})),
    "single": ({"k": 2, "average_test": False}, ({}, {})),
    "equal, single": ({"k": 2, "equalize": True, "average_test": False}, ({}, {})),
    "runs": ({"k": 2}, IN_RUNS),
    "runs, single": ({"k": 2, "average_test": False}, IN_RUNS),
    "kernel": ({"k": 2}, WIDE),
    "kernel, single": ({"k": 2, "average_test": False}, WIDE),
    "tuned": ({"k": 2}, LINEAR),
    "tuned, single": ({"k": 2, "average_test": False}, LINEAR),
    "tuned kernel": ({"k": 2}, CHOICE),
    "steps": ({"k": 2}, ZSCORED),
    "few in a fold, single": (
        {"cv": PredefinedSplit(FEW), "k": 3, "average_test": False},
        ({}, {}),
    ),
    "steps, single": ({"k": 2, "average_test": False}, ZSCORED),
    "steps, tuned": ({"k": 2} | ZSCORED[0], LINEAR),
    "confounds": ({"k": 2}, CONFOUNDED),
    "confounds, single": ({"k": 2, "average_test": False}, BOTH),
    "reduced": ({"k": 2}, FIRST),
}
RESHUFFLED = {
    "stratified": ({}, ({}, {})),
    "blind": ({"cv": KFold(3)}, ({}, {})),
    "held out": ({"cv": ShuffleSplit(2, test_size=0.3)}, ({}, {})),
    "groups kept": ({"cv": GroupKFold(3), "groups": np.arange(N) % 6}, ({}, {})),
    "kernel again": ({}, WIDE),
    "tuned again": ({}, LINEAR),
    "steps again": ({}, ZSCORED),
    "confounds again": ({"cv": KFold(3)}, CONFOUNDED),
    "reduced again": ({}, FIRST),
}
HOW = REGROUPED | RESHUFFLED


def procedure_of(how):
    """Return the procedure by hand, and the package's options for it."""
    own, (shared, options) = HOW[how]
    more = {"preprocess": "zscore"} if own.get("zscored") else {}
    return Procedure(**own | shared), options | more


# --------------------------------------------------------------- against the plain loop


@pytest.mark.parametrize("how", HOW)
def test_the_plain_loop_gives_the_same(how):
    procedure, options = procedure_of(how)
    result = run("cross_validate", procedure, **options)
    assert_equals_loop(result, procedure, ENTRIES["cross_validate"].cells(DATA))


@pytest.mark.parametrize("average_test", [True, False])
def test_one_model_of_averages_is_that_of_the_plain_loop(average_test):
    """Trained with averages of the chosen trials, whose labels move freely."""
    procedure = Procedure(k=2, average_test=average_test)
    chosen = np.arange(N) % 2 == 0
    others = np.flatnonzero(~chosen)
    parts = [(None, others), (None, np.flatnonzero(chosen))]
    result = run("cross_validate", procedure, cv=None, train_on=chosen)
    assert result.parameters["permute"] == "free"
    labels = np.tile(CODES, (PERMUTATIONS + 1, 1))
    labels[:, chosen] = build.permuted(
        CODES[chosen], PERMUTATIONS, None, permute="free", seed=SEED
    )
    (cell,) = ENTRIES["cross_validate"].cells(DATA).values()
    for b in range(PERMUTATIONS + 1):
        found = []
        for j in range(R):
            averages = drawn(procedure, labels[b], parts, b, j)
            trained = Side(*map_of([each for each in averages if each[2] == 1]))
            tested = Side(*map_of([each for each in averages if each[2] == 0]))
            if not average_test:
                tested = Side([[i] for i in others], CODES[others], 0 * others)
            found.append(once(procedure, cell, trained, tested, [(None, None)]))
        for name in ("accuracy", "roc_auc", "f1"):
            ours = [each[name] for each in found]
            if b == 0:
                assert_allclose(result.repeats[name], ours, rtol=1e-7, atol=1e-9)
            else:
                at = result.nulls[name][b - 1]
                assert_allclose(at, np.mean(ours), rtol=1e-7, atol=1e-9)


def test_without_folds_given_every_repeat_draws_ten():
    procedure = Procedure(cv=KFold(10))
    result = run("cross_validate", procedure, cv=None, scoring="accuracy")
    assert len(result.tests) == 10 * R
    assert_equals_loop(result, procedure, ENTRIES["cross_validate"].cells(DATA))


#: What times share and what they do not: averages, folds, test sets, what is learned.
BETWEEN_TIMES = ["averages", "equal, single", "runs, single", "tuned", "steps, single"]
BETWEEN_TIMES += ["confounds", "reduced", "stratified", "held out", "steps again"]


@pytest.mark.some(4)
@pytest.mark.parametrize("how", BETWEEN_TIMES)
def test_the_plain_loop_gives_the_same_between_times(how):
    # For both nulls: tested labels move along, or stay.
    procedure, options = procedure_of(how)
    options |= {"scoring": ["accuracy", "roc_auc"]}
    result = run("map", procedure, **options)
    assert result.second_nulls
    assert_equals_loop(result, procedure, ENTRIES["map"].cells(DATA))


@pytest.mark.some(5)
@two_ways(["averages", "equal, single", "steps", "stratified"])
def test_the_plain_loop_gives_the_same_everywhere(name, how):
    procedure, options = procedure_of(how)
    result = run(name, procedure, **options)
    assert_equals_loop(result, procedure, ENTRIES[name].cells(DATA))


@pytest.mark.parametrize("name", ["arrays", "windows", "table"])
def test_the_plain_loop_gives_the_same_with_a_kernel_everywhere(name):
    procedure, options = procedure_of("kernel")
    result = run(name, procedure, **options)
    assert_equals_loop(result, procedure, ENTRIES[name].cells(DATA))


def test_as_many_as_there_can_be_are_averaged():
    options = {"n_repeats": R, "n_permutations": PERMUTATIONS, "random_state": SEED}
    options["cv"] = EVEN
    found, asked = (
        ENTRIES["arrays"](DATA, NAMES, average=k, **options) for k in ("max", 4)
    )
    assert found.parameters["average"] == 4  # the smallest class has 12 trials
    assert_equal_results(found, asked)


def test_single_precision_decides_alike():
    procedure = Procedure(k=2)
    single, double = (run("arrays", procedure, dtype=d) for d in ("float32", "float64"))
    assert single.parameters["dtype"] == "float32"
    assert (single.null != double.null).mean() < 0.2
    assert_allclose(single.null, double.null, rtol=0, atol=0.05)
    assert_array_equal(single.predicted, double.predicted)


@pytest.mark.parametrize("how", ["single", "equal, single", "runs, single"])
def test_once_is_enough_to_test_single_trials(how):
    procedure, options = procedure_of(how)
    labels = labels_of(procedure)
    result = run("cross_validate", procedure, n_repeats=1, **options)
    (cell,) = ENTRIES["cross_validate"].cells(DATA).values()
    for b, score in enumerate([result.scores, *result.null]):
        ours = repeated(procedure, cell, labels, b, r=1)
        assert_allclose(score, ours["accuracy"][0], rtol=1e-12, atol=0)


# -------------------------------------------------------------------- what results hold

MANY = {
    "averages": {"average": 2},
    "equal": {"average": 2, "equalize": True},
    "single": {"average": 2, "average_test": False},
    "folds": {},
}
RANDOM = StratifiedKFold(3)
#: With a penalty that many tests afford; one that labels choose has its own test.
REPEATED = {"n_repeats": R, "n_permutations": 9, "random_state": SEED, "reg": 0.3}
many = pytest.mark.parametrize("options", MANY.values(), ids=MANY)


#: Stratified once and for all, so that every test set holds every class.
EVEN = list(StratifiedKFold(3).split(DATA, CODES))


def asked(options):
    """Return what is repeated how."""
    return REPEATED | {"cv": EVEN if options.get("average") else RANDOM} | options


def decode(name="arrays", **options):
    return ENTRIES[name](DATA, NAMES, **asked(options))


@pytest.mark.some(6)
@two_ways([*MANY])
def test_scores_are_means_over_repeats(name, how):
    result = decode(name, scoring=SCORING, reg=0.3, **MANY[how])
    assert set(result.repeats) == {name for name in SCORING if METRICS[name].scalar}
    for metric, values in result.repeats.items():
        assert values.shape == (*np.shape(result.metrics[metric]), R)
        mean = values.mean(axis=-1)
        assert_allclose(result.metrics[metric], mean, rtol=1e-12, atol=0)
    if name != "whole mask":  # in which the classes are easily told apart
        assert np.ptp(result.repeats["roc_auc"], axis=-1).max() > 0
    total = result.metrics["confusion_matrix"].sum(axis=(-2, -1))
    assert_array_equal(total, sum(map(len, result.tests)))


@pytest.mark.some(5)
@two_ways([*MANY])
def test_neither_workers_nor_batches_nor_runs_change_a_bit(name, how, monkeypatch):
    options = MANY[how]
    workers = {"n_jobs": 2} if ENTRIES[name].has("n_jobs") else {}
    one = decode(name, **options)
    with monkeypatch.context() as batches:
        build.in_batches(2, batches)
        assert_equal_results(decode(name, **options), one)
    if name in ("arrays", "table", "map"):
        assert_equal_results(decode(name, **workers, **options), one)
    other = decode(name, **options | {"random_state": SEED + 1})
    assert (other.null != one.null).any()


@many
def test_blocks_of_positions_change_no_bit(options, monkeypatch):
    whole = decode("table", **options)
    monkeypatch.setattr("mvpa_kfda.decoding.positions._LONGEST", 2)
    assert_equal_results(decode("table", **options), whole)
    times = decode("arrays", **options)
    one = ENTRIES["arrays"](DATA[:, :, 1:], NAMES, **asked(options))
    assert_allclose(one.null, times.null[:, 1:], rtol=0, atol=1e-12)
    assert_array_equal(one.predicted, times.predicted[1:])


@many
@pytest.mark.some(2)
def test_interrupted_runs_go_on(options, tmp_path, monkeypatch):
    monkeypatch.setattr("mvpa_kfda.decoding.positions._LONGEST", 2)
    whole = decode("voxels", **options)
    options = options | {"checkpoint": tmp_path / "run.h5"}
    done, run_block = [], loop._run_block

    def stop_later(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt("after three blocks")
        done.append(arguments)
        return run_block(*arguments)

    monkeypatch.setattr(loop, "_run_block", stop_later)
    with pytest.raises(KeyboardInterrupt, match="after three blocks"):
        decode("voxels", **options)
    monkeypatch.setattr(loop, "_run_block", run_block)
    assert_equal_results(decode("voxels", **options), whole)


@pytest.mark.some(5)
@many
@pytest.mark.parametrize("name", ["cross_validate", "epochs", "map", "voxels"])
def test_files_keep_the_repeats(name, options, tmp_path):
    result = decode(name, **options)
    result.save(tmp_path / "result.h5")
    loaded = load_result(tmp_path / "result.h5")
    assert_equal_results(loaded, result)
    assert_array_equal(loaded.repeats["accuracy"], result.repeats["accuracy"])


@many
def test_predictions_folds_and_scores_belong_together(options):
    result = decode("cross_validate", scoring=["accuracy", "roc_auc"], **options)
    n, m = len(result.y), len(result.y) // R
    assert len(result.folds) == 3 * R == result.fold_scores.size
    assert result.parameters["n_folds"] == 3
    right = result.predictions == result.classes[result.y]
    for j in range(R):
        mine = slice(j * m, (j + 1) * m)
        assert right[mine].mean() == pytest.approx(result.repeats["accuracy"][j])
    for (train, test), score in zip(result.folds, result.fold_scores, strict=True):
        assert right[test].mean() == pytest.approx(score)
        assert not np.intersect1d(train, test).size
        assert len(np.unique(np.append(train, test) // m)) == 1  # of one repeat
    if result.members is not None:
        y = CODES[result.members]
        assert_array_equal(y, np.repeat(result.y[:, np.newaxis], 2, axis=1))
        assert result.members.shape == (n, 2)
    p = result.probabilities()[:, 1]
    assert result.roc("bee").auc == pytest.approx(roc_auc_score(result.y == 1, p))
    assert_array_equal(np.argmax(result.class_scores, axis=1), result.predicted)


@many
def test_probabilities_are_those_of_refitted_models(options):
    result = decode("cross_validate", reg=0.3, **options)
    p, k = result.probabilities(), result.parameters["average"] or 1
    X = DATA[:, :, 0]
    train, test = result.folds[4]  # in the second repeat
    m = len(result.y) // R
    if result.members is not None:
        A = X[result.members].mean(axis=1)
        A, y, B = A[train], result.y[train], A[test]
        whole = X[result.members[m : 2 * m]].mean(axis=1)
    elif k == 1:
        A, y, B, whole = X[train - m], CODES[train - m], X[test - m], X
    else:
        # Trials in no average are no training trials, and those that are come twice.
        assert len(train) < N - len(test)
        rows = train - m
        side = drawn(
            Procedure(k=2), CODES, split(StratifiedKFold(3), CODES, None), 0, 1
        )
        used = [(X[t].mean(axis=0), c) for t, c, fold in side if fold != 1]
        assert_array_equal(rows, np.sort(np.ravel([t for t, _, f in side if f != 1])))
        A, y = np.array([a for a, _ in used]), np.array([c for _, c in used])
        B, whole = X[test - m], A
    lam = 0.3 * scale_of(whole @ whole.T)
    model = reference.fit(A @ A.T, y, lam, C)
    assert_allclose(p[test], model.posterior(B @ A.T), rtol=1e-6, atol=1e-9)


def test_every_repeat_has_the_penalty_of_its_averages():
    result = decode("cross_validate", average=2, reg="auto", n_permutations=0)
    m = len(result.y) // R
    assert len(np.unique(result.lambdas)) == R
    for j, lam in enumerate(result.lambdas):
        averages = DATA[result.members[j * m : (j + 1) * m], :, 0].mean(axis=1)
        options = {"cv": result.folds[:3], "reg": Ridge(lam)}
        once = cross_validate(averages, result.y[:m], **options)
        assert result.repeats["accuracy"][j] == once.scores
        K = linear_kernel(averages - averages.mean(axis=0))
        assert_allclose(lam, reference.label_free(K, 5).like_noise, rtol=1e-8)


def test_patterns_are_means_over_repeats():
    options = {"average": 2, "n_permutations": 0}
    result = decode("epochs", **options)
    m = len(result.y) // R
    once = decode("epochs", **options | {"n_repeats": 1, "average_test": False})
    pattern = result.patterns()["ant"]
    assert pattern.nave == np.sum(result.y[:m] == 0)
    assert pattern.data.shape == (5, 3)
    each = []
    for j in range(R):
        averages = DATA[result.members[j * m : (j + 1) * m]].mean(axis=1)
        options = {"cv": result.folds[:3], "reg": 0.3}
        each.append(ENTRIES["epochs"](averages, result.y[:m], **options))
    maps = [one.pattern_maps["class"] for one in each]
    assert_allclose(result.pattern_maps["class"], np.mean(maps, axis=0), rtol=1e-9)
    with pytest.raises(ValueError, match="Each repeat has its own averages"):
        result.patterns("discriminant")
    assert len(once.patterns("discriminant")) == C - 1
    # Folds drawn anew: the model of all trials is the same in every repeat.
    assert len(decode("epochs", n_permutations=0).patterns("discriminant")) == C - 1


def test_the_diagonal_has_repeats():
    for options in MANY.values():
        whole, diagonal = (
            decode("arrays", **options),
            decode("map", **options).diagonal(),
        )
        assert_array_equal(diagonal.scores, whole.scores)
        assert_allclose(
            diagonal.null, whole.null, rtol=0, atol=1e-7
        )  # single precision
        assert_array_equal(diagonal.repeats["accuracy"], whole.repeats["accuracy"])
        assert (diagonal.members is None) == (whole.members is None)
        assert repr(diagonal) == repr(whole)


WORDS = {
    "averages": "25 averages of 2 trials (50), 3 classes, 3 folds, 3 repeats, 9 perm",
    "equal": "18 averages of 2 trials (36), 3 classes, 3 folds, 3 repeats, 9 perm",
    "single": "55 trials (trained on averages of 2), 3 classes, 3 folds, 3 repeats",
    "folds": "55 trials, 3 classes, 3 folds, 3 repeats, 9 permutations",
}


@pytest.mark.parametrize("how", MANY)
def test_words_count_trials_of_one_repeat(how):
    result = decode("arrays", **MANY[how])
    assert WORDS[how] in repr(result)
    facts = result._repr_html_()
    assert WORDS[how].partition(",")[0] in facts
    assert "3 folds, 3 repeats" in facts


def test_a_result_without_repeats_has_none():
    result = decode("arrays", n_repeats=1, average=2)
    assert result.repeats == {}
    assert result.parameters["n_repeats"] == 1
    assert "repeat" not in repr(result)


# ------------------------------------------------------------ what is done with results


@many
@pytest.mark.some(2)
def test_results_of_repeats_are_compared(options):
    one, other = (
        decode("arrays", reg=reg, **options | {"n_permutations": 39})
        for reg in (0.3, 30.0)
    )
    comparison = compare(one, other)
    assert_allclose(comparison.scores, one.scores - other.scores, rtol=0, atol=1e-12)
    null = one.null - other.null
    p = (1 + (np.abs(null) >= np.abs(comparison.scores) - 1e-9).sum(axis=0)) / 40
    # Two-sided p-values are twice those of one side at most.
    assert (comparison.pvalues("none") <= 2 * p + 1e-12).all()
    with pytest.raises(ValueError, match=r"been repeated 3 and 1 times \(n_repeats\)"):
        compare(one, decode("arrays", n_repeats=1, **options))


def test_subjects_with_repeats_make_a_group():
    subjects = []
    for seed in range(5):
        X, codes = build.trials((8, 8), 4, 3, seed)
        options = {"cv": 4, "average": 2, "n_permutations": 9, "random_state": 0}
        y = build.NAMES[codes]
        subjects.append(decode_arrays(X, y, n_repeats=2, **options))
    group = group_inference(subjects, random_state=0)
    assert_allclose(group.scores, np.mean([s.scores for s in subjects], axis=0))
    subjects[-1] = decode_arrays(X, y, n_repeats=3, **options)
    with pytest.warns(RuntimeWarning, match=r"n_repeats \(3 instead of 2\)"):
        group_inference(subjects, random_state=0)


# ---------------------------------------------------------------------------- bad input

ONE_EACH = CODES * 10 + np.arange(N) % 2  # groups of one class
LISTED = [(np.arange(30), np.arange(30, N))]
REFUSED = [
    ({"n_repeats": 0}, "'n_repeats': 0. Allowed: a whole number of at least 1"),
    ({"n_repeats": 1.5}, r"'n_repeats': 1\.5"),
    ({"n_repeats": "3"}, "'n_repeats': '3'"),
    ({"n_repeats": True}, "'n_repeats': True"),
    (
        {"average": "most"},
        "'average': 'most'. Allowed: a whole number of at least 1, or 'max' for",
    ),
    (
        {"average": 6},
        "average=6 leaves class 'cat' without samples: .* no test set holds more than "
        "4 of the 12 trials of this class. Use average=4 or less",
    ),
    (
        {"average": 4, "groups": RUNS},
        "no group in a test set holds more than 2 of the 12 trials of this class",
    ),
    (
        {"average": "max", "groups": ONE_EACH, "cv": GroupKFold(2)},
        "average='max' needs every class in every group",
    ),
    (
        {"average": 2, "equalize": True, "groups": ONE_EACH, "cv": GroupKFold(2)},
        "equalize=True needs every class in every group in a test set, and one of .* "
        "has no trial of class",
    ),
    (
        {"average": 2, "groups": ONE_EACH, "cv": GroupKFold(2)},
        "none of these holds trials of two classes. Leave n_repeats",
    ),
    ({"equalize": True}, "equalize=True says how .* average is None. Pass average=k"),
    ({"average_test": False}, "average_test=False says how .* average is None"),
    ({"average": 2, "equalize": "yes"}, "'equalize': 'yes'. Allowed: True or False"),
    ({"average": 2, "average_test": 0}, "'average_test': 0. Allowed: True or False"),
    ({"cv": LISTED}, "and the given cv iterable has no random folds.*Use a number"),
    ({"cv": RepeatedKFold(n_splits=3)}, "cv=RepeatedKFold.* or repeats them itself"),
    (
        {"groups": RUNS, "cv": LeaveOneGroupOut()},
        "cv=LeaveOneGroupOut.* has no random folds.* Use GroupKFold or Gr",
    ),
    ({"groups": RUNS, "cv": None}, "cv=LeaveOneGroupOut.* has no random folds"),
    ({"average": 2, "permute": "free"}, "permute='free' cannot be .* regrouped"),
    ({"permute": "within_folds"}, "each repeat has new folds. Leave permute out"),
    (
        {"average": 2, "cv": RepeatedKFold(n_splits=3)},
        "needs every trial in no more than one test set.* overlap",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_cannot_be_repeated_is_refused(options, message):
    # A number of the wrong type is a TypeError, where bools are asked for.
    with pytest.raises((ValueError, TypeError), match=message):
        decode("cross_validate", **options)


@pytest.mark.parametrize("options", [{"average": 2}, {}], ids=repr)
@pytest.mark.parametrize("name", ["others", "other epochs"])
def test_other_trials_are_not_repeated(name, options):
    message = r"cannot be combined with tests on other trials \(test_epochs, X_test"
    with pytest.raises(ValueError, match=message):
        decode(name, **options)
    with pytest.raises(ValueError, match="cannot be combined with y_test"):
        decode("map", y_test=NAMES[::-1], **options)


@pytest.mark.parametrize("given", ["n_repeats", "equalize", "average_test"])
def test_numbers_are_not_repeated(given):
    value = {"n_repeats": 3, "equalize": True, "average_test": False}[given]
    with pytest.raises(ValueError, match=f"task='regression' has no {given}"):
        ENTRIES["values"](DATA, build.values_of(DATA), **{given: value})


def test_who_is_left_out_is_warned_of():
    groups = np.where(CODES == 2, np.arange(N) % 2, RUNS)
    groups[np.flatnonzero(CODES == 2)[:9]] = 0
    message = r"average=4 leaves no average of class 'cat' in group '1' in test set 1"
    with pytest.warns(UserWarning, match=message):
        decode("cross_validate", average=4, groups=groups, cv=LeaveOneGroupOut())


@pytest.mark.parametrize("options", [{"average": 2}, {"average": None}])
def test_maps_without_permutations(options):
    options |= {"n_repeats": 2, "n_permutations": 0}
    with_null = decode("map", **options | {"n_permutations": 3})
    result = decode("map", **options)
    assert result.nulls == {}
    assert_array_equal(result.scores, with_null.scores)
