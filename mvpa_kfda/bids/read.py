"""What is decoded of one subject, by the kind of its recordings."""

import numpy as np
import pandas as pd
from nilearn.image import concat_imgs, load_img

from ..data.volumes import n_volumes, on_grid
from ..utils.checks import counted
from .bold import read_bold
from .epochs import import_mne_bids, read_epochs, read_raw
from .find import find_beside, stem_of_file
from .masks import mask_of_runs
from .trials import (
    LABEL,
    RUN,
    Trials,
    about_trials,
    groups_of,
    label_events,
    read_events_tsv,
    with_plain_labels,
)


def check_readers(units):
    """Refuse recordings that nothing here can read, before any is read."""
    if any(unit.kind == "raw" for unit in units):
        import_mne_bids()


def read_trials(unit, options):
    """Return the `Trials` of a unit."""
    return READERS[unit.kind](unit, options)


def files_of(unit, options):
    """Return all files that the trials of a unit are read from."""
    files = set()
    for each in unit.recordings:
        files.add(each.path)
        stem = each.path.name.rpartition("_")[0]
        if unit.kind == "bold":
            stem = stem.partition("_space-")[0].partition("_desc-")[0]
        elif unit.kind == "images":
            stem = stem_of_file(each.path)
        if unit.kind != "epochs":  # events, channels, masks, confounds, further parts
            files.update(each.path.parent.glob(f"{stem}_*"))
            files.update(each.path.parent.glob(f"{stem}.*"))
        else:
            files.update(each.path.parent.glob(f"{stem}*_epo-*.fif"))
        events = find_beside(each, options["bids_dir"], "events.tsv")
        files.update({events} - {None})
    return sorted(path for path in files if path.is_file())


def _read_images(unit, options):
    """Read images that hold one volume per trial, with a table beside each."""
    images = [load_img(each.path) for each in unit.recordings]
    tables = []
    for label, each, image in zip(unit.runs, unit.recordings, images, strict=True):
        stem = stem_of_file(each.path)
        path = each.path.with_name(f"{stem}.tsv")
        if not path.is_file():
            path = find_beside(each, each.root, "events.tsv")
        if path is None:
            raise ValueError(
                f"{each.path.name} has no table of its volumes: there is no {stem}.tsv "
                "beside it."
            )
        table = read_events_tsv(path)
        if len(table) != n_volumes(image):
            raise ValueError(
                f"{path.name} has {counted(len(table), 'row')} for the "
                f"{counted(n_volumes(image), 'volume')} of {each.path.name}. There "
                "must be one row per volume."
            )
        if len(unit.recordings) > 1 or RUN not in table:
            table[RUN] = label
        tables.append(table)
    table = pd.concat(tables, ignore_index=True)
    table[LABEL] = label_events(table, options["by"], options["where"])
    kept = np.flatnonzero(table[LABEL].notna())
    mask = mask_of_runs(unit, images, options["mask_img"])
    data = concat_imgs(images) if len(images) > 1 else images[0]
    if len(kept) < len(table):
        data = on_grid(np.asarray(data.dataobj)[..., kept], data)
    table = with_plain_labels(table.iloc[kept].reset_index(drop=True))
    about = {**about_trials(table), "Estimate": "images", **mask.about}
    return Trials(data, table, groups_of(table[RUN]), mask.image, about, mask.notes)


#: Kinds of recordings -> what reads their trials.
READERS = {
    "epochs": read_epochs,
    "raw": read_raw,
    "bold": read_bold,
    "images": _read_images,
}
