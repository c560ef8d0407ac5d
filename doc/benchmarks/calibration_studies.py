"""Simulated data sets, and how often each test finds something in them.

A subject has 40 trials of two classes with noise that lasts over 12 times, in front and
in back sensors, and is decoded at every time, in 4 folds. In data with an effect the
classes differ at 4 of these times. In noise a corrected test may find something, at any
position, in 5 % of the data sets; a test without a correction at 5 % of the positions.
Seeds were chosen before anything was simulated, and are the numbers of the data sets.

A study returns what was found: column of a table -> correction -> one number per data
set, 1 or 0, or the share of the positions where something was found.
"""

import warnings
from collections import defaultdict
from functools import partial

import numpy as np
from nibabel import Nifti1Image
from scipy.ndimage import gaussian_filter
from scipy.signal import lfilter
from sklearn.model_selection import (
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from mvpa_kfda import (
    Tuned,
    bootstrap_latency,
    compare,
    cross_validate,
    decode_arrays,
    generalize_arrays,
    group_inference,
    searchlight,
)
from mvpa_kfda.group.second_level import (
    RecombinedNull,
    draw_recombinations,
    p_of_scores,
)
from mvpa_kfda.inference.clusters import find_clusters
from mvpa_kfda.inference.corrections import CORRECTIONS, corrected_p_values, holm
from mvpa_kfda.inference.prevalence import prevalence_bound, prevalence_p

ALPHA = 0.05
Y = np.arange(40) % 2
N_SIDE, N_TIMES, LASTING = 6, 12, 0.7
EFFECT, WEAK, STRONG = slice(4, 8), 1.2, 2.0
N_SUBJECTS, SHARES = 12, (1.0, 0.5, 0.25)
# With these, 5 % of all maps is a whole number, and Bonferroni's p can reach 0.05.
N_PERMUTATIONS, N_SECOND = 239, 1999
#: Recombining first-level permutations is fast, flipping signs in libraries is not.
N_EXCHANGES = 239
ADJUSTED = ("none", "max", "bonferroni", "fdr", "fdr-by")
#: Holm's method, which is there for other hypotheses, is left to Bonferroni's, and
#: cluster depth has a script of its own.
NAMES = tuple(name for name in CORRECTIONS if name not in ("holm", "cluster-depth"))
NOT_IN_VOXELS = ("bonferroni", "fdr-by")
IN_VOXELS = tuple(name for name in NAMES if name not in NOT_IN_VOXELS)


# ----------------------------------------------------------------------------- subjects


def draw(study, number, front=0.0, back=0.0):
    """Draw trials of one subject, shape (40, sensors, times), front and back."""
    rng = np.random.default_rng((study, number))
    X = rng.standard_normal((len(Y), 2, N_SIDE, N_TIMES))
    X[..., 1:] *= np.sqrt(1 - LASTING**2)  # the same variance at all times
    X = lfilter([1], [1, -LASTING], X)
    patterns = rng.standard_normal((2, N_SIDE))
    patterns /= np.linalg.norm(patterns, axis=1, keepdims=True)
    patterns *= np.array([[front], [back]])
    X[..., EFFECT] += np.multiply.outer(Y, patterns)[..., np.newaxis]
    return X[:, 0], X[:, 1]


def decode(X, number, scoring="accuracy", **options):
    """Decode the trials of one subject."""
    options = {"n_permutations": N_PERMUTATIONS, "random_state": number} | options
    return decode_arrays(X, Y, cv=4, scoring=scoring, verbose=False, **options)


def both_sides(study, n, scoring="accuracy", **effects):
    """Return results of front and of back sensors of so many subjects."""
    for number in range(n):
        sides = draw(study, number, **effects)
        yield tuple(decode(X, number, scoring) for X in sides)


# ------------------------------------------------------------------------ what is found


def significant(result, names, where=None, **options):
    """Return what the corrections find: whether anything, or which share of `where`."""
    found = {}
    for name in names:
        hits = np.asarray(result.pvalues(name, **options)) <= ALPHA + 1e-9
        if where is not None:
            found[name] = hits[where].mean()
        elif name == "none":
            found |= {"none": hits.mean(), "none, any position": hits.any()}
        else:
            found[name] = hits.any()
    return found


def collect(found, columns):
    """Append what was found in one data set to the lists of all."""
    for column, rates in columns.items():
        for name, rate in rates.items():
            found[column][name].append(float(rate))


def new():
    """Return an empty collection: column -> correction -> a rate of each data set."""
    return defaultdict(partial(defaultdict, list))


# ------------------------------------------------------------------------ the studies


#: Words for metrics and alternatives in the columns of tables.
METRICS = {"accuracy": "accuracy", "roc_auc": "AUC"}
SIDES = {"one-sided": "greater", "two-sided": "two-sided"}


def first_level(results, metrics, where=None):
    """Test single subjects."""
    names, found = NAMES, new()
    for result in results:
        for metric in metrics:
            for words, side in SIDES.items():
                options = {"metric": metric, "alternative": side}
                rates = significant(result, names, where, **options)
                collect(found, {f"{METRICS[metric]}, {words}": rates})
    return found


#: What may be tried after the first test: other corrections, and other metrics.
FORKS = ("max", "cluster", "tfce", "fdr")
FORKED_METRICS = ("accuracy", "roc_auc", "f1_macro")


def forking(n):
    """Test noise once, and by whatever finds something: words -> one per data set."""
    found = defaultdict(list)
    for number in range(n):
        X = draw(30, number)[0]
        result = decode(X, number, list(FORKED_METRICS))
        hits = np.array(
            [
                [(result.pvalues(c, metric=m) <= ALPHA + 1e-9).any() for c in FORKS]
                for m in FORKED_METRICS
            ]
        )
        found["the first correction of the first metric"].append(hits[0, 0])
        found[f"any of {len(FORKS)} corrections"].append(hits[0].any())
        found[f"any of {len(FORKS)} corrections and {len(hits)} metrics"].append(
            hits.any()
        )
    return found


#: Column -> method, and which lists it takes.
TESTS = {
    "prevalence": ("prevalence", "one"),
    "bootstrap": ("bootstrap", "one"),
    "sign-flip": ("sign-flip", "one"),
    "t": ("t", "one"),
    "wilcoxon": ("wilcoxon", "one"),
    "two groups, sign-flip": ("sign-flip", "two"),
    "two groups, wilcoxon": ("wilcoxon", "two"),
    "paired, sign-flip": ("sign-flip", "paired"),
}
RECOMBINED = ("prevalence", "bootstrap")
#: Those that are done with one metric only.
ONE_METRIC = ("sign-flip", "paired, sign-flip")


def find_in_group(first, second, tests, names, where=None, **options):
    """Return what the methods find in one group, or of two: column -> rates."""
    columns = {}
    for column in tests:
        method, lists = TESTS[column]
        n_permutations = N_SECOND if method in RECOMBINED else N_EXCHANGES
        asked = (*names, "cluster-fdr") if method == "bootstrap" else names
        given = {} if lists == "one" else {"other": second, "paired": lists == "paired"}
        given |= {"n_permutations": n_permutations, "random_state": 0} | options
        group = group_inference(first, method, asked, **given)
        columns[column] = significant(group, asked, where)
        if method == "prevalence":
            some = [name for name in names if name in ADJUSTED]
            rates = significant(group, some, where, hypothesis="majority")
            columns["majority null"] = rates
    return columns


def in_groups(results):
    """Cut a list into groups of subjects."""
    starts = range(0, len(results) - N_SUBJECTS + 1, N_SUBJECTS)
    return [results[start : start + N_SUBJECTS] for start in starts]


def group_noise(front, back, metric):
    """Test groups of noise; the back sensors are the other group or condition."""
    found, tests = new(), list(TESTS)
    if metric != "accuracy":
        tests = [name for name in tests if name not in ONE_METRIC]
    for one, two in zip(in_groups(front), in_groups(back), strict=True):
        columns = find_in_group(one, two, tests, NAMES, metric=metric)
        collect(found, columns)
    return found


def group_power(effects, front, back, share):
    """Test groups of a population of which a share has the effect."""
    rng = np.random.default_rng(int(100 * share))
    has = rng.random(len(effects)) < share
    mixed = [e if h else f for e, h, f in zip(effects, has, front, strict=False)]
    found, tests = new(), [name for name in TESTS if not name.startswith("paired")]
    for one, two in zip(in_groups(mixed), in_groups(back), strict=False):
        options = {"where": EFFECT, "metric": "accuracy"}
        collect(found, find_in_group(one, two, tests, NAMES, **options))
    return found


def voxel_noise(n):
    """Test groups of searchlight maps of smooth noise."""
    affine, size = np.diag([3.0, 3.0, 3.0, 1.0]), (4, 4, 2)
    mask = Nifti1Image(np.ones(size, dtype=np.uint8), affine)
    found = new()
    for group in range(n):
        rng = np.random.default_rng((4, group))
        results = []
        for subject in range(N_SUBJECTS):
            noise = rng.standard_normal((*size, len(Y)))
            noise = gaussian_filter(noise, (0.7, 0.7, 0.7, 0))
            options = {"n_permutations": 99, "random_state": subject, "verbose": False}
            options |= {"mask_img": mask, "radius": 3.5, "cv": 4, "scoring": "roc_auc"}
            results.append(searchlight(Nifti1Image(noise, affine), Y, **options))
        tests = ("prevalence", "bootstrap", "sign-flip", "t")
        collect(found, find_in_group(results, None, tests, IN_VOXELS, threshold=ALPHA))
    return found


#: Maps of time generalization: how much the classes differ in the first and in the
#: second half of the times, in a pattern of its own each.
MAPS = {
    "noise": (0.0, 0.0),
    "silent training": (0.0, STRONG),
    "another code": (STRONG, STRONG),
}
HALF = N_TIMES // 2
OF_MAPS = ("none", "max", "cluster", "cluster-size", "tfce")
#: Noise of these maps lasts longer, as that of filtered signals does.
LASTING_LONG = 0.9


def draw_map(study, number, early, late):
    """Draw trials (40, sensors, times) with effects in either half of the times."""
    rng = np.random.default_rng((study, number))
    X = rng.standard_normal((len(Y), N_SIDE, N_TIMES))
    X[..., 1:] *= np.sqrt(1 - LASTING_LONG**2)
    X = lfilter([1], [1, -LASTING_LONG], X)
    patterns = rng.standard_normal((2, N_SIDE))
    patterns /= np.linalg.norm(patterns, axis=1, keepdims=True)
    for pattern, size, half in zip(
        patterns, (early, late), (slice(HALF), slice(HALF, None)), strict=True
    ):
        X[..., half] += size * np.multiply.outer(Y, pattern)[..., np.newaxis]
    return X


def silent_cells(words):
    """Return the cells of a map that have no effect."""
    # What is learned in one half of the times says nothing of the other.
    silent = np.ones((N_TIMES, N_TIMES), dtype=bool)
    early, late = MAPS[words]
    silent[:HALF, :HALF] = early == 0
    silent[HALF:, HALF:] = late == 0
    return silent


def map_of(study, number, words):
    """Decode one map of time generalization."""
    options = {"cv": 4, "scoring": "roc_auc", "random_state": number, "verbose": False}
    X = draw_map(study, number, *MAPS[words])
    return generalize_arrays(X, Y, n_permutations=N_PERMUTATIONS, **options)


def generalization(n):
    """Test maps: what is found without an effect, wholly or in part, and with one."""
    found = new()
    for study, words in enumerate(MAPS, start=10):
        silent = silent_cells(words)
        for number in range(n):
            result = map_of(study, number, words)
            for name in OF_MAPS:
                marks = result.pvalues(name) <= ALPHA + 1e-9
                rates = {words: wholly(marks, silent)}
                if name == "none":
                    rates = {words: marks[silent].mean()}
                if not silent.all():
                    rates[f"{words}, in part"] = (marks & silent).any()
                    rates[f"{words}, found"] = marks[HALF:, HALF:].mean()
                for column, rate in rates.items():
                    found[column][name].append(float(rate))
    return found


def wholly(marks, silent):
    """Tell whether some connected marks are all in cells without an effect."""
    labels, sizes = find_clusters(marks[np.newaxis], 0.5)
    return any(silent[labels[0] == k + 1].all() for k in range(len(sizes)))


#: What two results of a subject have to tell apart: effects in front and back sensors.
PAIRS = {
    "neither decodes": (0.0, 0.0),
    "both equally well": (WEAK, WEAK),
    "one of them": (STRONG, 0.0),
}


def comparisons(n, pairs):
    """Compare front with back sensors in single subjects."""
    found, names = new(), NAMES
    for study, (words, (front, back)) in enumerate(PAIRS.items(), start=5):
        if words not in pairs:
            continue
        where = None if front == back else EFFECT
        for a, b in both_sides(study, n, front=front, back=back):
            rates = significant(compare(a, b, correction=names), names, where)
            collect(found, {f"permutation, {words}": rates})
    return found


#: Numbers of subjects of groups of whom some are carriers, and their positions.
OF_CARRIERS, N_POSITIONS = (8, 12, 20), 30
#: Who has the effect, with a probability of one half, so that nowhere a majority has.
CARRIERS = {"others at each position": False, "the same everywhere": True}
#: What says so: the paper's correction, and what is in results.
CLAIMS = ("majority, Eq. 21", "majority, Holm", "bound, Eq. 23", "bound")
#: Numbers of trials of the subjects, in turn.
OF_TRIALS = {"40 trials each": (40,), "20 or 400 trials": (20, 400)}
ONE_CLAIM = ("majority, Eq. 19", "majority, product")


def draw_scores(rng, carriers, n_trials):
    """Return scores (S, C), higher in carriers, and 100 permuted ones each."""
    spread = 0.5 / np.sqrt(np.resize(n_trials, len(carriers)))[:, np.newaxis]
    size = 100, carriers.shape[1]
    scores = 0.5 + 0.45 * carriers + spread * rng.standard_normal(carriers.shape)
    return scores, [0.5 + each * rng.standard_normal(size) for each in spread]


def shares(n):
    """Return how often shares of the population are claimed that are not there."""
    at_positions, at_one = {}, {}
    for study, n_subjects in enumerate(OF_CARRIERS, start=20):
        for words, alike in CARRIERS.items():
            hits = {name: [] for name in CLAIMS}
            for number in range(n):
                rng = np.random.default_rng((study, alike, number))
                shape = n_subjects, 1 if alike else N_POSITIONS
                carriers = np.broadcast_to(
                    rng.random(shape) < 0.5, (n_subjects, N_POSITIONS)
                )
                for name, where in _claims(rng, carriers, (40,)).items():
                    hits[name].append(bool(where.any()))
            at_positions[f"{n_subjects} subjects, {words}"] = hits
        for words, n_trials in OF_TRIALS.items():
            hits = {name: [] for name in ONE_CLAIM}
            for number in range(n):
                rng = np.random.default_rng((study, len(n_trials), 2, number))
                carriers = rng.random((n_subjects, N_POSITIONS)) < 0.5
                p = _minimum(rng, carriers, n_trials)[1]
                equal = np.tile(p.prod(axis=0) ** (1 / n_subjects), (n_subjects, 1))
                for name, each in zip(ONE_CLAIM, (equal, p), strict=True):
                    hits[name] += [*(prevalence_p(each, 0.5) <= ALPHA)]
            at_one[f"{n_subjects} subjects, {words}"] = hits
    return at_positions, at_one


def _minimum(rng, carriers, n_trials):
    """Return the null of the minimum over subjects, and their p-values of it."""
    scores, nulls = draw_scores(rng, carriers, n_trials)
    draws = draw_recombinations([101] * len(scores), N_SECOND, rng)
    null = RecombinedNull(scores, nulls, draws, "min")
    return null, p_of_scores(null.observed, nulls)


def _claims(rng, carriers, n_trials):
    """Return where a majority is claimed: by the paper's correction, and by ours."""
    null, p = _minimum(rng, carriers, n_trials)
    corrected = corrected_p_values(null.observed, null[:], "max")
    majority, n = prevalence_p(p, 0.5), p.shape[1]
    with np.errstate(divide="ignore"):
        level = (ALPHA - corrected) / (1 - corrected)
    return {
        "majority, Eq. 21": corrected + (1 - corrected) * majority <= ALPHA,
        "majority, Holm": holm(majority) <= ALPHA,
        "bound, Eq. 23": prevalence_bound(p, np.maximum(level, 1e-300)) > 0.5,
        "bound": prevalence_bound(p, ALPHA / n) > 0.5,
    }


#: Standard deviations of the subjects' latencies, in seconds.
SPREADS = (0.02, 0.06)


def latency_coverage(n):
    """Return how often the intervals of onset and peak hold those of the population."""
    found = {}
    for spread in SPREADS:
        for name, values in _coverage(n, spread).items():
            found[f"{name}, SD {spread:g} s"] = values
    return found


def _coverage(n, spread):
    """Return the latencies of a population, and how often intervals hold them."""
    times = np.arange(-0.1, 0.5, 0.025)
    results = []
    for number in range(n * N_SUBJECTS):
        rng = np.random.default_rng((8, number))
        late, high = 0.2 + spread * rng.standard_normal(), rng.uniform(1, 3)
        X = rng.standard_normal((len(Y), N_SIDE, len(times)))
        pattern = rng.standard_normal(N_SIDE)
        course = high * np.exp(-0.5 * np.square((times - late) / 0.06))
        pattern /= np.linalg.norm(pattern)
        X += np.multiply.outer(np.multiply.outer(Y, pattern), course)
        options = {"n_permutations": 0, "sfreq": 40.0, "tmin": times[0]}
        results.append(decode(X, number, **options))
    # All subjects of all groups stand for the population.
    truth = bootstrap_latency(results, n_bootstraps=100, random_state=0)
    held = {"onset": [], "peak": []}
    for seed, group in enumerate(in_groups(results)):
        latency = bootstrap_latency(group, n_bootstraps=2000, random_state=seed)
        for name, hits in held.items():
            low, high = getattr(latency, f"{name}_interval")
            hits.append(low - 1e-9 <= getattr(truth, name) <= high + 1e-9)
    return {name: (getattr(truth, name), hits) for name, hits in held.items()}


N_SHUFFLED = 20  # subjects
SHUFFLES = {"within folds": "within_folds", "freely": "free"}


def shuffling(n):
    """Decode noise in 10 stratified folds and shuffle labels within them or freely."""
    found = {}
    for words, permute in SHUFFLES.items():
        rng, rates = np.random.default_rng(9), defaultdict(list)
        for _ in range(n):
            results = []
            for subject in range(N_SHUFFLED):
                X = rng.standard_normal((len(Y), 20))
                folds = list(StratifiedKFold(10).split(X, Y))  # the same for all labels
                options = {"cv": folds, "n_permutations": 99, "random_state": subject}
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "permute='free'")
                    results.append(cross_validate(X, Y, permute=permute, **options))
            rates["observed"] += [result.scores for result in results]
            rates["null"] += [result.null.mean() for result in results]
            rates["p"] += [result.pvalues() <= ALPHA + 1e-9 for result in results]
            for method in ("bootstrap", "prevalence"):
                options = {"n_permutations": N_SECOND, "random_state": 0}
                group = group_inference(results, method, "none", **options)
                rates[method].append(group.pvalues() <= ALPHA)
        found[words] = rates
    return found


# ------------------------------------------- folds with a hat matrix of their own

#: Runs of trials with an offset each, and which trials cross-decoding trains on.
RUNS = np.repeat(np.arange(5), 8)
TRAINED = np.arange(40) % 8 < 4


def noise(rng):
    """Draw trials (40, 20) with features of any scale and level."""
    return 10 * rng.standard_normal((len(Y), 20)) * rng.uniform(0.1, 3, 20) + 5


def in_any_order(rng):
    """Draw noise that lasts from trial to trial, and labels in random order."""
    lasting = lfilter([1], [1, -LASTING], rng.standard_normal((len(Y), 20)), axis=0)
    return lasting, rng.permutation(Y)


def confounded(rng):
    """Draw features that a confound moves, which is related to the labels."""
    confound = Y + rng.standard_normal(len(Y))
    moved = 2 * np.outer(confound, rng.standard_normal(20))
    return noise(rng) + moved, Y, {"cv": 4, "confounds": confound}


def crossed(rng, **options):
    """Draw runs whose trials for testing, and these only, can tell the classes."""
    y = np.concatenate([rng.permutation([0, 0, 1, 1]) for _ in range(10)])
    X = rng.standard_normal((len(y), 20)) + 2 * rng.standard_normal((5, 20))[RUNS]
    X += 0.7 * np.outer(y * ~TRAINED, rng.standard_normal(20))
    return X, y, {"groups": RUNS, "train_on": TRAINED, **options}


def _stepped(**options):
    """Return what draws noise to be decoded with steps."""
    return lambda rng: (noise(rng), Y, {"cv": 4, **options})


def _split(cv):
    """Return what draws lasting noise for some folds."""
    return lambda rng: (*in_any_order(rng), {"cv": cv})


#: What is learned in folds, or how they are drawn -> what draws trials and options.
FOLDWISE = {
    "z-scores": _stepped(preprocess="zscore"),
    "components": _stepped(preprocess="pca"),
    "whitening": _stepped(preprocess="whiten"),
    "z-scores, tuned penalty": _stepped(preprocess="zscore", reg=Tuned()),
    "a confound related to the labels": confounded,
    "stratified test sets that overlap": _split(
        StratifiedShuffleSplit(10, random_state=0)
    ),
    "TimeSeriesSplit": _split(TimeSeriesSplit(4)),
    "ShuffleSplit, training on half": _split(
        ShuffleSplit(10, train_size=0.5, test_size=0.25, random_state=0)
    ),
    "test sets that overlap": _split(ShuffleSplit(10, random_state=0)),
}
#: The same for cross-decoding with runs left out.
CROSSED = {
    "trained on some trials, tested on others": crossed,
    "the same with z-scores": partial(crossed, preprocess="zscore"),
}


def foldwise(n):
    """Decode noise with steps, confounds and training sets of any shape."""
    found = {}
    for study, (words, draws) in enumerate({**FOLDWISE, **CROSSED}.items(), start=10):
        found[words] = defaultdict(list)
        for number in range(n):
            X, y, options = draws(np.random.default_rng((study, number)))
            options["scoring"] = list(METRICS)
            options |= {"n_permutations": N_PERMUTATIONS, "random_state": number}
            result = cross_validate(X, y, **options)
            for metric in METRICS:
                p = result.pvalues(metric=metric)
                found[words][metric].append(p <= ALPHA + 1e-9)
    return found
