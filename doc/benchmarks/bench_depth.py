"""How often the cluster depth test claims a time at which there is nothing.

Run ``python doc/benchmarks/bench_depth.py``; it takes about five minutes with one
thread and rewrites the heading "From when" of ``results_claims.rst`` beside it, which
the documentation includes. ``--quick`` takes few data sets, ``--out`` says where to
write. There is no ``--check``: what few data sets can show, the slow tests show.

A subject has 40 trials of two classes at 48 times, in a sensor with noise that lasts
(correlation 0.9 from one time to the next) or does not. Its scores are the AUC of the
sensor, or the accuracy of its sign, which need no training, so that thousands of data
sets are quick; some are decoded in earnest, in 4 sensors and 4 folds. In data with an
effect the classes differ at 16 of the times, from the 17th to the 32nd. Seeds were
chosen before anything was simulated, and are the numbers of the data sets.
"""

import argparse
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from bench_calibration import interval, percent
from bench_paper import duration, list_table, machine
from scipy.ndimage import gaussian_filter1d
from scipy.signal import lfilter
from scipy.stats import rankdata
from sklearn.model_selection import LeaveOneGroupOut
from threadpoolctl import threadpool_limits

from mvpa_kfda import decode_arrays, group_inference
from mvpa_kfda.inference.corrections import corrected_p_values

RESULTS = Path(__file__).with_name("results_claims.rst")
HEADING = "From when"
TITLE = (".. _from_when:", "", HEADING, "~" * len(HEADING), "")
ALPHA = 0.05
Y, RUNS = np.arange(40) % 2, np.repeat(np.arange(4), 10)
N_TIMES, LASTING = 48, 0.9
EFFECT, SMEAR = slice(16, 32), 2.0
N_PERMUTATIONS, N_SUBJECTS, N_SECOND = 199, 12, 499
NAMES = ("cluster-depth", "max-step-down")


@dataclass(frozen=True)
class Design:
    """What is drawn and tested."""

    lasting: float = LASTING
    effect: float = 0.0
    scoring: str = "roc_auc"
    alternative: str = "greater"
    #: Whether labels are exchanged within runs only, which have a mean of their own.
    in_runs: bool = False
    #: Standard deviation, in samples, of the filter that data went through.
    smear: float = 0.0
    threshold: float = 0.05

    @property
    def how(self):
        """How p-values are asked for."""
        return {"alternative": self.alternative, "threshold": self.threshold}


def draw(design, seed, n_sensors=1):
    """Draw trials of one subject, shape (40, sensors, times)."""
    rng = np.random.default_rng(seed)
    n_before = 20
    X = rng.standard_normal((len(Y), n_sensors, N_TIMES + n_before))
    X = lfilter([np.sqrt(1 - design.lasting**2)], [1, -design.lasting], X)
    X = X[..., n_before:]
    pattern = np.abs(rng.standard_normal(n_sensors))
    pattern *= design.effect / np.linalg.norm(pattern)
    X[..., EFFECT] += np.multiply.outer(Y - 0.5, pattern)[..., np.newaxis]
    if design.in_runs:
        X += rng.standard_normal((4, n_sensors, 1))[RUNS]
        X -= np.array([X[RUNS == run].mean(axis=0) for run in range(4)])[RUNS]
    return gaussian_filter1d(X, design.smear, axis=-1) if design.smear else X


def labels(design, seed):
    """Return labels as they are and permuted, (1 + P, 40)."""
    rng = np.random.default_rng((9, seed))
    rows = np.tile(Y, (N_PERMUTATIONS, 1))
    if design.in_runs:
        blocks = rows.reshape(N_PERMUTATIONS, 4, -1)
        rows = rng.permuted(blocks, axis=2).reshape(rows.shape)
    else:
        rows = rng.permuted(rows, axis=1)
    return np.vstack([Y, rows])


def scores(design, X, rows):
    """Return AUCs of a sensor (40, times), or accuracies of its sign, by labels."""
    n = len(Y) // 2
    if design.scoring == "accuracy":
        return ((2 * rows - 1) @ np.sign(X) / len(Y) + 1) / 2
    return (rows @ rankdata(X, axis=0) - n * (n + 1) / 2) / n**2


def subject(design, seed):
    """Return the p-values of one subject by correction."""
    rows = scores(design, draw(design, (1, seed))[:, 0], labels(design, seed))
    return {
        name: corrected_p_values(rows[0], rows[1:], name, **design.how)
        for name in NAMES
    }


def decoded(design, seed):
    """Return the p-values of one subject who was decoded."""
    grouped = {"groups": RUNS, "cv": LeaveOneGroupOut()} if design.in_runs else {}
    result = decode_arrays(
        draw(design, (2, seed), n_sensors=4),
        Y,
        n_permutations=N_PERMUTATIONS,
        scoring=design.scoring,
        reg=0.3,
        verbose=False,
        **{"cv": 4, "random_state": 0} | grouped,
    )
    return {name: result.pvalues(name, **design.how) for name in NAMES}


def difference(design, seed):
    """Return the p-values of the difference between two sensors."""
    X, permuted = draw(design, (3, seed), n_sensors=2), labels(design, seed)
    one, other = (scores(design, X[:, k], permuted) for k in range(2))
    rows = one - other
    return {
        name: corrected_p_values(rows[0], rows[1:], name, **design.how)
        for name in NAMES
    }


def group(method):
    """Return how p-values of a group are had."""
    X = np.random.default_rng(0).standard_normal((len(Y), 1, N_TIMES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels take turns
        template = decode_arrays(X, Y, cv=4, reg=0.3, n_permutations=1, random_state=0)

    def test(design, seed):
        results = []
        for k in range(N_SUBJECTS):
            rows = draw(design, (4, seed, k))[:, 0]
            rows = scores(design, rows, labels(design, (seed, k)))
            metrics, nulls = {"accuracy": rows[0]}, {"accuracy": rows[1:]}
            results.append(replace(template, metrics=metrics, nulls=nulls))
        drawn = {"n_permutations": N_SECOND, "random_state": 0}
        tested = group_inference(results, method, [*NAMES], **design.how, **drawn)
        return {name: tested.pvalues(name) for name in NAMES}

    return test


FLIPPED, RECOMBINED = group("sign-flip"), group("bootstrap")
#: Words -> how p-values are had, and of what.
STUDIES = {
    "subject": (subject, Design()),
    "subject, white noise": (subject, Design(0.0)),
    "subject, two-sided": (subject, Design(alternative="two-sided")),
    "subject, clusters at p = 0.2": (subject, Design(threshold=0.2)),
    "subject, accuracy": (subject, Design(scoring="accuracy")),
    "subject, accuracy, two-sided, white noise": (
        subject,
        Design(0.0, scoring="accuracy", alternative="two-sided"),
    ),
    "subject, accuracy, runs": (subject, Design(scoring="accuracy", in_runs=True)),
    "subject, effect": (subject, Design(effect=1.2)),
    "subject, strong effect": (subject, Design(effect=2.5)),
    "subject, two-sided, effect, white noise": (
        subject,
        Design(0.0, 1.2, alternative="two-sided"),
    ),
    "subject, accuracy, effect": (subject, Design(effect=1.2, scoring="accuracy")),
    "subject, runs, effect": (subject, Design(effect=1.2, in_runs=True)),
    "difference of two results, two-sided": (
        difference,
        Design(alternative="two-sided"),
    ),
    "group, sign-flip": (FLIPPED, Design()),
    "group, sign-flip, two-sided, white noise": (
        FLIPPED,
        Design(0.0, alternative="two-sided"),
    ),
    "group, sign-flip, accuracy, effect": (
        FLIPPED,
        Design(effect=0.3, scoring="accuracy"),
    ),
    "group, bootstrap": (RECOMBINED, Design()),
    "group, bootstrap, effect": (RECOMBINED, Design(effect=0.3)),
    "subject, decoded": (decoded, Design()),
    "subject, decoded, accuracy, effect": (
        decoded,
        Design(effect=1.2, scoring="accuracy"),
    ),
}

#: The same with data that a filter smeared, so that the effect reaches further.
SMEARED = Design(effect=2.5, smear=SMEAR)


def silent_times(design, reach=0):
    """Return the times without an effect, at which none comes from so near."""
    silent = np.ones(N_TIMES, dtype=bool)
    if design.effect:
        silent[EFFECT.start - reach : EFFECT.stop + reach] = False
    return silent


def run(n):
    """Return what was claimed: words -> correction -> false ones, and the share."""
    found = {}
    for words, (test, design) in STUDIES.items():
        found[words] = _claims(test, design, silent_times(design), n)
        print(words, _rates(found[words]), flush=True)
    return found


def run_smeared(n):
    """Return false claims at times further and further from a smeared effect."""
    p = [subject(SMEARED, seed)["cluster-depth"] for seed in range(n)]
    marks = np.array(p) <= ALPHA + 1e-9
    reaches = range(0, 13, 2)
    return {
        reach: marks[:, silent_times(SMEARED, reach)].any(axis=1) for reach in reaches
    }


def _claims(test, design, silent, n):
    """Return whether silent times were claimed, and the share of others that were."""
    false = {name: [] for name in NAMES}
    share = {name: [] for name in NAMES}
    for seed in range(n):
        for name, p in test(design, seed).items():
            marks = p <= ALPHA + 1e-9
            false[name].append(marks[silent].any())
            share[name].append(marks[~silent].mean() if design.effect else np.nan)
    return {name: (np.array(false[name]), np.array(share[name])) for name in NAMES}


def _rates(found):
    return {
        name: tuple(np.round([f.mean(), s.mean()], 3)) for name, (f, s) in found.items()
    }


def section(found, smeared, n):
    """Return the lines of the heading."""
    low, high = 100 * interval(n)
    rows = []
    for words, by_name in found.items():
        row = [words]
        for name in NAMES:
            row.append(percent(by_name[name][0]))
        for name in NAMES:
            share = by_name[name][1].mean()
            row.append("" if np.isnan(share) else f"{100 * share:.0f}")
        rows.append(row)
    heads = [
        "Data sets",
        "cluster-depth: any false claim, %",
        "max-step-down",
        "cluster-depth: true time points found, %",
        "max-step-down",
    ]
    far = [
        [f"{reach}", f"{100 * marks.mean():.1f}"] for reach, marks in smeared.items()
    ]
    return [
        *TITLE,
        f"Percentage of {n} data sets in which a time point without an effect was "
        f"claimed (p <= 0.05), with {N_TIMES} time points, {len(Y)} trials, "
        f"{N_PERMUTATIONS} permutations, and single subjects or groups of "
        f"{N_SUBJECTS}. The nominal rate is 5 %; ↑ and ↓ mark rates above {high:.1f} % "
        f"and below {low:.1f} % (the 99 % sampling interval around 5 %). Noise has a "
        "correlation of 0.9 between successive time points unless it is white. Effects "
        f"are at {EFFECT.stop - EFFECT.start} time points; claims at any other are "
        "false.",
        "",
        *list_table(heads, rows),
        "",
        "**Effect of filters on such claims.** The same with a strong effect, in data "
        f"smoothed with a symmetric filter (Gaussian, standard deviation {SMEAR:g} "
        "samples): how often a time point was claimed that is further from the source "
        "effect than the given number of samples. The claims are true of the filtered "
        "data, but not of the sources.",
        "",
        *list_table(
            ["Distance in samples", "Claimed before or after the effect, %"],
            far,
        ),
        "",
    ]


def write(path, lines):
    """Replace the heading of a file, or append it."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    mark = "\n".join(TITLE)
    before, _, after = text.partition(mark)
    rest = after.split("\n")
    # What follows is the next heading, a line with one of tildes under it.
    next_one = next(
        (k for k, line in enumerate(rest) if k and line and not line.strip("~")), None
    )
    after = "" if next_one is None else "\n".join(rest[next_one - 1 :])
    path.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def main(arguments=None):
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    n, start = 4 if asked.quick else 600, time.perf_counter()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, smeared = run(n), run_smeared(n)
    lines = section(found, smeared, n)
    lines += [f"{machine()} It took {duration(time.perf_counter() - start)}.", ""]
    write(asked.out, lines)


if __name__ == "__main__":
    main()
