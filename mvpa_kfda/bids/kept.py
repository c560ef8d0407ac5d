"""Images of trials that are kept in the output, and found again by what made them.

A series has the name that ``--estimate images`` reads, so that other analyses and
programs can go on with it. Its JSON file holds a digest of input files and options,
and checksums of the series itself; where one of them differs, trials are made anew.
"""

import json
from functools import cached_property
from hashlib import sha256

import nibabel
import nilearn
import numpy as np

from .. import __version__
from ..utils.checks import warn
from .bold import ESTIMATES
from .sources import checksum
from .trials import RUN, TrialInputs, groups_of, read_events_tsv
from .write import as_dict, in_place, read_json, write_json, write_table

#: Options that trials depend on.
_OPTIONS = {
    *("by", "where", "estimate", "max_dropped"),
    *(n for each in ESTIMATES.values() for n in each.own),
}
#: The parts of a record that are looked at, and what they are.
_PARTS = {"Checksums": dict, "TextColumns": list, "Trials": dict, "Notes": list}
#: Older pandas reads numbers that differ by so much from those that it wrote.
_ROUNDED = 1e-12


class KeptTrials:
    """The images of the trials of a unit, in a folder of the output."""

    def __init__(self, folder, stem, inputs, options):
        self.folder, self.name = folder, f"{stem}_betaseries"
        given = {n: v for n, v in options.items() if v is not None}
        self.options = {n: v for n, v in given.items() if n in _OPTIONS}
        made_by = [__version__, nilearn.__version__]
        text = json.dumps([made_by, inputs, self.options], sort_keys=True, default=str)
        self.digest = sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def trials(self):
        """The `TrialInputs` that were kept of the same files and options, or None."""
        for path in sorted(self.folder.glob("*_betaseries.json")):
            record = as_dict(read_json(path))
            if record.get("Digest") == self.digest and self._is_whole(record):
                return self._load(path.name.removesuffix(".json"), record)
        return None

    def _is_whole(self, record):
        """Tell whether the record is whole, and files are those that were written."""
        if not all(isinstance(record.get(n), kind) for n, kind in _PARTS.items()):
            return False
        sums = record["Checksums"]
        return all(
            (self.folder / name).is_file() and checksum(self.folder / name) == known
            for name, known in sums.items()
        )

    def _load(self, name, record):
        """Read trials."""
        table = read_events_tsv(self.folder / f"{name}.tsv", record["TextColumns"])
        data = nibabel.load(self.folder / f"{name}.nii.gz")
        mask = nibabel.load(self.folder / f"{name}_mask.nii.gz")
        about = record["Trials"] | {"TrialsFrom": f"{name}.nii.gz"}
        notes = (*record["Notes"], f"trials from {name}.nii.gz")
        return TrialInputs(data, table, groups_of(table[RUN]), mask, about, notes)

    def write(self, trials, about):
        """Write trials, their table and mask, and last what they are of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sidecar = self.folder / f"{self.name}.json"
        sidecar.unlink(missing_ok=True)
        paths = [
            self.folder / f"{self.name}{ending}"
            for ending in (".nii.gz", ".tsv", "_mask.nii.gz")
        ]
        in_place(paths[0], trials.data.to_filename)
        write_table(trials.table, paths[1])
        in_place(paths[2], trials.mask_img.to_filename)
        texts = [
            name
            for name, column in trials.table.items()
            if all(isinstance(value, str) for value in column.dropna())
        ]
        record = {
            "Description": "One image for every trial, in the order of the rows of the "
            "table beside it",
            **about,
            "Options": self.options,
            "Trials": trials.about,
            "Notes": trials.notes,
            "TextColumns": texts,
        }
        if _same_table(read_events_tsv(paths[1], texts), trials.table):
            record["Digest"] = self.digest
            record["Checksums"] = {path.name: checksum(path) for path in paths}
        else:
            warn(
                f"{paths[1].name} cannot hold the table of events as it is, so that "
                "the images of trials are kept, but will be made anew in other runs."
            )
        write_json(sidecar, record)


def _same_table(table, other):
    """Tell whether tables have the same values, missing ones included."""
    return list(table) == list(other) and all(
        _same_column(table[name], other[name]) for name in table
    )


def _same_column(column, other):
    """Tell whether columns have the same values, missing ones included."""
    if not np.array_equal(column.isna(), other.isna()):
        return False
    values, others = column.dropna().tolist(), other.dropna().tolist()
    if {type(value) for value in (*values, *others)} == {float}:
        return np.allclose(values, others, rtol=_ROUNDED, atol=0)
    return values == others
