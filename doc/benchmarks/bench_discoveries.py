"""Coverage of true discoveries, and how many of those that there are they show.

Run ``python doc/benchmarks/bench_discoveries.py``; it takes about 10 minutes with one
thread and rewrites its section of ``results_claims.rst`` beside it, which the
documentation includes. ``--quick`` takes few data sets, ``--out`` says where to write.

Bounds of all sets hold at once if and only if that of the silent positions together is
zero: where k - 1 positions of any set are allowed to be silent, k silent ones are
counted as found, and these are a set themselves. So one number per data set tells
whether all of its bounds are right. Seeds are the numbers of the data sets.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_paper import list_table, machine
from scipy.ndimage import gaussian_filter1d
from scipy.stats import binom
from sklearn.model_selection import LeaveOneGroupOut
from threadpoolctl import threadpool_limits

from mvpa_kfda import TimeResult, decode_arrays, group_inference

RESULTS = Path(__file__).with_name("results_claims.rst")
HEADING = "True discoveries"
ALPHA, CONFIDENCE = 0.05, 0.99
Y = np.arange(24) % 2
N_DATA_SETS, N_GROUPS = 500, 500


@dataclass(frozen=True)
class Design:
    """What is simulated, and how it is tested."""

    name: str
    n_positions: int
    #: Width of the filter over positions, 0 for noise that is independent there.
    smooth: float = 0.0
    scoring: str = "accuracy"
    alternative: str = "greater"
    #: Classes differ by so much in a third of the positions.
    effect: float = 0.0
    #: Whether trials come in runs with offsets of their own, which folds leave out.
    runs: bool = False
    n_permutations: int = 199
    #: The test of a group of eight, and whether it compares two conditions.
    method: str = ""
    paired: bool = False

    @property
    def region(self):
        """Return where there is an effect."""
        k, there = np.arange(self.n_positions), np.zeros(self.n_positions, bool)
        third = self.n_positions // 3
        there[(k >= third) & (k < 2 * third)] = self.effect > 0
        return there


SUBJECTS = (
    Design("12 rough, accuracy, one-sided", 12),
    Design("12 smooth, AUC, two-sided", 12, 2.0, "roc_auc", "two-sided"),
    Design("40 rough, AUC, one-sided", 40, 0.0, "roc_auc"),
    Design("40 smooth, accuracy, two-sided", 40, 2.0, "accuracy", "two-sided"),
    Design("40 smooth, accuracy, one-sided, effects", 40, 2.0, effect=1.5),
    Design("40 rough, AUC, two-sided, effects", 40, 0, "roc_auc", "two-sided", 1.5),
    Design("40 smooth, accuracy, runs, effects", 40, 2.0, effect=1.5, runs=True),
    Design("240 smooth, AUC, 39 permutations", 240, 3.0, "roc_auc", n_permutations=39),
)
_FEW, _NONE = {"n_permutations": 39}, {"n_permutations": 0, "method": "sign-flip"}
_PAIRED = _NONE | {"paired": True, "alternative": "two-sided"}
_LOWEST, _MEAN = _FEW | {"method": "prevalence"}, _FEW | {"method": "bootstrap"}
GROUPS = (
    Design("prevalence, 12 rough, accuracy", 12, **_LOWEST),
    Design("prevalence, 40 smooth, accuracy, effects", 40, 2.0, effect=2.5, **_LOWEST),
    Design("bootstrap, 12 smooth, AUC", 12, 2.0, "roc_auc", **_MEAN),
    Design("bootstrap, 40 rough, accuracy, effects", 40, effect=2.5, **_MEAN),
    Design("sign-flip, 12 rough, AUC", 12, 0.0, "roc_auc", **_NONE),
    Design("sign-flip, 40 smooth, accuracy, effects", 40, 2.0, effect=2.5, **_NONE),
    Design("two conditions, two-sided, 12 smooth", 12, 2.0, **_PAIRED),
    Design("two conditions, two-sided, 40 rough, effects", 40, effect=2.5, **_PAIRED),
)


# ------------------------------------------------------------------------- simulations


def trials(design, rng, effect):
    """Draw trials of two classes at every position, (24, 3, positions)."""
    X = rng.standard_normal((24, 3, design.n_positions))
    if design.smooth:
        X = gaussian_filter1d(X, design.smooth, axis=2, mode="wrap")
        X /= X.std()
    X[Y == 1] += effect * design.region / np.sqrt(3)
    return X


def decode(design, rng, number):
    """Decode one subject's trials at every position."""
    X, options = trials(design, rng, design.effect), {"cv": 4}
    if design.runs:
        runs = np.arange(24) // 6
        X += rng.standard_normal((4, 3, design.n_positions))[runs]
        options = {"cv": LeaveOneGroupOut(), "groups": runs}
    return decode_arrays(
        X,
        Y,
        reg=0.3,
        scoring=design.scoring,
        n_permutations=design.n_permutations,
        random_state=number,
        verbose=False,
        **options,
    )


def decode_quickly(design, rng, effect):
    """Return what the nearest mean of one feature decodes, from either half to other.

    A group takes eight of these, and this is a hundred times as fast as `decode`.
    """
    X = trials(design, rng, effect)[:, 0]
    rows = np.tile(Y, (design.n_permutations + 1, 1))
    for half in (slice(12), slice(12, 24)):
        rows[1:, half] = rng.permuted(rows[1:, half], axis=1)
    scores = 0
    for train, test in ((slice(12), slice(12, 24)), (slice(12, 24), slice(12))):
        second, first = (
            rows[:, train] @ X[train] / 6,
            (1 - rows[:, train]) @ X[train] / 6,
        )
        if design.scoring == "accuracy":
            above = X[test] > (first + second)[:, np.newaxis] / 2
            right = (above == (second > first)[:, np.newaxis]) == rows[
                :, test, np.newaxis
            ]
            scores = scores + right.mean(axis=1) / 2
        else:
            ranks = X[test].argsort(axis=0).argsort(axis=0) + 1
            auc = (rows[:, test] @ ranks - 21) / 36
            scores = scores + np.where(second > first, auc, 1 - auc) / 2
    return TimeResult(
        times=np.arange(design.n_positions) / 10,
        metrics={design.scoring: scores[0]},
        nulls={design.scoring: scores[1:]} if design.n_permutations else {},
        chances={design.scoring: 0.5},
        classes=np.array(["face", "house"]),
        y=Y,
        groups=None,
        predicted=np.zeros((design.n_positions, 24), int),
        tests=(np.arange(12), np.arange(12, 24)),
        parameters={},
        versions={},
    )


def bounds(design, study, number):
    """Return what is found of the silent positions, the region and the map."""
    rng = np.random.default_rng((study, number))
    if not design.method:
        result = decode(design, rng, number)
        options = {"alternative": design.alternative}
    else:
        subjects = [decode_quickly(design, rng, design.effect) for _ in range(8)]
        options = {"method": design.method, "n_permutations": 499}
        if design.paired:
            others = [decode_quickly(design, rng, 0.0) for _ in range(8)]
            options |= {"other": others, "paired": True}
            options["alternative"] = design.alternative
        result = group_inference(subjects, random_state=number, **options)
        options = {}
    region = design.region
    silent = result.true_discoveries(~region, ALPHA, **options).n_true
    if not region.any():
        return silent, np.nan, np.nan
    of_region = result.true_discoveries(region, ALPHA, **options).share_true
    of_map = result.true_discoveries(None, ALPHA, **options).n_true
    return silent, of_region, of_map / region.sum()


def study(designs, n, first):
    """Return a row of words for each design."""
    rows = []
    low, high = np.array(binom.interval(CONFIDENCE, n, ALPHA)) / n
    for k, design in enumerate(designs, start=first):
        start = time.process_time()
        found = np.array([bounds(design, k, number) for number in range(n)])
        wrong = np.mean(found[:, 0] > 0)
        mark = " ↑" if wrong > high else " ↓" if wrong < low else ""
        powers = ["", ""]
        if design.effect:
            powers = [f"{100 * x:.0f}" for x in found[:, 1:].mean(axis=0)]
        rows.append([design.name, f"{100 * wrong:.1f}{mark}", *powers])
        print(rows[-1], f"{time.process_time() - start:.0f} s", flush=True)
    return rows


# ------------------------------------------------------------------------------ output


def section(n, n_groups):
    """Return the lines of the section."""
    header = ["Design", "Wrong", "Found, region", "Found, map"]
    within, within_g = (
        "{:.1f} to {:.1f} %".format(
            *100 * np.array(binom.interval(CONFIDENCE, k, ALPHA)) / k
        )
        for k in (n, n_groups)
    )
    text = (
        "*Wrong* is the percentage of data sets in which the bound of any set is too "
        "high; 5 are allowed. ↑ and ↓ mark values above or below the 99 % binomial "
        f"interval, {within} for {n} subjects and {within_g} for {n_groups} groups. ↓ "
        "is expected with few permutations relative to the number of positions, where "
        "many rows share the smallest ranks; with coarse scores, whose ties count "
        "against an effect; and with effects, which only lower the line. *Found* is "
        "the mean percentage of the positions with an effect that the bound shows: "
        "with the true region as the set, and for the whole map. Subjects have 24 "
        "trials and 199 permutations unless stated otherwise. Groups have eight "
        "subjects, each decoded with the nearest mean of one feature, trained on "
        "either half of the trials, with 39 permutations or none, and 499 second-level "
        "permutations or all 255 flips. Effects are in a third of the positions."
    )
    return [
        HEADING,
        "~" * len(HEADING),
        "",
        machine(),
        "",
        text,
        "",
        *list_table(header, study(SUBJECTS, n, 0)),
        *list_table(header, study(GROUPS, n_groups, 100)),
    ]


def replace_section(text, lines):
    """Return a page with a section in the place of that of the same heading."""
    page = text.splitlines()
    begin, end = ".. begin true discoveries", ".. end true discoveries"
    lines = [begin, "", *lines, end]
    if begin in page:
        at, after = page.index(begin), page.index(end) + 1
        return "\n".join([*page[:at], *lines, *page[after:]]) + "\n"
    return "\n".join([*page, *([""] if page else []), *lines]) + "\n"


def main(arguments=None):
    """Run everything and write the section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    sizes = (2, 2) if given.quick else (N_DATA_SETS, N_GROUPS)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = section(*sizes)
    old = given.out.read_text("utf-8") if given.out.exists() else ""
    given.out.write_text(replace_section(old, lines), "utf-8")


if __name__ == "__main__":
    main()
