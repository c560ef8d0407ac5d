"""Calibration and power of all tests, and why stratified folds are not kept.

Run ``python doc/benchmarks/bench_calibration.py``; it takes about 20 minutes with one
thread and rewrites ``results_calibration.rst`` beside it, which the documentation
includes. ``--quick`` takes few data sets, ``--out`` says where to write. What is
simulated and tested is in ``calibration_studies.py``. There is no ``--check``: what few
data sets can show, the slow tests show.
"""

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import calibration_studies as studies
import numpy as np
from bench_paper import duration, list_table, machine
from scipy.stats import binom
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).with_name("results_calibration.rst")
ALPHA, CONFIDENCE, COVERED = studies.ALPHA, 0.99, 0.95


@dataclass(frozen=True)
class Sizes:
    """Numbers of data sets."""

    single: int  # subjects at the first level
    noise: int  # groups of noise
    power: int  # groups with an effect
    voxels: int  # groups of noise in voxels
    compared: int  # subjects with two results
    latencies: int  # groups with an onset
    shuffled: int  # groups for ways to shuffle
    foldwise: int  # subjects decoded with what folds learn
    maps: int  # maps of time generalization
    shares: int  # groups of whom some are carriers
    forks: int  # subjects tested again and again


FULL = Sizes(1000, 200, 80, 80, 300, 300, 300, 1000, 600, 400, 400)
QUICK = Sizes(4, 1, 1, 1, 1, 2, 1, 2, 2, 2, 2)


def interval(n, rate=ALPHA):
    """Return what the share of n data sets is within if its true value is a rate."""
    return np.array(binom.interval(CONFIDENCE, n, rate)) / n


# ------------------------------------------------------------------------- the tables


def percent(rates, marked=True):
    """Word a share of data sets, marked if it is not 5 % within sampling error."""
    low, high = interval(len(rates))
    rate, mark = np.mean(rates), ""
    if marked:
        mark = " ↑" if rate > high else " ↓" if rate < low else ""
    return f"{100 * rate:.1f}{mark}"


def table(found, marked=True):
    """Return the lines of a table of corrections by columns."""
    names = list(dict.fromkeys(name for rates in found.values() for name in rates))
    rows = []
    for name in names:
        mark = marked and name != "none, any position"
        rows.append([name])
        for rates in found.values():
            rows[-1].append(percent(rates[name], mark) if name in rates else "")
    return list_table(["Correction", *found], rows)


def power_table(by_share):
    """Return the lines of a table of powers with all, half and a quarter."""
    first, *_ = by_share.values()
    names = list(dict.fromkeys(name for rates in first.values() for name in rates))
    rows = []
    for name in names:
        rows.append([name])
        for column, rates in first.items():
            if name not in rates:
                rows[-1].append("")
                continue
            every = [found[column][name] for found in by_share.values()]
            rows[-1].append(" / ".join(f"{100 * np.mean(each):.0f}" for each in every))
    return list_table(["Correction", *first], rows)


def shuffling_table(found):
    """Return the lines of the table of ways to shuffle."""
    header = ["Shuffling", "Observed accuracy", "Mean of the null", "One subject"]
    rows = []
    for words, rates in found.items():
        means = [f"{np.mean(rates[name]):.4f}" for name in ("observed", "null")]
        shares = [percent(rates[name]) for name in ("p", "bootstrap", "prevalence")]
        rows.append([words, *means, *shares])
    return list_table([*header, "Bootstrap", "Prevalence"], rows)


def latency_table(found):
    """Return the lines of the table of coverage."""
    rows = []
    for name, (truth, hits) in found.items():
        rows.append([name, f"{truth:.3f} s", f"{100 * np.mean(hits):.1f}"])
    return list_table(["Latency", "Of the population", "Intervals that cover it"], rows)


def within(n, rate=ALPHA):
    """Word the interval of sampling error."""
    low, high = 100 * interval(n, rate)
    return f"{low:.1f} to {high:.1f} % of {n} data sets"


# ------------------------------------------------------------------------- output


def run(sizes):
    """Run all studies; return what they found by name."""
    n_noise, n_power = (n * studies.N_SUBJECTS for n in (sizes.noise, sizes.power))
    metrics = ["accuracy", "roc_auc"]
    found, start = {}, time.perf_counter()

    def done(name, result):
        found[name] = result
        print(f"{name}: {duration(time.perf_counter() - start)} so far", flush=True)

    noise = list(studies.both_sides(1, max(sizes.single, n_noise, n_power), metrics))
    front, back = zip(*noise, strict=True)
    done("single", studies.first_level(front[: sizes.single], metrics))
    weak, strong = (
        [studies.decode(studies.draw(study, i, front=size)[0], i) for i in range(n)]
        for study, size, n in ((2, studies.WEAK, n_power), (3, studies.STRONG, n_power))
    )
    done("weak", studies.first_level(weak, metrics[:1], studies.EFFECT))
    for metric in metrics:
        lists = front[:n_noise], back[:n_noise]
        done(metric, studies.group_noise(*lists, metric))
    power = {}
    for share in studies.SHARES:
        lists = strong, front[:n_power], back[:n_power]
        power[share] = studies.group_power(*lists, share)
    done("power", power)
    done("voxels", studies.voxel_noise(sizes.voxels))
    equal, different = list(studies.PAIRS)[:2], list(studies.PAIRS)[2:]
    done("equal", studies.comparisons(sizes.compared, equal))
    done("different", studies.comparisons(sizes.compared, different))
    done("shares", studies.shares(sizes.shares))
    done("forks", studies.forking(sizes.forks))
    done("foldwise", studies.foldwise(sizes.foldwise))
    done("maps", studies.generalization(sizes.maps))
    done("latencies", studies.latency_coverage(sizes.latencies))
    done("shuffled", studies.shuffling(sizes.shuffled))
    return found


def write(path, found, sizes):
    """Write the tables."""
    singles = within(sizes.single)
    lines = [
        ".. Written by bench_calibration.py.",
        "",
        machine(),
        "",
        "For noise, each number is the percentage of data sets in which a test is "
        f"significant at {100 * ALPHA:g} %; without a correction (none), the "
        "percentage of positions. ↑ and ↓ mark values above or below the "
        f"{100 * CONFIDENCE:g} % binomial interval around {100 * ALPHA:g} %. One in a "
        "hundred calibrated tests is marked by chance. ↓ is a conservative test, such "
        "as ``fdr-by``, which allows any dependence between positions, and tests of "
        "coarse scores, such as accuracies of 40 trials, because ties count against an "
        "effect.",
        "",
        "Single subjects",
        "~~~~~~~~~~~~~~~",
        "",
        f"{studies.N_PERMUTATIONS} permutations. Noise ({singles}):",
        "",
        *table(found["single"]),
        "Classes differ at 4 of the 12 time points; percentage of these found:",
        "",
        *table(found["weak"], marked=False),
        "Groups",
        "~~~~~~",
        "",
        f"{studies.N_SUBJECTS} subjects; the second group, or the second condition, "
        f"consists of the other sensors. Noise, accuracy ({within(sizes.noise)}):",
        "",
        *table(found["accuracy"]),
        "The minimum of 12 accuracies takes few values, so prevalence inference is "
        "conservative here. If nobody has an effect, the majority null is far from "
        "being rejected.",
        "",
        "The same noise, area under the ROC curve, which has fewer ties:",
        "",
        *table(found["roc_auc"]),
        "Searchlights in 32 voxels, area under the ROC curve, clusters of voxels with "
        f"p <= {ALPHA:g} ({within(sizes.voxels)}):",
        "",
        *table(found["voxels"]),
        "A population in which 100, 50 or 25 % have an effect at 4 of the 12 time "
        f"points; percentage of these that are found, accuracy, mean of {sizes.power} "
        f"groups of {studies.N_SUBJECTS}. In the column of the majority null, the "
        "numbers for 50 and 25 % are errors:",
        "",
        *power_table(found["power"]),
        "A test of the mean finds effects of a quarter of the population. Only the "
        "majority null shows that an effect is typical; its correction ``max`` is "
        "Holm's method.",
        "",
        *_shares(*found["shares"], sizes.shares),
        *_forks(found["forks"], sizes.forks),
        "Two results of a subject",
        "~~~~~~~~~~~~~~~~~~~~~~~~",
        "",
        "``compare``, two-sided, of front and back sensors; neither or both have the "
        f"effect ({within(sizes.compared)}):",
        "",
        *table(found["equal"]),
        "One of them has the effect; percentage of its 4 time points that are found:",
        "",
        *table(found["different"], marked=False),
        *_foldwise(found["foldwise"], sizes.foldwise),
        *_maps(found["maps"], sizes.maps),
        *_latencies(found["latencies"], sizes.latencies),
        *_shuffles(found["shuffled"], sizes.shuffled),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")


def _shares(at_positions, at_one, n):
    """Return the lines on shares of the population."""
    rows = [
        [words, *(percent(rates[name], marked=True) for name in studies.CLAIMS)]
        for words, rates in at_positions.items()
    ]
    rows_of_one = [
        [words, *(f"{100 * np.mean(rates[name]):.1f}" for name in studies.ONE_CLAIM)]
        for words, rates in at_one.items()
    ]
    n_tested = n * studies.N_POSITIONS
    return [
        "Proportions of the population",
        "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
        "",
        f"{studies.N_POSITIONS} positions, at each of which a subject has an effect "
        "with a probability of 0.5, so any claim of a majority is false. Scores are "
        "normal, without ties, 100 permutations each. How often a majority is claimed "
        "anywhere, by p-values and by the bound, with the paper's correction and with "
        f"that of ``group_inference`` ({within(n)}):",
        "",
        *list_table(["Group", *studies.CLAIMS], rows),
        "The paper's correction controls the error at positions where nobody has an "
        "effect. Holm's method and Bonferroni's bound control it wherever there are "
        "effects. With 8 subjects and 30 positions they cannot show any majority.",
        "",
        "At one position, without correction, using the paper's formula for identical "
        f"subjects and the product over subjects ({n_tested:,} positions):",
        "",
        *list_table(["Group", *studies.ONE_CLAIM], rows_of_one),
    ]


def _forks(found, n):
    """Return the lines on tests that are tried one after the other."""
    rows = [[words, percent(rates)] for words, rates in found.items()]
    return [
        "Forking paths",
        "~~~~~~~~~~~~~",
        "",
        f"How often noise is significant in any of several tests ({within(n)}): "
        f"{', '.join(studies.FORKS)} with {', '.join(studies.FORKED_METRICS)}:",
        "",
        *list_table(["Tests", "Found"], rows),
    ]


def _foldwise(found, n):
    """Return the lines on steps, confounds and training sets."""
    rows = [
        [words, *(percent(rates[metric]) for metric in studies.METRICS)]
        for words, rates in found.items()
    ]
    return [
        "Steps, confounds and training sets",
        "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
        "",
        f"Noise: 40 trials, 20 features; how often p <= {ALPHA:g} ({within(n)}). In "
        "the first rows, steps are fitted in each fold. In folds of other shapes, "
        "noise is correlated between successive trials. Overlapping stratified test "
        "sets leave few trials to be permuted, those in the same test sets, so this "
        "test is conservative. The last rows train on half of the trials of four runs "
        "and test on the other half of the fifth, where classes differ in a pattern "
        "that is absent in the training trials.",
        "",
        *list_table(["Folds", *studies.METRICS.values()], rows),
    ]


def _maps(found, n):
    """Return the lines on time generalization."""
    rates = {words: found[words] for words in studies.MAPS}
    beside = {
        f"{words}, {what}": found[f"{words}, {what}"]
        for words in [*studies.MAPS][1:]
        for what in ("in part", "found")
    }
    return [
        "Time generalization",
        "~~~~~~~~~~~~~~~~~~~",
        "",
        "Maps of 12 by 12 time points, area under the ROC curve, noise correlated over "
        f"time (autocorrelation {studies.LASTING_LONG:g} between successive time "
        "points). Two tests have to reject; in a cluster, both exceed the threshold, "
        "and the larger of the two p-values is used. The rows are: no effect; an "
        "effect in the second half of the epoch only, so that at earlier training "
        "times the test trials carry information but the models do not; and effects in "
        "both halves, with different codes. How often something is found that lies "
        f"entirely in cells without an effect ({within(n)}):",
        "",
        *table(rates),
        "A cluster is significant as a whole, and may extend beyond the effect. "
        "Percentage of maps in which cells without an effect are included in what is "
        "found, and percentage of the cells in the second half that are found:",
        "",
        *table(beside, marked=False),
    ]


def _latencies(found, n):
    """Return the lines on latencies."""
    return [
        "Latencies",
        "~~~~~~~~~",
        "",
        f"``bootstrap_latency`` of {studies.N_SUBJECTS} subjects whose effects differ "
        "in height and latency (standard deviation in the first column); percentage of "
        f"its intervals that cover the latency of the population. {100 * COVERED:g} % "
        f"would be {within(n, COVERED)}. Intervals of onsets use Student's t with the "
        "bootstrap standard error, those of peaks use percentiles.",
        "",
        *latency_table(found),
    ]


def _shuffles(found, n):
    """Return the lines on ways to shuffle."""
    by_default, free = found.values()
    gap = np.mean(by_default["null"]) - np.mean(free["null"])
    n_subjects = studies.N_SHUFFLED
    return [
        "Shuffling freely over stratified folds",
        "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
        "",
        "Noise: 40 trials, 20 features, 10 stratified folds; how often p <= "
        f"{ALPHA:g}, for one subject ({within(n * n_subjects)}) and for a group of "
        f"{n_subjects} ({within(n)}).",
        "",
        *shuffling_table(found),
        "Stratified folds have equal class counts with the observed labels, but not "
        "with freely shuffled ones, and a fold rich in one class is predicted from "
        f"trials poor in it: the null distribution is too low by {gap:.4f}. In a "
        "single subject this is hidden by the spread of accuracies, but the mean "
        "across subjects has a smaller spread and the same bias. Folds made from the "
        "labels are therefore never kept for freely shuffled labels.",
        "",
    ]


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
