"""What is decoded of one subject, by the kind of its recordings."""

import numpy as np
import pandas as pd
from nilearn.image import concat_imgs

from ..data.volumes import n_volumes, on_grid
from ..utils.checks import counted
from .bold import read_bold
from .epochs import import_mne_bids, read_epochs, read_raw
from .fates import FLAT, mark, wanted
from .masks import load_runs, mask_of_runs
from .trials import (
    RUN,
    TrialInputs,
    about_trials,
    check_losses,
    choose_events,
    groups_of,
    read_events_tsv,
    with_plain_labels,
)


def check_readers(units):
    """Refuse recordings that nothing here can read, before any is read."""
    if any(unit.kind == "raw" for unit in units):
        import_mne_bids()


def read_trials(inputs, options):
    """The `TrialInputs` of the `Inputs` of a unit, of which nothing else is read."""
    trials = READERS[inputs.kind](inputs, options)
    inputs.check_unchanged()
    return trials


def _read_images(inputs, options):
    """Read images that hold one volume per trial, with a table beside each."""
    images, tables = load_runs(inputs.runs), []
    for run, image in zip(inputs.runs, images, strict=True):
        table = read_events_tsv(run.events)
        if len(table) != n_volumes(image):
            raise ValueError(
                f"{run.events.name} has {counted(len(table), 'row')} for the "
                f"{counted(n_volumes(image), 'volume')} of {run.path.name}. There "
                "must be one row per volume."
            )
        if len(inputs.runs) > 1 or RUN not in table:
            table[RUN] = run.label
        tables.append(table)
    mask = mask_of_runs(inputs.runs, inputs.kind, images, options["mask_img"])
    events = choose_events(tables, options)
    data = concat_imgs(images) if len(images) > 1 else images[0]
    mark(events, events.index[_are_flat(data, mask.image)], FLAT)
    check_losses(events, options)
    table = _in_time(wanted(events))
    if not np.array_equal(table.index, range(len(events))):
        data = on_grid(np.asarray(data.dataobj)[..., table.index], data)
    facts, notes = about_trials(table, events, inputs.runs)
    table = with_plain_labels(table.reset_index(drop=True))
    about = {**facts, "Estimate": "images", **mask.about}
    notes += mask.notes
    return TrialInputs(data, table, groups_of(table[RUN]), mask.image, about, notes)


def _in_time(table):
    """Return a table of trials whose runs are in the order of the onsets, if known."""
    if "onset" not in table:
        return table
    onsets = pd.to_numeric(table["onset"], errors="coerce")
    if onsets.isna().any():
        return table
    return table.iloc[np.lexsort([onsets, pd.factorize(table[RUN])[0]])]


def _are_flat(data, mask):
    """Mark the volumes that hold one value everywhere in a mask."""
    values = np.asarray(data.dataobj).reshape(-1, n_volumes(data))
    if mask is not None:
        values = values[np.asarray(mask.dataobj).ravel() != 0]
    return values.max(axis=0) == values.min(axis=0)


#: Kinds of recordings -> what reads their trials.
READERS = {
    "epochs": read_epochs,
    "raw": read_raw,
    "bold": read_bold,
    "images": _read_images,
}
