"""What a run would do: the trials, positions and permutations, and how long it takes.

Time is measured, with a few positions: of EEG and MEG those of the first windows, of
images noise in as many voxels as a position has. No score is shown.
"""

import time
from dataclasses import replace

import numpy as np

from ..data.atlas import read_regions
from ..data.volumes import on_grid
from ..decoding.positions import cut_windows
from ..decoding.run import FULL_NULL_BYTES
from ..utils.checks import counted, word_bytes
from ..utils.parallel import count_workers
from ..utils.progress import word_seconds
from ..utils.rounding import p_words
from .analyses import ANALYSES, READERS
from .bold import count_bold

#: Positions, or windows, of the measurements: the first one is not looked at.
_MEASURED = (2, 2, 6)
#: Spheres whose voxels are counted.
_SPHERES = 50


def preview(inputs, options, method):
    """Word what decoding a unit would do, and the seconds that it would take.

    Parameters
    ----------
    inputs : Inputs
        The recordings of the unit.
    options : dict
        What was given on the command line, all options by their names.
    method : dict
        Of these the arguments of the functions that decode.

    Returns
    -------
    words : list of str
        One for each thing that is said.
    seconds : float
        Of reading and decoding, without the models of single trials.
    """
    started = time.perf_counter()
    read = count_bold if inputs.kind == "bold" else READERS[inputs.kind]
    trials = read(inputs, options)
    n_values, few_of, n_positions = _layout(trials, options)
    seconds = time.perf_counter() - started
    sizes, took, result = [], [], None
    analysis, alone = ANALYSES[options["analysis"]], method | {"n_jobs": 1}
    analysis = ANALYSES["regions"] if analysis.images else analysis
    for number in _MEASURED:
        some, changed = few_of(number)
        started = time.perf_counter()
        result = analysis.decode(some, options | changed, alone, None)
        took.append(time.perf_counter() - started)
        sizes.append(np.size(result.scores))
    n_positions = n_positions(result, sizes[-1])
    each = max(took[-1] - took[-2], 0) / max(1, sizes[-1] - sizes[-2])
    rest = max(0, n_positions - sizes[-1]) * each
    seconds += took[-1] + rest / count_workers(method["n_jobs"])
    words = [
        counted(len(trials.about["TrialsPerRun"]), "run"),
        f"{counted(len(trials.table), 'trial')} ({_by_class(trials.about)})",
        *trials.notes,
        counted(len(result.tests) // result.n_repeats, "fold"),
        counted(n_positions, "position", ","),
        _word_permutations(result, options["correction"], n_positions),
        f"about {word_seconds(seconds)}",
        f"about {_word_memory(result, n_values, n_positions)}",
    ]
    if inputs.kind == "bold" and options["estimate"] != "blocks":
        words[-2] += " after the models of single trials"
    return words, seconds


def _by_class(about):
    """Word how many trials there are of each class, and how many events are lost."""
    if "ValuesFromTo" in about:
        return "values from {:g} to {:g}".format(*about["ValuesFromTo"])
    lost = about["LeftOutPerClass"]
    return ", ".join(
        f"{n} {name}" + (f" and {lost[name]} left out" if name in lost else "")
        for name, n in about["TrialsPerClass"].items()
    )


def _word_permutations(result, corrections, n_positions):
    """Word how many permutations there are, and the smallest p-values."""
    if not result.n_permutations:
        return "no permutations, so no p-values"
    smallest = ", ".join(
        f"{p_words(result.smallest_p(name, n_positions))} ({name})"
        for name in corrections
    )
    every = "all " if result.parameters["exact"] else ""
    n = counted(result.n_permutations, "permutation", ",")
    return f"{every}{n}, smallest {smallest}"


def _word_memory(result, n_values, n_positions):
    """Word the memory of data, twice, and of the permuted scores that are kept."""
    n_scores = len(result.scalar_metrics) * result.n_permutations * n_positions
    kept, more = 4 * n_scores, ""
    if kept > FULL_NULL_BYTES and result.parameters.get("null") != "full":
        kept, more = 0, f", and {word_bytes(kept)} of temporary files"
    memory = word_bytes(2 * 8 * n_values + kept)
    return f"{memory} of memory for data and permutations{more}"


# ------------------------------------------------------------------- a few positions


def _layout(trials, options):
    """How large the data are, what makes inputs of a few positions, and their number.

    A number of values, and two functions: the last one takes a result of some positions
    and how many these are.
    """
    if ANALYSES[options["analysis"]].images:
        return _layout_of_images(trials, options)
    epochs = trials.data
    given = (options[name] for name in ("window", "step"))
    windows = cut_windows(epochs.times, epochs.info["sfreq"], *given)

    def few_of(number):
        last = windows.starts[:number][-1] + windows.width - 1
        part = epochs.copy().load_data().crop(epochs.times[0], epochs.times[last])
        return replace(trials, data=part), {}

    def n_positions(result, n_measured):
        shape, n = np.shape(result.scores), len(windows.starts)
        of_times = 2 if options["analysis"] == "generalization" else 1
        return n**of_times * (n_measured // shape[-1] ** of_times)

    size = len(epochs) * len(epochs.ch_names) * len(epochs.times)
    return size, few_of, n_positions


def _layout_of_images(trials, options):
    """The same of images: noise in voxels, as many as a region or a sphere has."""
    mask = trials.mask_img
    if mask is None:  # nilearn finds the voxels later
        mask = on_grid((np.asarray(trials.data.dataobj)[..., 0] != 0) * 1, trials.data)
    n_voxels = int(np.count_nonzero(np.asarray(mask.dataobj)))
    of_regions = options["analysis"] == "regions"
    sizes = (_sizes_of_regions if of_regions else _sizes_of_spheres)(mask, options)
    p, rng, n = int(np.median(sizes)), np.random.default_rng(0), len(trials.table)

    def few_of(number):
        regions = np.repeat(np.arange(min(number, len(sizes))) + 1, p)
        noise = rng.standard_normal((n, len(regions)))
        changed = {"labels_img": regions, "lut": None}
        return replace(trials, data=noise, mask_img=None), changed

    return n * n_voxels, few_of, lambda *_: len(sizes)


def _sizes_of_regions(mask, options):
    """How many voxels every region has."""
    two = on_grid(np.random.default_rng(0).random((*mask.shape[:3], 2)), mask)
    _, regions = read_regions(two, options["labels_img"], mask, options["lut"])
    sizes = np.diff(regions.membership.indptr)
    return sizes[sizes > 0]


def _sizes_of_spheres(mask, options):
    """How many voxels every sphere has, where that is not counted as in the others."""
    inside = np.argwhere(np.asarray(mask.dataobj) != 0)
    points = inside @ mask.affine[:3, :3].T
    rng = np.random.default_rng(0)
    some = rng.choice(len(points), min(_SPHERES, len(points)), replace=False)
    sizes = [
        np.sum(np.linalg.norm(points - points[i], axis=1) <= options["radius"])
        for i in some
    ]
    return np.full(len(points), int(np.median(sizes)))
