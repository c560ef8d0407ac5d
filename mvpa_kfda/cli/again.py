"""The commands that look at a result again: ``mvpa-kfda verify`` and ``rerun``.

The packages that read data are imported inside functions: ``--help`` needs none.
"""

from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path

from ..utils.text import tell
from .common import (
    LABEL_COLUMN,
    Option,
    add_options,
    check_out,
    check_there,
    given,
    split_classes,
)

#: What else says which data they are, by the arguments of the functions.
PLACES = (
    Option("--test-file", "test_epochs", "FILE", "the epochs that were tested", Path),
    Option("--mask", "mask_img", "MASK", "the mask of the images", Path),
    Option("--process-mask", "process_mask_img", "MASK", "the centres", Path),
    Option("--atlas", "labels_img", "ATLAS", "the atlas", Path),
    Option("--atlas-names", "lut", "TABLE", "names of the regions", Path),
    Option(
        "--mesh",
        "mesh",
        "SURFACE",
        "the left and the right hemisphere",
        Path,
        several=True,
    ),
)
#: How labels are read.
LABELS = (
    Option(
        "--by",
        "by",
        "COLUMN",
        "metadata column with the classes (default: event names)",
    ),
    Option(
        "--classes",
        "classes",
        "EVENT",
        "for epochs: the events or tags that were used as classes",
        several=True,
    ),
    Option(
        "--labels",
        "labels",
        "TABLE",
        "for images: the table or tables with one row per volume",
        Path,
        several=True,
    ),
    LABEL_COLUMN,
    Option(
        "--drop",
        "drop",
        "LABEL",
        "labels of the volumes that were left out",
        several=True,
    ),
    Option(
        "--average-blocks",
        "average_blocks",
        "",
        "volumes of a block were averaged first",
        bool,
        default=False,
    ),
)
#: Names of arrays in a file of NumPy's, beside X and y.
ARRAYS = (
    *("groups", "confounds", "train_on", "X_test", "y_test", "adjacency"),
    *("labels_img", "sensors"),
)
_DATA = (
    "the data that were decoded: a file of epochs (-epo.fif, .set or .mat), images, or "
    "a NumPy .npz file with the arrays X and y, and optionally groups, X_test and so "
    "on; for the result of a group, the results (.h5) of its subjects"
)
#: Of results in the output of the bids command.
BIDS = (
    Option(
        "--bids-dir",
        "bids_dir",
        "DIR",
        "for a result of mvpa-kfda bids, the dataset, from which the data are read as "
        "its .json file says; DATA is left out then",
        Path,
    ),
    Option(
        "--derivatives",
        "derivatives",
        "DIR",
        "with --bids-dir, the preprocessed data",
        Path,
    ),
)
#: Of results of groups.
OTHER = Option(
    "--other",
    "other",
    "RESULT",
    "for a group, the results of the other group or condition",
    Path,
    several=True,
)


def add_verify(commands):
    """Add the command that checks a result."""
    parser = commands.add_parser(
        "verify",
        help="verify a saved result against the data",
        usage="%(prog)s RESULT [DATA ...] [options]",
        description="Verify a saved result (.h5) against the data: it is computed "
        "again with the options in the file, everything is compared, and the models "
        "of some cells (a position, a fold, a permutation) are refitted with "
        "scikit-learn. "
        "The result of a group is computed from the results of its subjects. The "
        "exit status is 0 if everything agrees, 1 if something differs or "
        "cannot be verified, and 2 after an error.",
    )
    _add_arguments(parser, "*")
    add_options(parser, BIDS)
    parser.add_argument(
        "--cells",
        metavar="N",
        default="20",
        help="number of cells to refit, or all (default: %(default)s)",
    )
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        default="60",
        help="time for computing the result again, or all for the whole map, however "
        "long it takes (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", metavar="S", type=int, help="random seed for the selection of cells"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="write what was found to a file beside the result, RESULT.verified.json, "
        "which its report then shows",
    )
    parser.set_defaults(run=_run_verify)


def add_rerun(commands):
    """Add the command that makes a result again."""
    parser = commands.add_parser(
        "rerun",
        help="recompute a saved result from the data",
        usage="%(prog)s RESULT DATA [DATA ...] [options]",
        description="Run the analysis of a saved result (.h5) again, with its options "
        "and its seed, write RESULT_rerun.h5, and report whether all "
        "numbers are the same. The exit status is 0 if they are, 1 if not, "
        "and 2 after an error.",
    )
    _add_arguments(parser, "+")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="output folder, created if needed (default: %(default)s)",
    )
    parser.set_defaults(run=_run_rerun)


def _add_arguments(parser, n_data):
    """Add the result and its data."""
    parser.add_argument("file", metavar="RESULT", type=Path, help="a saved result, .h5")
    parser.add_argument("data", metavar="DATA", type=Path, nargs=n_data, help=_DATA)
    add_options(parser, (*LABELS, *PLACES, OTHER))


def _run_verify(arguments):
    """Check the result, and print the verdict and the cells."""
    from ..results.group import GroupResult
    from ..results.load import load_result
    from ..verification.checking import verify

    check_there(arguments.file, *arguments.data)
    result = load_result(arguments.file)
    cells = None if arguments.cells == "all" else _whole(arguments.cells)
    is_group = isinstance(result, GroupResult)
    if arguments.data and arguments.bids_dir is not None:
        raise ValueError("Use either DATA or --bids-dir, not both.")
    if not arguments.data:
        (data, y), more = _read_of_output(arguments, is_group)
    else:
        read = _read_subjects if is_group else partial(_read, result)
        (data, y), more = read(arguments)
    budget = None if arguments.budget == "all" else _seconds(arguments.budget)
    how = {"n_cells": cells, "random_state": arguments.seed, "budget": budget}
    found = verify(result, data, y, **how, **more)
    tell(*repr(found).splitlines())
    if found.differences and not len(found.cells) and _are_selected(arguments.data):
        flags = ", ".join(option.flag for option in LABELS)
        tell(f"Select trials and labels as they were for the result ({flags}).")
    if arguments.record:
        found.record(arguments.file)
    return 0 if found.ok else 1


def _are_selected(data):
    """Tell whether options say what is read of these files."""
    return bool(data) and data[0].suffix not in (".npz", ".h5")


def _whole(text):
    """Return a number of cells."""
    if not text.isdigit() or not int(text):
        raise ValueError(
            f"--cells {text} is not a number of cells. Use 1, 2, ... or all."
        )
    return int(text)


def _seconds(text):
    """Return a number of seconds."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"--budget {text} is no number. Use seconds, or all."
        ) from None


def _run_rerun(arguments):
    """Make the result again, write it, and say whether it is the same."""
    from ..results.group import GroupResult
    from ..results.load import load_result
    from ..verification.recompute import differences_of_counts, most_permutations

    check_there(arguments.file, *arguments.data)
    result = load_result(arguments.file)
    function = _function_of(result, arguments.file)
    stem = f"{arguments.file.stem}_rerun"
    check_out(arguments.out, stem)
    options = result.procedure
    is_group = isinstance(result, GroupResult)
    first, second, *others = signature(function).parameters
    of_data = {first, *(("other", "subjects") if is_group else (second,))}
    unknown = sorted(set(options) - {second, *others} | set(options) & of_data)
    if unknown:
        raise ValueError(
            f"{arguments.file} has options that {function.__name__} does not have: "
            f"{', '.join(unknown)}."
        )
    asked, most = options.get("n_permutations"), most_permutations(result)
    asks_for_more = isinstance(asked, int) and asked > most
    options |= {"n_permutations": most} if asks_for_more else {}
    if is_group:
        (data, _), more = _read_subjects(arguments)
        again = _group_again(function, result, options, data, more)
    else:
        if wrong := differences_of_counts(result):
            raise ValueError(f"{arguments.file} was edited: {'; '.join(wrong)}.")
        (data, y), more = _read(result, arguments)
        if {"test_epochs", "X_test"} & set(more):
            more["same_trials"] = result.parameters["cv"] is not None
        again = function(data, y, **options | more)
    if asks_for_more:
        kept = {name: getattr(again, name) for name in ("options", "parameters")}
        given = {n: x for n, x in kept.items() if x["n_permutations"] == most}
        given = {n: x | {"n_permutations": asked} for n, x in given.items()}
        again = replace(again, **given)
    path = arguments.out / f"{stem}.h5"
    again.save(path, overwrite=True)
    same = replace(again, versions=result.versions, warnings=result.warnings) == result
    tell(f"Wrote {path}", "All numbers are the same." if same else "Numbers differ.")
    tell(_word_versions(result.versions, again.versions))
    return 0 if same else 1


def _function_of(result, path):
    """Return the function that computed a result, one of those of this package.

    A file is not trusted to name any other.
    """
    import mvpa_kfda

    from ..results.base import SubjectResult
    from ..results.group import GroupResult
    from ..utils.checks import enumerated
    from ..verification.recompute import FUNCTIONS

    known = ["group_inference"] if isinstance(result, GroupResult) else [*FUNCTIONS]
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


def _read_subjects(arguments):
    """Return the paths of subjects' results as data, and those of the others."""
    if arguments.other is None:
        return (arguments.data, None), {}
    check_there(*arguments.other)
    return (arguments.data, None), {"other": arguments.other}


def _read_of_output(arguments, is_group):
    """Return the data, or subjects' results, of a result of ``mvpa-kfda bids``."""
    from ..bids.reread import read_again, subjects_of_group
    from .bids import participant_options

    if is_group:
        found = subjects_of_group(arguments.file)
        check_there(*found)
        return (found, None), {}
    if arguments.bids_dir is None:
        raise ValueError(
            "The data are missing. List the files that were decoded (DATA), or use "
            "--bids-dir for a result of mvpa-kfda bids."
        )
    places = ("bids_dir", "derivatives", "mask_img", "labels_img", "lut")
    options = {name: getattr(arguments, name) for name in places}
    check_there(*(options[n] for n in places[2:] if options[n] is not None))
    data, y, more = read_again(arguments.file, options, participant_options())
    return (data, y), more


def _group_again(function, group, options, files, more):
    """Return the group's result again, of the files in its order and by its names."""
    from ..verification.subjects import find_members

    found, _, wrong = find_members(group, files, **more)
    if wrong:
        raise ValueError(f"These are not the results of the group: {'; '.join(wrong)}.")
    n = len(group.subjects)
    more = {"other": found[n:]} if more else {}
    return function(found[:n], **options, **more, subjects=group.subjects)


def _word_versions(old, new):
    """Say which packages have other versions than they had."""
    changed = [
        f"{name} {old.get(name, 'unknown')} (now {version})"
        for name, version in new.items()
        if old.get(name) != version
    ]
    if not changed:
        return "It was made with the same versions of all packages."
    return f"It was made with {', '.join(changed)}."


def _read(result, arguments):
    """Return data and labels as the functions take them, and what else they are given.

    What is not given is left out.
    """
    if arguments.other is not None:
        raise ValueError(
            f"--other is for groups; {arguments.file.name} is of one subject."
        )
    more = {k: v for k, v in given(arguments, PLACES).items() if v is not None}
    for paths in more.values():
        check_there(*(paths if isinstance(paths, list) else [paths]))
    first = arguments.data[0]
    if first.suffix == ".npz":
        return _read_arrays(first)
    if first.name.endswith((".fif", ".fif.gz", ".set", ".mat")):
        from ..data.epochs import read_epochs_file

        for name in {"test_epochs"} & set(more):
            more[name] = read_epochs_file(more[name])
        y = arguments.by
        if arguments.classes is not None:
            y = split_classes(arguments.classes, "EVENT")
        return (read_epochs_file(first), y), more
    if arguments.labels is None:
        raise ValueError(
            f"{first.name} is read as images, which need a table of labels. Add "
            "--labels TABLE."
        )
    from .reading import read_volumes

    # Blocks end where a run does, if the result knows the column of the runs.
    runs = result.options.get("groups") if arguments.average_blocks else None
    groups = runs if isinstance(runs, str) else None
    images, table, _ = read_volumes(
        arguments.data,
        arguments.labels,
        arguments.label_column,
        arguments.drop or (),
        *(groups, (), None),
        arguments.average_blocks,
    )
    return (images, (table, arguments.label_column)), more


def _read_arrays(path):
    """Return the arrays of a file of NumPy's."""
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
