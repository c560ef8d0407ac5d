"""What a result in the output was made of, found and read again in the dataset."""

from dataclasses import replace
from pathlib import Path

from .analyses import ANALYSES, check_readers, read_trials
from .app import outputs_of
from .config import convert
from .events import LABEL
from .find import (
    OF_RESULTS,
    check_dataset,
    dataset_places,
    entities_of,
    find_inputs,
    find_units,
    space_of,
    uri,
)
from .store import NOT_OF_RESULTS
from .write import read_json

_DESCRIPTION = "dataset_description.json"
#: The fields of records that are looked at, and what they are.
_FIELDS = {"Inputs": dict, "Options": dict, "Sources": list, "Trials": dict}
_KINDS = {dict: "an object with names", list: "a list"}
#: What a file of the output itself is called.
_OWN = "bids::"


def find_record(path):
    """What the output says of a result, and the folder of the output."""
    path = Path(path).absolute()
    record = read_json(path.with_suffix(".json"))
    roots = [each for each in path.parents if (each / _DESCRIPTION).is_file()]
    if not roots or "Inputs" not in record:
        raise ValueError(
            f"{path.name} is not a result in the output of mvpa-kfda bids, with its "
            ".json file beside it. List the files that were decoded (DATA) instead."
        )
    for name, kind in _FIELDS.items():
        if not isinstance(record.get(name, kind()), kind):
            raise ValueError(
                f"{path.with_suffix('.json')} is damaged: {name!r} is not "
                f"{_KINDS[kind]}. List the files that were decoded (DATA) instead."
            )
    return {name: kind() for name, kind in _FIELDS.items()} | record, roots[0]


def subjects_of_group(path):
    """The results that a test of the group was made of."""
    record, root = find_record(path)
    names = [name for name in record["Inputs"] if name.startswith(_OWN)]
    return [root / name.removeprefix(_OWN) for name in names]


def read_again(path, options, known):
    """The data of a subject's result, the labels, and what else was given.

    `options` are given now, and `known` are all of the level participant by name. What
    the record of the result says of those that results depend on takes the place of
    their defaults.
    """
    record, root = find_record(path)
    check_dataset(options["bids_dir"], "--bids-dir")
    if options["derivatives"]:
        check_dataset(options["derivatives"], "--derivatives")
    defaults = {name: option.default for name, option in known.items()}
    options = defaults | _recorded(record, path, known) | options
    options |= _chosen(path) | {"output_dir": root}
    places = dataset_places(options)
    units, _ = find_units(options)
    runs = [
        each
        for unit in units
        for each in unit.recordings
        if uri(each.path, places) in record["Inputs"]
    ]
    if not runs:
        sources = ", ".join(map(str, record["Sources"]))
        raise ValueError(
            f"{options['bids_dir']} does not hold the recordings of {Path(path).name}: "
            f"{sources}. Use the same dataset as --bids-dir, and the same preprocessed "
            "data as --derivatives."
        )
    unit = replace(units[0], recordings=tuple(runs))
    check_readers([unit])
    inputs, trials = find_inputs(unit, options), None
    if "TrialsFrom" in record["Trials"]:  # of those that were kept, if they still are
        trials = outputs_of(unit, inputs, options)[1].trials
    trials = read_trials(inputs, options) if trials is None else trials
    given = {"groups": trials.groups}
    if not ANALYSES[options["analysis"]].images:
        labels = trials.table[LABEL].to_numpy()
        return trials.data, labels, given
    given["mask_img"] = trials.mask_img
    given |= {n: options[n] for n in OF_RESULTS if options[n] is not None}
    return trials.data, (trials.table, LABEL), given


def _recorded(record, path, known):
    """The options in a record that results depend on, and no others."""
    where = f"{Path(path).with_suffix('.json')}, 'Options'"
    recorded = record["Options"].items()
    found = {n: x for n, x in recorded if n not in NOT_OF_RESULTS}
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ValueError(f"{where}: {', '.join(unknown)} are no options of mvpa-kfda.")
    return {name: convert(where, name, x, known[name]) for name, x in found.items()}


def _chosen(path):
    """The options that the name of a result stands for."""
    entities, folder = entities_of(Path(path)), Path(path).absolute().parent.name
    missing = [name for name in ("sub", "desc") if name not in entities]
    if missing:
        raise ValueError(
            f"The name {Path(path).name} does not have {' and '.join(missing)}, as "
            "those of subjects' results have. Give it its name again."
        )
    return {
        "participant_label": [entities["sub"]],
        "task": None if "task" not in entities else [entities["task"]],
        "space": space_of(entities),
        "datatype": folder,
        "desc": entities["desc"],
    }
