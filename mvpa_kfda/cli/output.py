"""What the command line writes and prints about a result of one subject.

Results of epochs go into one figure, table and file; those of images also into maps.
Then follow the lines that both are told in: what was decoded, the best score, and what
is significant.
"""

import re
import time
from dataclasses import fields

import numpy as np

from ..inference.corrections import is_of_clusters
from ..results.finding import Finding
from ..results.images import VolumeResult
from ..utils.axes import AXES
from ..utils.checks import counted
from ..utils.files import write_whole
from ..utils.text import plain_cells, tell
from ..viz.brains import fits_glass_brain, kinds_of
from ..viz.patterns import part_to_draw
from .decoding import CLUSTER_LEVEL

ALPHA = 0.05

#: Peaks that are printed; the table has all of them.
MOST_PEAKS = 5

#: Decimals of the columns of the printed peaks; p-values have four.
DECIMALS = {"x": 1, "y": 1, "z": 1, "score": 3, "cluster_size_mm3": 0}

#: How the names of figures other than the first end.
FIGURES = {
    "surface": "_surface.png",
    "stat_map": "_map.png",
    "glass_brain": "_glass.png",
}


def write_and_print(result, name, stem, correction, start):
    """Write figure, table and result, and print what came out."""
    files = _write(result, stem, correction)
    sizes = [AXES[x].count(n) for x, n in zip(result.axes, result.shape, strict=True)]
    n_channels = len(result.parameters["ch_names"])
    tested = f"tested on {counted(result.n_tested, 'separate trial')}"
    if result.parameters["n_folds"]:
        tested = ", ".join(result.worded_folds())
    tell(
        f"Decoded {name}: {result.worded_trials()}, {_word_predicted(result)}, "
        f"{counted(n_channels, 'channel')}, "
        f"{' x '.join(sizes)}, {tested}"
    )
    tell(*_word_found(result, correction))
    tell(f"Wrote {', '.join(map(str, files))}")
    tell(f"Took {time.perf_counter() - start:.1f} s")


def _write(result, stem, correction):
    """Write figure, table and result; return their paths."""
    files = [stem.with_name(stem.name + ending) for ending in (".png", ".csv", ".h5")]
    result.save(files[2], overwrite=True)  # first, as the others can be made from it
    corrections = [] if correction == "none" else [correction]
    save_table(result.to_dataframe(corrections), files[1])
    save_figure(files[0], result.plot, correction=correction, alpha=ALPHA)
    return [*files, *_write_pairs(result, stem)]


def _write_pairs(result, stem):
    """Write tables of pairs of classes, if there are any; return their paths."""
    paths = []
    for metric in result.pair_tables:
        paths.append(stem.with_name(f"{stem.name}_{metric}.csv"))
        save_table(result.to_dataframe(metric=metric), paths[-1])
    return paths


def write_images(result, name, unit, stem, correction, level=CLUSTER_LEVEL):
    """Write maps, tables, figures and the result, and word what came out."""
    result.save(stem.with_name(f"{stem.name}.h5"), overwrite=True)
    result = _at_level(result, level)
    lines = _word_result(result, name, unit)
    options = {"threshold": level} if is_of_clusters(correction) else {}
    lines += _word_found(result, correction, **options)
    peaks = None
    if result.n_permutations:
        peaks = result.peaks(correction, alpha=ALPHA)
        lines += _word_peaks(peaks, stem)
    written = {
        ".h5": "the result, for mvpa_kfda.load_result",
        **_write_tables(result, peaks, stem, correction),
        **_write_maps(result, stem, correction),
        **_write_patterns(result, stem),
        **_write_figures(result, stem, correction),
    }
    lines.append(f"Wrote to {stem.parent}:")
    width = max(len(ending) for ending in written) + len(stem.name)
    for ending, text in written.items():
        lines.append(f"  {stem.name + ending:{width}}  {text}")
    return lines


class _ResultAtLevel(VolumeResult):
    """A result whose clusters form at a p-level, in its tables and figures too."""

    level = CLUSTER_LEVEL

    def pvalues(self, correction="none", *, threshold=None, **options):
        """Compute p-values at that level; no method here is asked for another."""
        return super().pvalues(correction, threshold=self.level, **options)


def _at_level(result, level):
    """Return the same result with clusters that form at a p-level."""
    values = {field.name: vars(result)[field.name] for field in fields(result)}
    same = _ResultAtLevel(**values)
    object.__setattr__(same, "level", level)  # results are frozen
    return same


def _write_tables(result, peaks, stem, correction):
    """Write the tables; return their endings and what they are."""
    noun = result.geometry.noun
    corrections = [] if correction == "none" else [correction]
    tables = {".csv": (result.to_dataframe(corrections), f"every {noun}")}
    for metric in result.pair_tables:
        pairs = f"every {noun} and pair of classes"
        tables[f"_{metric}.csv"] = result.to_dataframe(metric=metric), pairs
    if peaks is not None:
        what = "significant regions" if noun == "region" else "cluster peaks"
        tables["_peaks.csv"] = peaks, what
    for ending, (table, _) in tables.items():
        table = table.round(dict.fromkeys("xyz", 3))  # mm
        save_table(table, stem.with_name(stem.name + ending))
    return {ending: f"table of {what}" for ending, (_, what) in tables.items()}


def _write_maps(result, stem, correction):
    """Write the maps; return their endings and what they show."""
    maps = {"_scores": (None, "none", result.scoring[0])}
    of_file = result.geometry.base.ending
    if result.n_permutations:
        maps["_p"] = "p", "none", "p, uncorrected"
        corrected, word = "", "uncorrected"
        if correction != "none":
            corrected, word = f"_{correction}", f"correction {correction!r}"
            maps[f"_p{corrected}"] = "p", correction, f"p, {word}"
        maps[f"_neglog10p{corrected}"] = "neglog10p", correction, f"-log10 p, {word}"
        maps["_z"] = "z", "none", "z, uncorrected"
    for number, metric in enumerate(result.parameters.get("pairs", {})):
        ending = f"_{_plain(metric)}"
        ending = f"_pairs_{number}" if ending in maps else ending
        maps[ending] = metric, "none", f"the pairs {metric}"
    for ending, (name, corrected, _) in maps.items():
        image = result.to_img(name, correction=corrected)
        path = stem.with_name(f"{stem.name}{ending}{of_file}")
        write_whole(path, image.to_filename)
    return {f"{ending}{of_file}": f"map of {text[2]}" for ending, text in maps.items()}


def _plain(label):
    """Return a label without what no name of a file can hold."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", label)


def _write_patterns(result, stem):
    """Write the patterns of regions, if any; return their endings and what they are."""
    if not result.pattern_maps:
        return {}
    written = {}
    for number, (label, image) in enumerate(result.patterns().items()):
        of_file = result.geometry.base.ending
        ending = f"_pattern_{_plain(label)}{of_file}"
        if ending in written:
            ending = f"_pattern_{number}{of_file}"
        write_whole(stem.with_name(stem.name + ending), image.to_filename)
        written[ending] = f"activation pattern of {label}, in the unit of the images"
    return written


def _write_figures(result, stem, correction):
    """Write the figures; return their endings and what they show."""
    space = result.geometry
    first, *others = kinds_of(space)
    shown = "significant ones" if result.n_permutations else "scores above chance"
    texts = {
        "bar": f"scores of {space.noun}s",
        "surface": "scores on the cortex",
        "stat_map": "scores on slices",
        "glass_brain": f"{shown} through a glass brain",
    }
    figures = {".png": (first, texts[first])}
    for kind in others:
        if kind == "glass_brain" and not fits_glass_brain(space.base):
            continue
        if kind != "bar":
            figures[FIGURES[kind]] = kind, texts[kind]
    level = result.level if isinstance(result, _ResultAtLevel) else CLUSTER_LEVEL
    for ending, (kind, _) in figures.items():
        path = stem.with_name(stem.name + ending)
        options = {"correction": correction, "threshold": level}
        save_figure(path, result.plot, kind=kind, alpha=ALPHA, **options)
    if result.pattern_maps and part_to_draw(space.base)[0] is not None:
        figures["_patterns.png"] = None, "activation patterns"
        save_figure(stem.with_name(f"{stem.name}_patterns.png"), result.plot_patterns)
    return {ending: f"figure: {text}" for ending, (_, text) in figures.items()}


def save_table(table, path, **options):
    """Write a table."""
    table = plain_cells(table)
    options = {"index": False, "lineterminator": "\n", **options}
    write_whole(path, lambda draft: table.to_csv(draft, **options))


def save_figure(path, plot, **options):
    """Write what a method of a result plots; a display is not needed."""
    import matplotlib

    matplotlib.use("Agg")  # draws into files
    import matplotlib.pyplot as plt

    figure = plot(**options).figure
    write_whole(path, lambda draft: figure.savefig(draft, dpi=150))
    plt.close(figure)


def _word_predicted(result):
    """Word what is predicted: classes, or numbers."""
    if len(result.classes):
        return counted(len(result.classes), "class")
    return f"values from {result.y.min():g} to {result.y.max():g}"


def _word_found(result, correction, **options):
    """Word the highest score, and what is significant, in lines."""
    found = Finding(result, correction, **options)
    yield f"Found: {found.headline}"
    if not found.untested:
        yield f"Test: {found.test}, {counted(result.n_permutations, 'permutation')}"


def _word_result(result, name, unit):
    """Word what was decoded, and the best score, in lines."""
    space, n_features = result.geometry, result.n_features[result.decoded]
    counts = np.bincount(result.y, minlength=len(result.classes)) // result.n_repeats
    classes = zip(result.classes.tolist(), counts, strict=True)
    tested = ", ".join(result.worded_folds())
    if result.groups is not None:
        tested = f"{counted(len(np.unique(result.groups)), 'group')}, {tested}"
    sizes = ", ".join(
        f"{f'{label:g}' if isinstance(label, float) else label} {count}"
        for label, count in classes
    )
    least, middle, most = np.percentile(n_features, [0, 50, 100])
    missing = np.count_nonzero(~result.decoded)
    averaged = ""
    if result.parameters.get("average") is not None or result.train_rows is not None:
        averaged = f", {result.worded_trials()}"
    return [
        f"Decoded {name}, {tested}{averaged}",
        f"{len(counts)} classes: {sizes}",
        f"{space.describe()}{f', {missing} of them not decoded' if missing else ''}; "
        f"{counted(middle, space.base.noun, '.0f')} per {unit} (median; {least:.0f} to "
        f"{most:.0f})",
    ]


def _word_peaks(peaks, stem):
    """Word the first peaks, in lines."""
    if len(peaks) > MOST_PEAKS:
        yield f"The first {MOST_PEAKS} of {len(peaks)} in {stem.name}_peaks.csv:"
    if len(peaks):
        first = peaks.head(MOST_PEAKS)
        styles = {
            name: f"{{:.{DECIMALS.get(name, 4)}f}}".format
            for name in first.select_dtypes("float")
        }
        yield from first.to_string(index=False, formatters=styles).split("\n")
