"""What the command line writes and prints about a result.

Results of epochs go into one figure, table and file; those of images also into maps.
Then follow the lines that both are told in: what was decoded, the best score, and what
is significant.
"""

import re
import time
from dataclasses import fields
from functools import partial
from itertools import chain

import numpy as np

from ..inference.corrections import is_of_clusters, is_of_maximum
from ..results.finding import Finding
from ..results.images import VolumeResult
from ..utils.axes import AXES
from ..utils.checks import counted
from ..utils.files import write_whole
from ..utils.rounding import rounded_down
from ..utils.text import plain_cells, tell
from ..viz.brains import fits_glass_brain, kinds_of, part_to_draw

ALPHA = 0.05

#: Peaks that are printed; the table has all of them.
MOST_PEAKS = 5

#: Decimals of the columns of the printed peaks; p-values have four.
DECIMALS = {"x": 1, "y": 1, "z": 1, "score": 3, "cluster_size_mm3": 0}
#: To how many decimals coordinates are written.
MM = dict.fromkeys("xyz", 3)

#: How the names of figures other than the first end.
FIGURES = {
    "surface": "_surface.png",
    "stat_map": "_map.png",
    "glass_brain": "_glass.png",
}


def write_all(result, stem, outputs):
    """Write a result, and every output, of (ending, words, write); return what is what.

    The result comes first, as all others can be made from it.
    """
    result.save(stem.with_name(f"{stem.name}.h5"), overwrite=True)
    written = {".h5": "the result, for mvpa_kfda.load_result"}
    for ending, words, write in outputs:
        write(stem.with_name(stem.name + ending))
        written[ending] = words
    return written


def write_and_print(result, name, stem, correction, start):
    """Write figure, table and result, and print what came out."""
    corrections = [] if correction == "none" else [correction]
    options = {"plot": result.plot, "correction": correction, "alpha": ALPHA}
    outputs = [
        (".png", "figure", partial(save_figure, **options)),
        (".csv", "table", partial(save_table, result.to_dataframe(corrections))),
        *_pairs(result),
    ]
    written = write_all(result, stem, outputs)
    predicted = counted(len(result.classes), "class")
    if not len(result.classes):
        predicted = f"values from {result.y.min():g} to {result.y.max():g}"
    sizes = [AXES[x].count(n) for x, n in zip(result.axes, result.shape, strict=True)]
    channels = counted(len(result.parameters["ch_names"]), "channel")
    tested = f"tested on {counted(result.n_tested, 'separate trial')}"
    if result.parameters["n_folds"]:
        tested = ", ".join(result.worded_folds())
    tell(
        f"Decoded {name}: {result.worded_trials()}, {predicted}, {channels}, "
        f"{' x '.join(sizes)}, {tested}",
        *_word_found(result, correction),
        f"Wrote {', '.join(f'{stem}{ending}' for ending in written)}",
        f"Took {time.perf_counter() - start:.1f} s",
    )


def _pairs(result, words=""):
    """Tables of pairs of classes, if there are any."""
    for metric in result.pair_tables:
        table = partial(save_table, result.to_dataframe(metric=metric).round(MM))
        yield f"_{metric}.csv", f"table of {words}pair of classes", table


def write_images(result, name, unit, stem, correction, level):
    """Write maps, tables, figures and the result, and word what came out."""
    shown = _at_level(result, level)
    lines = _word_result(result, name, unit)
    options = {"threshold": level} if is_of_clusters(correction) else {}
    lines += _word_found(shown, correction, **options)
    peaks = None
    if result.n_permutations:
        peaks = shown.peaks(correction, alpha=ALPHA)
        lines += _word_peaks(peaks, stem)
    outputs = chain(
        _tables(shown, peaks, correction),
        _maps(shown, correction),
        _figures(shown, correction, level),
    )
    written = write_all(result, stem, outputs)
    lines.append(f"Wrote to {stem.parent}:")
    width = max(len(ending) for ending in written) + len(stem.name)
    for ending, text in written.items():
        lines.append(f"  {stem.name + ending:{width}}  {text}")
    return lines


def _at_level(result, level):
    """The same result with clusters that form at a p-level, in its tables too."""

    class AtLevel(VolumeResult):
        def pvalues(self, correction="none", *, threshold=None, **options):
            """Compute p-values at that level; no method here is asked for another."""
            return super().pvalues(correction, threshold=level, **options)

    values = {field.name: vars(result)[field.name] for field in fields(result)}
    return AtLevel(**values)


def _tables(result, peaks, correction):
    """Tables of positions, of pairs of classes, and of peaks."""
    noun = result.geometry.noun
    corrections = [] if correction == "none" else [correction]
    table = partial(save_table, result.to_dataframe(corrections).round(MM))
    yield ".csv", f"table of every {noun}", table
    yield from _pairs(result, f"every {noun} and ")
    if peaks is not None:
        what = "significant regions" if noun == "region" else "cluster peaks"
        yield "_peaks.csv", f"table of {what}", partial(save_table, peaks.round(MM))


def _maps(result, correction):
    """Maps of scores, p-values, pairs of classes, and patterns of regions."""
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
    for ending, (name, corrected, words) in maps.items():
        image = result.to_img(name, correction=corrected)
        yield f"{ending}{of_file}", f"map of {words}", partial(save_image, image)
    endings = set()
    for number, (label, image) in enumerate(
        result.patterns().items() if result.pattern_maps else ()
    ):
        name = number if _plain(label) in endings else _plain(label)
        endings.add(name)
        words = f"activation pattern of {label}, in the unit of the images"
        yield f"_pattern_{name}{of_file}", words, partial(save_image, image)


def _plain(label):
    """A label without what no name of a file can hold."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", label)


def _figures(result, correction, level):
    """Figures of the scores, one for each kind that fits, and of patterns."""
    space = result.geometry
    shown = "significant ones" if result.n_permutations else "scores above chance"
    texts = {
        "bar": f"scores of {space.noun}s",
        "surface": "scores on the cortex",
        "stat_map": "scores on slices",
        "glass_brain": f"{shown} through a glass brain",
    }
    options = {"correction": correction, "threshold": level, "alpha": ALPHA}
    for number, kind in enumerate(kinds_of(space)):
        fits = kind not in ("bar", "glass_brain") or (
            kind == "glass_brain" and fits_glass_brain(space.base)
        )
        if number == 0 or fits:
            draw = partial(save_figure, plot=result.plot, kind=kind, **options)
            ending = FIGURES[kind] if number else ".png"
            yield ending, f"figure: {texts[kind]}", draw
    if result.pattern_maps and part_to_draw(space.base)[0] is not None:
        draw = partial(save_figure, plot=result.plot_patterns)
        yield "_patterns.png", "figure: activation patterns", draw


def save_image(image, path):
    """Write an image."""
    write_whole(path, image.to_filename)


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


def _word_found(result, correction, **options):
    """Word the highest score, and what is significant, in lines."""
    found = Finding(result, correction, **options)
    yield f"Found: {found.headline}"
    if not found.untested:
        yield f"Test: {found.test}, {counted(result.n_permutations, 'permutation')}"


def _word_result(result, name, unit):
    """Word what was decoded, and the best score, in lines."""
    space, n_features = result.geometry, result.n_features[result.decoded]
    tested = ", ".join(result.worded_folds())
    if result.groups is not None:
        tested = f"{counted(len(np.unique(result.groups)), 'group')}, {tested}"
    if len(result.classes):
        counts = np.bincount(result.y) // result.n_repeats
        predicted = f"{len(counts)} classes: " + ", ".join(
            f"{f'{label:g}' if isinstance(label, float) else label} {count}"
            for label, count in zip(result.classes.tolist(), counts, strict=True)
        )
    else:
        predicted = f"values from {result.y.min():g} to {result.y.max():g}"
    least, middle, most = np.percentile(n_features, [0, 50, 100])
    missing = np.count_nonzero(~result.decoded)
    averaged = ""
    if result.parameters.get("average") is not None or result.train_rows is not None:
        averaged = f", {result.worded_trials()}"
    return [
        f"Decoded {name}, {tested}{averaged}",
        predicted,
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


# ------------------------------------------------------------------------------ groups


def group_outputs(result):
    """Table, figures and maps of a result, for `write_all`."""
    yield ".csv", "table", partial(save_table, result.to_dataframe())
    figures = {"": result.plot}
    for other in result.correction[1:] if result.axes else ():
        figures[f"_{other}"] = partial(result.plot, correction=other)
    if len(result.null_max) and (
        not result.axes or any(map(is_of_maximum, result.correction))
    ):
        figures["_null"] = result.plot_null
    for ending, plot in figures.items():
        yield f"{ending}.png", "figure", partial(save_figure, plot=plot)
    if not _in_brain(result):
        return
    for shown in (*result.scoring, "p", "neglog10p"):
        # Of a metric as "scores", which is what other tools look for.
        word = "scores" if shown == result.metric else shown
        ending = f"_{word}{result.geometry.base.ending}"
        yield ending, "map", partial(save_image, result.to_img(shown))
    yield "_peaks.csv", "table", partial(save_table, result.peaks().round(MM))


def _in_brain(result):
    """Whether the positions are such that one file holds their image."""
    return result.geometry is not None and result.geometry.base.ending is not None


def word_group(result):
    """What was tested and what came out, in lines."""
    yield f"Tested {result.places.describe()}: {', '.join(result.description())}"
    yield f"Found: {Finding(result).headline}"
    for correction in result.correction if result.axes else result.correction[:1]:
        yield f"Test: {Finding(result, correction).test}"
    if result.method == "prevalence":
        bound, largest = np.asarray(result.gamma_0), result.largest_gamma_0
        words = "no bound, as a prevalence of 0 is not rejected anywhere"
        if np.isfinite(bound).any():
            words = (
                f"more than {rounded_down(np.nanmax(bound))} of the population have an "
                f"effect somewhere (no data could show more than "
                f"{rounded_down(largest)}), and the majority at "
                f"{counted(np.count_nonzero(bound >= 0.5), 'position')}"
            )
        yield f"Prevalence: {words}"
    for text in result.worded_subject_warnings:
        yield f"Warning: {text}"
    if _in_brain(result) and (result.pvalues() <= result.alpha).any():
        peaks = result.peaks().head(MOST_PEAKS)
        yield from peaks.to_string(index=False).split("\n")


# ------------------------------------------------------------------------------- betas


def write_betas(betas, stem):
    """Write images, their table and the mask; return files, and how to decode them."""
    from nibabel.cifti2 import Cifti2Image, ParcelsAxis

    ending, more = ".nii.gz", ""
    if isinstance(betas.imgs, Cifti2Image):
        parcels = isinstance(betas.imgs.header.get_axis(1), ParcelsAxis)
        ending = ".pscalar.nii" if parcels else ".dscalar.nii"
    image, table = (stem.with_name(stem.name + e) for e in (ending, ".tsv"))
    save_image(betas.imgs, image)
    save_table(betas.table, table, sep="\t", na_rep="n/a")
    files = [image, table]
    if betas.mask_img is not None:
        files.append(stem.with_name(f"{stem.name}_mask{ending}"))
        save_image(betas.mask_img, files[-1])
        more = f" --mask-img {files[-1]}"
    command = "regions" if ending == ".pscalar.nii" else "searchlight"
    return files, (
        f"mvpa-kfda {command} {image} --labels {table} --label-column trial_type "
        f"--groups run{more}"
    )
