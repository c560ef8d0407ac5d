"""The commands on saved results: group, report, methods, verify and rerun.

The packages that read data are imported inside functions: ``--help`` needs none.
"""

import time
from dataclasses import replace
from inspect import signature

from ..utils.text import tell
from .command import Command, Out, check_out, check_there, single
from .decoding import Volumes


def _expand(patterns):
    """Files in order; shells that leave patterns alone need it done here."""
    from ..utils.checks import expand_pattern

    patterns = patterns if isinstance(patterns, list) else [patterns]
    return [path for pattern in patterns for path in expand_pattern(pattern)]


# ------------------------------------------------------------------------------- group


class SubjectFiles:
    """Results of several subjects.

    Parameters
    ----------
    RESULTS : list of str
        results of the subjects, .h5, or patterns of their names
    """


def run_group(given, options):
    """Test the results of several subjects.

    Each is a file (.h5). A table (.csv), figures (.png), a result (.h5) and, for
    images, maps (.nii.gz) and peaks have names beginning with group_METHOD. The data
    are not needed; prevalence, i-test and bootstrap need results with label
    permutations.
    """
    from .. import group_inference
    from .output import group_outputs, word_group, write_all

    start = time.perf_counter()
    files = [str(path) for path in _expand(given.results)]
    if options.get("other") is not None:
        options["other"] = [str(path) for path in _expand(options["other"])]
    stem = f"group_{options.get('method', 'prevalence')}"
    check_out(given.out, stem)
    result = group_inference(files, **options)
    written = write_all(result, given.out / stem, group_outputs(result))
    tell(*word_group(result))
    tell(f"Wrote {', '.join(f'{given.out / stem}{ending}' for ending in written)}")
    tell(f"Took {time.perf_counter() - start:.1f} s")


# ------------------------------------------------------------------ report and methods


class Shown:
    """Results of any kind.

    Parameters
    ----------
    RESULTS : list of str
        saved results, .h5
    """


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
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise ValueError(f"{twice[0]} is listed twice. List each result once.")
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = list(map(str, paths))
    one = paths[0].with_suffix(".html") if len(paths) == 1 else "report.html"
    options = {"fname": one} | options
    report(dict(zip(names, paths, strict=True)), **options)
    tell(f"Wrote {options['fname']}")


class Saved:
    """A result.

    Parameters
    ----------
    FILE : path
        a saved result, .h5
    """


def run_methods(given, options):
    """Describe methods and results for a paper.

    The paragraphs are printed, with references.
    """
    check_there(given.file)
    from .. import load_result, methods_text

    tell(*methods_text(load_result(given.file), **options).split("\n"))


# ------------------------------------------------------------------- verify and rerun


class Made:
    """A result, and which data it was made of.

    Parameters
    ----------
    DATA : list of path, default=()
        the data that were decoded: a file of epochs (-epo.fif, .set or .mat), images,
        or a NumPy .npz file with the arrays X and y, and optionally groups, X_test and
        so on; for the result of a group, the results (.h5) of its subjects
    labels : list of path, optional
        table (.tsv, .csv) with one row per volume; for several images, one table for
        all volumes or one table per image
    test_epochs : path, optional
        the epochs that were tested
    mask_img : path, optional
        the mask of the images
    process_mask_img : path, optional
        the centres
    labels_img : path, optional
        the atlas
    lut : path, optional
        names of the regions
    mesh : list of path, optional
        the left and the right hemisphere
    other : list of path, optional
        for a group, the results of the other group or condition
    """


class Verified:
    """What verifies a result.

    Parameters
    ----------
    bids_dir : path, optional
        for a result of mvpa-kfda bids, the dataset, from which the data are read as its
        .json file says; DATA is left out then
    derivatives : path, optional
        with --bids-dir, the preprocessed data
    record : bool, default=False
        write what was found to a file beside the result, RESULT.verified.json, which
        its report then shows
    """


class Again:
    """What makes a result again.

    Parameters
    ----------
    y : list of value, optional
        the labels of epochs, as for the result
    """


def run_verify(given, options):
    """Verify a saved result against the data.

    They are read as for the result: labels by --y, or by --labels and the flags after
    it. The exit status is 0 if everything agrees, 1 if something differs or cannot be
    verified, and 2 after an error.
    """
    from .. import load_result, verify
    from ..bids.reread import read_again, subjects_of_group
    from ..results.group import GroupResult
    from .bids import participant_options
    from .reading import read_data

    check_there(given.file, given.data)
    result, y = load_result(given.file), options.pop("y", None)
    if given.data and given.bids_dir is not None:
        raise ValueError("Use either DATA or --bids-dir, not both.")
    if given.data:
        data, y, more = read_data(result, given, y)
    elif isinstance(result, GroupResult):
        data, more = subjects_of_group(given.file), {}
        check_there(data)
    elif given.bids_dir is None:
        raise ValueError(
            "The data are missing. List the files that were decoded (DATA), or use "
            "--bids-dir for a result of mvpa-kfda bids."
        )
    else:
        places = ("bids_dir", "derivatives", "mask_img", "labels_img", "lut")
        places = {name: getattr(given, name) for name in places}
        check_there(places["mask_img"], places["labels_img"], places["lut"])
        data, y, more = read_again(given.file, places, participant_options())
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


def run_rerun(given, _):
    """Recompute a saved result from the data.

    Its options and its seed are used again. RESULT_rerun.h5 is written, and whether
    all numbers are the same is reported. The exit status is 0 if they are, 1 if not,
    and 2 after an error.
    """
    from .. import group_inference, load_result
    from ..results.group import GroupResult
    from ..verification import recompute
    from ..verification.subjects import find_members
    from .reading import read_data

    check_there(given.file, given.data)
    result = load_result(given.file)
    is_group = isinstance(result, GroupResult)
    known = {"group_inference": group_inference} if is_group else recompute.FUNCTIONS
    function = _function_of(result, given.file, known)
    stem = f"{given.file.stem}_rerun"
    check_out(given.out, stem)
    options = result.procedure
    first, second, *others = signature(function).parameters
    of_data = {first, *(("other", "subjects") if is_group else (second,))}
    unknown = sorted(set(options) - {second, *others} | set(options) & of_data)
    if unknown:
        raise ValueError(
            f"{given.file} has options that {function.__name__} does not have: "
            f"{', '.join(unknown)}."
        )
    asked, most = options.get("n_permutations"), recompute.most_permutations(result)
    asks_for_more = isinstance(asked, int) and asked > most
    options |= {"n_permutations": most} if asks_for_more else {}
    data, y, more = read_data(result, given, single(given.y))
    if is_group:
        members, _, wrong = find_members(result, data, **more)
        if wrong:
            words = "; ".join(wrong)
            raise ValueError(f"These are not the results of the group: {words}.")
        n = len(result.subjects)
        more = {"other": members[n:]} if more else {}
        data = (members[:n],)
        more["subjects"] = result.subjects
    else:
        if wrong := recompute.differences_of_counts(result):
            raise ValueError(f"{given.file} was edited: {'; '.join(wrong)}.")
        if {"test_epochs", "X_test"} & set(more):
            more["same_trials"] = result.parameters["cv"] is not None
        data = data, y
    again = function(*data, **options | more)
    if asks_for_more:
        kept = {name: getattr(again, name) for name in ("options", "parameters")}
        kept = {k: x for k, x in kept.items() if x["n_permutations"] == most}
        kept = {k: x | {"n_permutations": asked} for k, x in kept.items()}
        again = replace(again, **kept)
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


def _function_of(result, path, known):
    """The function that computed a result, one of those that are known.

    A file is not trusted to name any other.
    """
    from ..results.base import SubjectResult
    from ..results.group import GroupResult
    from ..utils.checks import enumerated

    is_of_data = isinstance(result, SubjectResult | GroupResult) and result.inputs
    name = result.inputs.get("function") if is_of_data else None
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
    return known[name]


# ------------------------------------------------------------------------------- table

_GROUP = "group_inference", {"random_state": 0}
COMMANDS = {
    "group": Command(run_group, (Out, SubjectFiles), *_GROUP),
    "report": Command(run_report, (Shown,), "report"),
    "methods": Command(run_methods, (Saved,), "methods_text"),
    "verify": Command(run_verify, (Saved, Volumes, Made, Verified), "verify"),
    "rerun": Command(run_rerun, (Out, Saved, Volumes, Made, Again)),
}
