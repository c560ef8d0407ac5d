"""The commands on saved results: group, report, methods, verify and rerun.

The packages that read data are imported inside functions: ``--help`` needs none.
"""

import time
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path

from ..utils.text import tell
from .command import Command, Out, check_out, check_there, literal, single
from .decoding import Volumes

#: Peaks that are printed.
_MOST = 5


def _expand(patterns):
    """Files in order; shells that leave patterns alone need it done here."""
    from ..utils.checks import expand_pattern

    patterns = patterns if isinstance(patterns, list) else [patterns]
    return [path for pattern in patterns for path in expand_pattern(pattern)]


# ------------------------------------------------------------------------------- group


@dataclass
class SubjectFiles(Out):
    """Results of several subjects.

    Parameters
    ----------
    results
        results of the subjects, .h5, or patterns of their names
    """

    results: list[str]


def run_group(given, options):
    """Test the results of several subjects.

    Each is a file (.h5). A table (.csv), figures (.png), a result (.h5) and, for
    images, maps (.nii.gz) and peaks have names beginning with group_METHOD. The data
    are not needed; prevalence, i-test and bootstrap need results with label
    permutations.
    """
    from .. import group_inference
    from .output import write_all

    start = time.perf_counter()
    files = [str(path) for path in _expand(given.results)]
    if options.get("other") is not None:
        options["other"] = [str(path) for path in _expand(options["other"])]
    stem = f"group_{options.get('method', 'prevalence')}"
    check_out(given.out, stem)
    result = group_inference(files, **options)
    written = write_all(result, given.out / stem, _group_outputs(result))
    tell(*_word_group(result))
    tell(f"Wrote {', '.join(f'{given.out / stem}{ending}' for ending in written)}")
    tell(f"Took {time.perf_counter() - start:.1f} s")


def _group_outputs(result):
    """Table, figures and maps of a result, for `write_all`."""
    from ..inference.corrections import is_of_maximum
    from .output import MM, save_figure, save_image, save_table

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


def _word_group(result):
    """What was tested and what came out, in lines."""
    import numpy as np

    from ..results.finding import Finding
    from ..utils.checks import counted
    from ..utils.rounding import rounded_down

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
        yield result.peaks().head(_MOST).to_string(index=False)


# ------------------------------------------------------------------ report and methods


@dataclass
class Shown:
    """Results of any kind.

    Parameters
    ----------
    results
        saved results, .h5
    """

    results: list[str]


def run_report(given, options):
    """Create an HTML report of saved results.

    They are of subjects, groups, comparisons or latencies. The report is a single,
    self-contained file with figures, tables, design, methods paragraph, warnings and
    parameters, by default next to the result; of several results it is report.html in
    the current folder. The data are not needed.
    """
    from .. import report

    paths = _expand(given.results)
    check_there(*paths)
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} is listed twice. List each result once.")
    one = paths[0].with_suffix(".html") if len(paths) == 1 else "report.html"
    options = {"fname": one} | options
    report(dict(zip(names, paths, strict=True)), **options)
    tell(f"Wrote {options['fname']}")


@dataclass
class Saved:
    """A result.

    Parameters
    ----------
    file
        a saved result, .h5
    """

    file: Path


def run_methods(given, options):
    """Describe methods and results for a paper.

    The paragraphs are printed, with references.
    """
    check_there(given.file)
    from .. import load_result, methods_text

    tell(*methods_text(load_result(given.file), **options).split("\n"))


# ------------------------------------------------------------------- verify and rerun

#: Names of arrays in a file of NumPy's, beside X and y.
ARRAYS = (
    *("groups", "confounds", "train_on", "X_test", "y_test", "adjacency"),
    *("labels_img", "sensors"),
)
#: Files that the functions were given, by their arguments.
PLACES = (
    *("test_epochs", "mask_img", "process_mask_img", "labels_img", "lut", "mesh"),
    "other",
)
#: Functions that make results of subjects.
FUNCTIONS = (
    *("cross_validate", "regress", "decode_arrays", "decode_epochs", "decode_sources"),
    *("generalize_arrays", "generalize_epochs", "searchlight", "decode_regions"),
)


@dataclass
class Made(Volumes, Saved):
    """A result, and which data it was made of.

    Parameters
    ----------
    data
        the data that were decoded: a file of epochs (-epo.fif, .set or .mat), images,
        or a NumPy .npz file with the arrays X and y, and optionally groups, X_test and
        so on; for the result of a group, the results (.h5) of its subjects
    test_epochs
        the epochs that were tested
    mask_img
        the mask of the images
    process_mask_img
        the centres
    labels_img
        the atlas
    lut
        names of the regions
    mesh
        the left and the right hemisphere
    other
        for a group, the results of the other group or condition
    """

    data: list[Path] = ()
    _: KW_ONLY
    labels: list[Path] | None = None
    test_epochs: Path | None = None
    mask_img: Path | None = None
    process_mask_img: Path | None = None
    labels_img: Path | None = None
    lut: Path | None = None
    mesh: list[Path] | None = None
    other: list[Path] | None = None

    @property
    def images(self):
        """The data, if they are images."""
        return self.data


@dataclass(kw_only=True)
class Verified(Made):
    """What verifies a result.

    Parameters
    ----------
    bids_dir
        for a result of mvpa-kfda bids, the dataset, from which the data are read as its
        .json file says; DATA is left out then
    derivatives
        with --bids-dir, the preprocessed data
    record
        write what was found to a file beside the result, RESULT.verified.json, which
        its report then shows
    """

    bids_dir: Path | None = None
    derivatives: Path | None = None
    record: bool = False


@dataclass(kw_only=True)
class Again(Made, Out):
    """What makes a result again.

    Parameters
    ----------
    y
        the labels of epochs, as for the result
    """

    y: list[literal] | None = None


def run_verify(given, options):
    """Verify a saved result against the data.

    They are read as for the result: labels by --y, or by --labels and the flags after
    it. The exit status is 0 if everything agrees, 1 if something differs or cannot be
    verified, and 2 after an error.
    """
    from .. import load_result, verify
    from ..results.group import GroupResult

    check_there(given.file, *given.data)
    result, y = load_result(given.file), options.pop("y", None)
    if given.data and given.bids_dir is not None:
        raise ValueError("Use either DATA or --bids-dir, not both.")
    if not given.data:
        is_group = isinstance(result, GroupResult)
        (data, y), more = _read_of_output(given, is_group)
    else:
        (data, y), more = _read(result, given, y)
    found = verify(result, data, y, **options, **more)
    tell(*repr(found).splitlines())
    selected = given.data and given.data[0].suffix not in (".npz", ".h5")
    if found.differences and not len(found.cells) and selected:
        tell(
            "Select trials, labels and voxels as they were for the result (--y, "
            "--labels, --label-column, --drop, --average-blocks, --mask-img)."
        )
    if given.record:
        found.record(given.file)
    return 0 if found.ok else 1


def _read_of_output(given, is_group):
    """The data, or subjects' results, of a result of ``mvpa-kfda bids``."""
    from ..bids.reread import read_again, subjects_of_group
    from .bids import participant_options

    if is_group:
        found = subjects_of_group(given.file)
        check_there(*found)
        return (found, None), {}
    if given.bids_dir is None:
        raise ValueError(
            "The data are missing. List the files that were decoded (DATA), or use "
            "--bids-dir for a result of mvpa-kfda bids."
        )
    places = ("bids_dir", "derivatives", "mask_img", "labels_img", "lut")
    options = {name: getattr(given, name) for name in places}
    check_there(*(options[name] for name in places[2:]))
    data, y, more = read_again(given.file, options, participant_options())
    return (data, y), more


def _read(result, given, y):
    """Data and labels as the functions take them, and what else they are given."""
    from ..results.group import GroupResult

    more = {name: getattr(given, name) for name in PLACES}
    more = {name: x for name, x in more.items() if x is not None}
    for paths in more.values():
        check_there(*(paths if isinstance(paths, list) else [paths]))
    if isinstance(result, GroupResult):
        return (given.data, None), {k: x for k, x in more.items() if k == "other"}
    if "other" in more:
        raise ValueError(f"--other is for groups; {given.file.name} is of one subject.")
    first = given.data[0]
    if first.suffix == ".npz":
        return _read_arrays(first)
    if first.name.endswith((".fif", ".fif.gz", ".set", ".mat")):
        from ..data.epochs import read_epochs_file

        if "test_epochs" in more:
            more["test_epochs"] = read_epochs_file(more["test_epochs"])
        return (read_epochs_file(first), y), more
    if given.labels is None:
        raise ValueError(
            f"{first.name} is read as images, which need a table of labels. Add "
            "--labels TABLE."
        )
    from .reading import read_volumes

    # Blocks end where a run does, if the result knows the column of the runs.
    runs = result.options.get("groups") if given.average_blocks else None
    images, table, _ = read_volumes(given, runs if isinstance(runs, str) else None)
    return (images, (table, given.label_column)), more


def _read_arrays(path):
    """The arrays of a file of NumPy's."""
    import numpy as np

    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = [name for name in ("X", "y") if name not in arrays]
    unknown = sorted(set(arrays) - {"X", "y", *ARRAYS})
    if missing or unknown:
        what = f"has no array {missing[0]!r}" if missing else f"has {unknown[0]!r}"
        raise ValueError(
            f"{path} {what}. It must contain X and y, and may contain "
            f"{', '.join(ARRAYS)}."
        )
    return (arrays.pop("X"), arrays.pop("y")), arrays


def run_rerun(given, _):
    """Recompute a saved result from the data.

    Its options and its seed are used again. RESULT_rerun.h5 is written, and whether
    all numbers are the same is reported. The exit status is 0 if they are, 1 if not,
    and 2 after an error.
    """
    from .. import load_result
    from ..results.group import GroupResult
    from ..verification.recompute import differences_of_counts, most_permutations

    check_there(given.file, *given.data)
    result = load_result(given.file)
    function = _function_of(result, given.file)
    stem = f"{given.file.stem}_rerun"
    check_out(given.out, stem)
    options = result.procedure
    is_group = isinstance(result, GroupResult)
    first, second, *others = signature(function).parameters
    of_data = {first, *(("other", "subjects") if is_group else (second,))}
    unknown = sorted(set(options) - {second, *others} | set(options) & of_data)
    if unknown:
        raise ValueError(
            f"{given.file} has options that {function.__name__} does not have: "
            f"{', '.join(unknown)}."
        )
    asked, most = options.get("n_permutations"), most_permutations(result)
    asks_for_more = isinstance(asked, int) and asked > most
    options |= {"n_permutations": most} if asks_for_more else {}
    (data, y), more = _read(result, given, single(given.y))
    if is_group:
        again = _group_again(function, result, options, data, more)
    else:
        if wrong := differences_of_counts(result):
            raise ValueError(f"{given.file} was edited: {'; '.join(wrong)}.")
        if {"test_epochs", "X_test"} & set(more):
            more["same_trials"] = result.parameters["cv"] is not None
        again = function(data, y, **options | more)
    if asks_for_more:
        kept = {name: getattr(again, name) for name in ("options", "parameters")}
        again = replace(
            again,
            **{
                name: x | {"n_permutations": asked}
                for name, x in kept.items()
                if x["n_permutations"] == most
            },
        )
    path = given.out / f"{stem}.h5"
    again.save(path, overwrite=True)
    same = replace(again, versions=result.versions, warnings=result.warnings) == result
    old, words = result.versions, "the same versions of all packages"
    changed = [
        f"{name} {old.get(name, 'unknown')} (now {version})"
        for name, version in again.versions.items()
        if old.get(name) != version
    ]
    tell(f"Wrote {path}", "All numbers are the same." if same else "Numbers differ.")
    tell(f"It was made with {', '.join(changed) or words}.")
    return 0 if same else 1


def _function_of(result, path):
    """The function that computed a result, one of those of this package.

    A file is not trusted to name any other.
    """
    import mvpa_kfda

    from ..results.base import SubjectResult
    from ..results.group import GroupResult
    from ..utils.checks import enumerated

    known = ["group_inference"] if isinstance(result, GroupResult) else FUNCTIONS
    made = isinstance(result, SubjectResult | GroupResult) and result.inputs
    name = result.inputs.get("function") if made else None
    if name is None:
        raise ValueError(
            f"{path} does not record which function computed it. Results "
            "that were computed from a single other one cannot be run again."
        )
    if name not in known:
        raise ValueError(
            f"{path} was not computed by {name!r}, as it says: results of this kind "
            f"are computed by {enumerated(known, 'or')}."
        )
    return getattr(mvpa_kfda, name)


def _group_again(function, group, options, files, more):
    """The group's result again, of the files in its order and by its names."""
    from ..verification.subjects import find_members

    found, _, wrong = find_members(group, files, **more)
    if wrong:
        raise ValueError(f"These are not the results of the group: {'; '.join(wrong)}.")
    n = len(group.subjects)
    more = {"other": found[n:]} if more else {}
    return function(found[:n], **options, **more, subjects=group.subjects)


# ------------------------------------------------------------------------------- table

COMMANDS = {
    "group": Command(run_group, SubjectFiles, "group_inference", {"random_state": 0}),
    "report": Command(run_report, Shown, "report"),
    "methods": Command(run_methods, Saved, "methods_text"),
    "verify": Command(run_verify, Verified, "verify"),
    "rerun": Command(run_rerun, Again),
}
