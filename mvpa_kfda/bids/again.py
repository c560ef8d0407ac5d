"""What a result in the output was made of, found and read again in the dataset."""

from dataclasses import replace
from pathlib import Path

from .analyses import ANALYSES
from .app import outputs_of
from .find import NO_VALUE, check_dataset, entities_of, find_units
from .read import check_readers, read_trials
from .sources import dataset_places, find_inputs, uri
from .trials import LABEL
from .write import read_json

_DESCRIPTION = "dataset_description.json"
#: What a file of the output itself is called.
_OWN = "bids::"


def find_record(path):
    """Return what the output says of a result, and the folder of the output."""
    path = Path(path).absolute()
    record = read_json(path.with_suffix(".json"))
    roots = [each for each in path.parents if (each / _DESCRIPTION).is_file()]
    if not roots or not isinstance(record, dict) or "Inputs" not in record:
        raise ValueError(
            f"{path.name} is not a result in the output of mvpa-kfda bids, with its "
            ".json file beside it. List the files that were decoded (DATA) instead."
        )
    return record, roots[0]


def subjects_of_group(path):
    """Return the results that a test of the group was made of."""
    record, root = find_record(path)
    names = [name for name in record["Inputs"] if name.startswith(_OWN)]
    return [root / name.removeprefix(_OWN) for name in names]


def read_again(path, options):
    """Return the data of a subject's result, the labels, and what else was given.

    `options` are those of the level participant, by default or as given now; what the
    record of the result has takes their place.
    """
    record, root = find_record(path)
    check_dataset(options["bids_dir"], "--bids-dir")
    if options["derivatives"]:
        check_dataset(options["derivatives"], "--derivatives")
    options = options | record["Options"] | _chosen(path) | {"output_dir": root}
    places = dataset_places(options)
    units, _ = find_units(options)
    runs = [
        each
        for unit in units
        for each in unit.recordings
        if uri(each.path, places) in record["Inputs"]
    ]
    if not runs:
        raise ValueError(
            f"{options['bids_dir']} does not hold the recordings of {Path(path).name}: "
            f"{', '.join(record['Sources'])}. Use the same dataset as --bids-dir, "
            "and the same preprocessed data as --derivatives."
        )
    unit = replace(units[0], recordings=tuple(runs))
    check_readers([unit])
    trials = _trials_of(unit, record, options)
    given = {"groups": trials.groups}
    if not ANALYSES[options["analysis"]].images:
        labels = trials.table[LABEL].to_numpy()
        return trials.data, labels, given
    given["mask_img"] = trials.mask_img
    for name in ("labels_img", "lut"):
        if options[name] is not None:
            given[name] = options[name]
    return trials.data, (trials.table, LABEL), given


def _chosen(path):
    """Return the options that the name of a result stands for."""
    entities, folder = entities_of(Path(path)), Path(path).absolute().parent.name
    space = [entities.get("space")]
    space += [f"{key}-{entities[key]}" for key in ("cohort", "res") if key in entities]
    return {
        "participant_label": [entities["sub"]],
        "task": None if "task" not in entities else [entities["task"]],
        "space": ":".join(filter(None, space)) or NO_VALUE,
        "datatype": folder,
        "desc": entities["desc"],
    }


def _trials_of(unit, record, options):
    """Return the trials of a unit, those that were kept if the result is of these."""
    inputs = find_inputs(unit, options)
    if "TrialsFrom" in record.get("Trials", {}):
        _, kept = outputs_of(unit, inputs, options, options["desc"])
        if kept.trials is not None:
            return kept.trials
    return read_trials(inputs, options)
