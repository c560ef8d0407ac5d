"""The trials of one subject, read by the kind of its recordings."""

import numpy as np
import pandas as pd
from nilearn.image import concat_imgs

from ..data.volumes import n_volumes, on_grid
from ..utils.checks import counted
from .bold import read_bold
from .epochs import import_mne_bids, read_epochs, read_raw
from .events import RUN, TrialInputs, events_of_data, read_events_tsv, wanted
from .masks import load_runs, mask_of_runs


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
        tables.append(table)
    mask = mask_of_runs(inputs.runs, inputs.kind, images, options["mask_img"])
    data = concat_imgs(images) if len(images) > 1 else images[0]
    values = np.asarray(data.dataobj).reshape(-1, n_volumes(data))
    if mask.image is not None:
        values = values[np.asarray(mask.image.dataobj).ravel() != 0]
    flat = values.max(axis=0) == values.min(axis=0)
    events = events_of_data(tables, inputs.runs, flat, options)
    table = wanted(events)
    if "onset" in table:  # in time within each run, if it is known of all
        onsets = pd.to_numeric(table["onset"], errors="coerce")
        if not onsets.isna().any():
            table = table.iloc[np.lexsort([onsets, pd.factorize(table[RUN])[0]])]
    if not np.array_equal(table.index, range(len(events))):
        data = on_grid(np.asarray(data.dataobj)[..., table.index], data)
    about, runs = {"Estimate": "images", **mask.about}, inputs.runs
    return TrialInputs.of(data, table, events, runs, about, mask.notes, mask.image)


#: Kinds of recordings -> what reads their trials.
READERS = {
    "epochs": read_epochs,
    "raw": read_raw,
    "bold": read_bold,
    "images": _read_images,
}
