"""How often claims about people are wrong, and how often they are found.

Run ``python doc/benchmarks/bench_people.py``; it takes about 10 minutes with one thread
and rewrites ``results_people.rst`` beside it, which the documentation includes.
``--quick`` takes few data sets, ``--out`` says where to write. What is simulated is in
``people_studies.py``. There is no ``--check``: what few data sets can show, the slow
tests show.
"""

import argparse
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import people_studies as studies
from bench_calibration import percent, within
from bench_paper import duration, list_table, machine
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from mvpa_kfda.inference import exchange

RESULTS = Path(__file__).with_name("results_people.rst")


@dataclass(frozen=True)
class Sizes:
    """Numbers of data sets."""

    majorities: int
    power: int
    posteriors: int
    intervals: int


FULL, QUICK = Sizes(500, 1000, 1000, 500), Sizes(2, 2, 3, 1)


def run(sizes):
    """Run all studies; return what they found by name."""
    # The same flips for all groups of a size, and fewer, or they would take hours.
    exchange.N_DRAWN = 1999
    for name in ("draw_signs", "draw_labels"):
        setattr(exchange, name, cache(getattr(exchange, name)))
    found, start = {}, time.perf_counter()
    for name, study, n in (
        ("majorities", studies.false_majorities, sizes.majorities),
        ("power", studies.power, sizes.power),
        ("posteriors", studies.posteriors, sizes.posteriors),
        ("one", studies.intervals, sizes.intervals),
        ("two", lambda n: studies.intervals(n, two_groups=True), sizes.intervals),
    ):
        found[name] = study(n)
        print(f"{name}: {duration(time.perf_counter() - start)} so far", flush=True)
    return found


def write(path, found, sizes):
    """Write the tables."""
    lines = [
        ".. Written by bench_people.py.",
        "",
        machine(),
        "",
        *_how_many(found, sizes),
        *_how_large(found, sizes),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


# ------------------------------------------------------------------------- the tables


def _how_many(found, sizes):
    """Return the lines on majorities and on shares."""
    n_each = studies.N_POSITIONS
    designs, power = found["majorities"], found["power"]
    header = [f"{n} subjects, order {order}" for n, order in studies.ORDERS]
    at_each, at_any = (
        [
            [words, *(each(cases[case][k]) for case in studies.ORDERS)]
            for words, cases in designs.items()
        ]
        for k, each in enumerate((_mean, percent))
    )
    return [
        "How many people",
        "~~~~~~~~~~~~~~~",
        "",
        "*The i-test.* Half of the population have an effect at each position, so any "
        "claim of a majority is false; those who have it are always detected. 99 label "
        f"permutations per subject, {n_each} positions. Percentage of positions at "
        f"which a majority is claimed, without correction ({sizes.majorities} groups):",
        "",
        *list_table(["Scores", *header], at_each),
        "Percentage of groups in which it is claimed at any position, with Holm's "
        f"method ({within(sizes.majorities)}; with 8 subjects, order 3 of 12 and order "
        "6 of 20, a majority is not attainable at 30 positions):",
        "",
        *list_table(["Scores", *header], at_any),
        "Two of 20 subjects are at chance, and the others have an accuracy of "
        f"{studies.CLEAR:g} in 60 trials. Percentage of {sizes.power:,} groups, or of "
        "their positions, for which a majority is claimed:",
        "",
        *list_table(
            ["Order", "At one position", f"At {n_each} positions, Holm"],
            [[str(order), *map(_mean, rates)] for order, rates in power.items()],
        ),
        "Order 1 is the minimum. Orders 5 and 6 cannot reach the level with this "
        "number of positions.",
        "",
        *_posteriors(found["posteriors"], sizes.posteriors),
    ]


def _posteriors(found, n):
    """Return the lines on the posterior of a share."""
    rows = []
    for words, shares in found.items():
        for share in studies.SHARES:
            held, above, nominal = shares[share]
            name = "uniformly drawn" if share is None else f"{share:g}"
            if share == 0:
                bounds = [f"{np.quantile(each, 0.95):.3f}" for each in (above, nominal)]
                bounds = [f"(up to {each})" for each in bounds]
            else:
                bounds = [_mean(each <= 1e-9) for each in (above, nominal)]
            rows.append([words, f"{shares['size']:.3f}", name, _mean(held), *bounds])
    low, high = (100 * each / n for each in binom.interval(0.99, n, 0.95))
    return [
        "*The posterior.* A proportion of 20 subjects have an effect, which is always "
        "detected. Percentage of groups in which the interval and the lower bound "
        "(both 95 %) cover the proportion. For proportions drawn uniformly for each "
        f"group, this should be 95 % ({low:.1f} to {high:.1f} % of {n:,} groups); for "
        "a single one it may be higher or lower, because the prior includes all of "
        "them. A bound is never 0: if nobody has an effect, it is above 0 in all "
        "groups, and the number in brackets is its 95th percentile. The last column "
        "uses the level, 0.05, as the size of each test.",
        "",
        *list_table(
            [
                "Trials",
                "Mean size",
                "Proportion",
                "Interval",
                "Bound",
                "Bound, size 0.05",
            ],
            rows,
        ),
    ]


def _how_large(found, sizes):
    """Return the lines on intervals of the mean."""
    n_each = studies.N_POSITIONS
    tables = []
    for words, name in (("One group", "one"), ("Two groups of equal size", "two")):
        rows = [
            [scores, str(n), *_coverage(rates)]
            for scores, by_size in found[name].items()
            for n, rates in by_size.items()
        ]
        header = [words, "Subjects", "Covered", "Interval too low", "Interval too high"]
        header += ["Covered at all positions", "Bounds hold at all positions"]
        tables += list_table(header, rows)
    low, high = (
        100 * each / sizes.intervals
        for each in binom.interval(0.99, sizes.intervals, 0.95)
    )
    return [
        "How large",
        "~~~~~~~~~",
        "",
        f"95 % intervals of the mean at {n_each} positions, from at most 1999 flips. "
        "Percentage of intervals at single positions that cover the mean, and that are "
        "entirely below and entirely above it; percentage of groups in which "
        "simultaneous intervals, and simultaneous lower bounds, cover it at all "
        f"positions ({low:.1f} to {high:.1f} % of {sizes.intervals} groups):",
        "",
        *tables,
        "Intervals have the nominal coverage if values are distributed symmetrically "
        "around the mean, as differences between conditions are, and so do those of "
        "the difference between two groups of the same kind. For one group with skewed "
        "scores, or in which few have an effect, they are too low: the mean is above "
        "them. Lower bounds are then conservative, upper bounds too liberal, and "
        "simultaneous intervals far too short.",
        "",
    ]


def _coverage(rates):
    """Word the coverage of each position, and of all of them."""
    above, below, missed, bound_missed = np.mean(rates, axis=0)
    shares = (1 - above - below, below, above, 1 - missed, 1 - bound_missed)
    return [f"{100 * share:.1f}" for share in shares]


def _mean(rates):
    """Word a mean in per cent."""
    return f"{100 * np.mean(rates):.1f}"


def main(arguments=None):
    """Run everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few data sets")
    parser.add_argument("--out", type=Path, help="where to write the tables")
    args = parser.parse_args(arguments)
    sizes = QUICK if args.quick else FULL
    with threadpool_limits(1):
        found = run(sizes)
    if path := args.out or (None if args.quick else RESULTS):
        write(path, found, sizes)


if __name__ == "__main__":
    main()
