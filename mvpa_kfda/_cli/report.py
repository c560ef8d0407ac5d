"""What the command line writes and prints about a result."""

import time

import numpy as np

from ..inference import smallest_p_value

ALPHA = 0.05

#: Class of result -> words for its positions and for one of them.
WORDS = {
    "TimeResult": ("{} time points", "{:.3f} s"),
    "TimeRegressionResult": ("{} time points", "{:.3f} s"),
    "SensorTimeResult": ("{} sensors x {} times", "sensor {}, {:.3f} s"),
    "GeneralizationResult": (
        "{} training x {} testing times",
        "training time {:.3f} s, testing time {:.3f} s",
    ),
}


def report(result, name, stem, correction, start):
    """Write figure, table and result, and print what came out.

    Parameters
    ----------
    result : TimeResult, TimeRegressionResult, SensorTimeResult or GeneralizationResult
        What came out.
    name : str
        What was decoded.
    stem : Path
        The files to write, without their endings.
    correction : str
        Correction of the p-values for testing many positions.
    start : float
        When the command began, on the clock of `time.perf_counter`.
    """
    files = _write(result, stem, correction)
    positions, place = WORDS[type(result).__name__]
    best = np.unravel_index(np.argmax(result.scores), result.shape)
    at = [getattr(result, axis)[i] for axis, i in zip(result.axes, best, strict=True)]
    tested = f"{result.parameters['n_folds']} folds"
    if not result.parameters["n_folds"]:
        tested = f"tested on {result.n_tested} other trials"
    print(
        f"Decoded {name}: {result._worded_trials()}, {_word_predicted(result)}, "
        f"{len(result.parameters['ch_names'])} channels, "
        f"{positions.format(*result.shape)}, {tested}"
    )
    chance = f" (chance {result.chance:.3f})" if np.isfinite(result.chance) else ""
    print(
        f"Best {result.scoring[0]}: {result.scores[best]:.3f} at {place.format(*at)}"
        f"{chance}"
    )
    if result.n_permutations:
        print(
            f"{word_found(result)}: {_word_significant(result, correction)} (p <= "
            f"{ALPHA}, correction {correction!r}, {result.n_permutations} permutations)"
        )
    print(f"Wrote {', '.join(map(str, files))}")
    print(f"Took {time.perf_counter() - start:.1f} s")


def word_found(result):
    """Word what is significant; not every metric has a chance level."""
    return "Above chance" if np.isfinite(result.chance) else "Significant"


def _word_predicted(result):
    """Word what is predicted: classes, or numbers."""
    if len(result.classes):
        return f"{len(result.classes)} classes"
    return f"values from {result.y.min():g} to {result.y.max():g}"


def _write(result, stem, correction):
    """Write figure, table and result; return their paths."""
    files = [stem.with_name(stem.name + ending) for ending in (".png", ".csv", ".h5")]
    result.save(files[2], overwrite=True)  # first, as the others can be made from it
    corrections = [] if correction == "none" else [correction]
    result.to_dataframe(corrections).to_csv(files[1], index=False)
    save_figure(files[0], result.plot, correction=correction, alpha=ALPHA)
    return files


def save_figure(path, plot, **options):
    """Write what a method of a result plots; a display is not needed.

    Parameters
    ----------
    path : Path
        The file.
    plot : callable
        It returns an Axes or a Figure.
    **options
        Its arguments.
    """
    import matplotlib

    matplotlib.use("Agg")  # draws into files
    import matplotlib.pyplot as plt

    figure = plot(**options).figure
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _word_significant(result, correction):
    """Word the stretches of a time course that are significant, or a map's share."""
    least = smallest_p_value(result.n_permutations, result.scores.size, correction)
    if least > ALPHA:
        return "out of reach, more permutations are needed"
    significant = result.pvalues(correction) <= ALPHA
    if significant.ndim > 1:
        return f"{significant.mean():.1%} of the map"
    return _word_spans(result.times, significant)


def _word_spans(times, significant):
    """Word the stretches of significant time points by their first and last."""
    index = np.flatnonzero(significant)
    if index.size == 0:
        return "at no time point"
    spans = np.split(index, np.flatnonzero(np.diff(index) > 1) + 1)
    return ", ".join(_word_span(times[span]) for span in spans)


def _word_span(times):
    """Word a stretch of times; a single one is no stretch."""
    first, last = f"{times[0]:.3f}", f"{times[-1]:.3f}"
    return f"{first} s" if len(times) == 1 else f"{first} to {last} s"
