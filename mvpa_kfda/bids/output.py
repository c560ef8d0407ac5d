"""The files of one result, and the record of what they were made from and hold.

The record is the JSON file beside the result. It has a digest of all input files, by
their content, and of the options, and checksums of everything that was written. What
is there is taken for done only if all of it is as it was written.
"""

import json
import os
import re
import shlex
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..results.load import load_result
from .sources import checksum
from .write import (
    COLUMNS,
    about_files,
    as_dict,
    as_json,
    describe_column,
    entity_value,
    in_place,
    read_json,
    write_json,
    write_table,
)

#: The ends of all names that files of a result may have, behind its stem.
_ENDS = (
    r"_(decoding\.(h5|tsv|json|verified\.json)|peaks\.(tsv|json)"
    r"|stat-[A-Za-z0-9]+_statmap\.(nii\.gz|json))"
)
#: The key of the command in JSON files.
VERIFY = "Verify"
#: Options of the command that are files, and what the analysis calls them.
_FILES = {"mask_img": "--mask-img", "labels_img": "--labels-img", "lut": "--lut"}


class Output:
    """The files of one result.

    `inputs` maps the names of files to their checksums, `page` is where the result is
    shown, and `line` the command that verifies it. Of the options those are recorded
    that were given or have a value of their own; what the others came to is among the
    parameters of the result.
    """

    def __init__(self, folder, stem, inputs, options, page, line):
        self.folder, self.stem, self.page = folder, stem, page
        self._line = line
        given = {name: each for name, each in options.items() if each is not None}
        self.inputs, self.options = inputs, as_json(given)
        text = json.dumps([self.inputs, self.options], sort_keys=True)
        self.digest = sha256(text.encode()).hexdigest()[:16]
        self.result_path = folder / f"{stem}_decoding.h5"
        self.record_path = folder / f"{stem}_decoding.json"
        self.checkpoint = folder / f".{stem}_{self.digest}.checkpoint"
        self._old = as_dict(read_json(self.record_path))
        self._trials, self._result = self._old.get("Trials"), self._old.get("Result")

    def check(self):
        """Refuse to replace what is not known to be of this command, or no file."""
        if self.is_complete:
            return
        for path in self._own():
            _check_plain(path)
        if self.result_path.exists() and "Digest" not in self._old:
            raise ValueError(
                f"{self.result_path} is there, but not {self.record_path.name}, which "
                "says how it was made. Move it away to have it made anew."
            )

    @property
    def sources(self):
        """The recordings that the result that is there is of."""
        return self._old.get("Sources", [])

    @cached_property
    def result_is_there(self):
        """Whether the result is there as it was made of the same inputs and options."""
        same = self._old.get("Digest") == self.digest
        return same and _is_as_written(self.result_path, self._old.get("Result"))

    @cached_property
    def is_complete(self):
        """Whether nothing is left to do but the page."""
        return self.result_is_there and is_whole(self.result_path)

    def changes(self, keys):
        """Word what differs from the result that is there; empty if there is none.

        `keys` maps options to what they are called on the command line.
        """
        if not self.result_path.exists():
            return ""
        old = as_dict(self._old.get("Options"))
        names = [
            n for n in {**old, **self.options} if old.get(n) != self.options.get(n)
        ]
        names = [f"--{keys.get(name, name)}" for name in names]
        if self._old.get("Inputs") != self.inputs:
            names.append("input files")
        if not (names or self.result_is_there):
            names = ["the result file itself"]
        return ", ".join(names)

    def clear(self):
        """Delete what was made of other inputs or options, and the page that shows it.

        Names are those that this result can have, whatever the record says.
        """
        for path in self._own():
            _check_plain(path)
            path.unlink(missing_ok=True)
        checkpoints = re.compile(rf"\.{re.escape(self.stem)}_\w{{16}}\.checkpoint.*")
        for path in self.folder.iterdir():
            of_others = not path.name.startswith(self.checkpoint.name)
            if of_others and checkpoints.fullmatch(path.name) and _is_plain(path):
                path.unlink()

    def _own(self):
        """Return all that is there under names of this result, and its page."""
        names = re.compile(re.escape(self.stem) + _ENDS)
        folder = self.folder.iterdir() if self.folder.is_dir() else ()
        return [*(p for p in folder if names.fullmatch(p.name)), self.page]

    def save(self, result, sources, trials=None):
        """Write a result, after the record of it; `trials` says how they were made."""

        def write(draft):
            result.save(draft)
            self._trials, self._result = trials, checksum(draft)
            self.result_path.unlink(missing_ok=True)
            self._record(result, sources, {})  # without files: there is more to write

        in_place(self.result_path, write)
        self.checkpoint.unlink(missing_ok=True)

    def load(self):
        """Return the result that is there."""
        return load_result(self.result_path)

    def finish(self, result, sources, corrections, maps, summary):
        """Write tables and maps, and last the record of all files."""
        names = self._write_tables(result, corrections, maps, sources)
        if _in_brain(result):
            names += self._write_maps(result, corrections, sources)
        columns = (
            {}
            if maps
            else _described_columns(
                result, result.to_dataframe(*_few(result, corrections))
            )
        )
        files = {name: checksum(self.folder / name) for name in names}
        self._record(result, sources, files, {"Summary": summary} | columns)

    def _record(self, result, sources, files, more=None):
        """Write the record."""
        content = {
            "Description": "Result of mvpa_kfda, read by mvpa_kfda.load_result",
            **self._about(result, sources),
            "Digest": self.digest,
            "Inputs": self.inputs,
            "Result": self._result,
            "Files": files,
            **(more or {}),
        }
        write_json(self.record_path, content | {"Checksum": _checksum_of(content)})

    def _about(self, result, sources):
        """Return what every JSON file says."""
        return {
            **about_files(sources),
            **({} if self._trials is None else {"Trials": self._trials}),
            "Options": self.options,
            "Parameters": as_json(result.parameters),
            "Versions": as_json(result.versions),
            VERIFY: self._line,
        }

    def _write_tables(self, result, corrections, maps, sources):
        """Write the table of all positions or, of maps, of the peaks."""
        few = _few(result, corrections)
        if not maps:
            table, name = result.to_dataframe(*few), f"{self.stem}_decoding.tsv"
            write_table(table, self.folder / name)
            return [name]
        if not result.has_p:
            return []
        table = result.peaks(*corrections[:1]) if few else result.peaks()
        name = f"{self.stem}_peaks.tsv"
        write_table(table.round(dict.fromkeys("xyz", 3)), self.folder / name)
        about = {
            "Description": "Peaks of the positions with p <= 0.05, with the correction "
            f"{corrections[0]!r}",
            **self._about(result, sources),
            **_described_columns(result, table),
        }
        write_json(self.folder / f"{self.stem}_peaks.json", about)
        return [name, f"{self.stem}_peaks.json"]

    def _write_maps(self, result, corrections, sources):
        """Write maps of scores and p-values."""
        maps = {}
        for metric in result.scalar_metrics:
            words = describe_column(metric, result)["Description"]
            maps[entity_value(metric)] = metric, {}, words
        if result.has_p:
            maps["p"] = "p", {"correction": "none"}, COLUMNS["p"][0]
            for name in corrections:
                if name != "none":
                    words = f"p-value, with the correction {name!r}"
                    maps[entity_value(f"p-{name}")] = "p", {"correction": name}, words
            maps["z"] = "z", {"correction": "none"}, "Normal deviate of the p-value"
        names = []
        for label, (name, options, words) in maps.items():
            stem = f"{self.stem}_stat-{label}_statmap"
            image = result.to_img(name, **options)
            in_place(self.folder / f"{stem}.nii.gz", image.to_filename)
            about = {"Description": words, **self._about(result, sources)}
            chance = result.chances.get(name, np.nan)
            if np.isfinite(chance):
                about["Chance"] = float(chance)
                if np.isfinite(permuted := result.permuted_mean(name)):
                    about["PermutedMean"] = permuted
            write_json(self.folder / f"{stem}.json", about)
            names += [f"{stem}.nii.gz", f"{stem}.json"]
        return names


def _few(result, corrections):
    """Return the argument of tables that says the corrections, none without any."""
    return ([name for name in corrections if name != "none"],)


def _in_brain(result):
    """Tell whether the positions of a result are voxels, or regions of a volume."""
    geometry = result.geometry
    return geometry is not None and geometry.base.kind == "volume"


def _described_columns(result, table):
    """Return descriptions of the columns of a table."""
    return {name: describe_column(name, result) for name in table.columns}


# ----------------------------------------------------------------------- what is there


def is_whole(result_path):
    """Tell whether a result and all files with it are there as they were written."""
    record = as_dict(read_json(result_path.with_suffix(".json")))
    files, folder = record.get("Files"), result_path.parent
    names = re.compile(re.escape(result_path.stem.removesuffix("_decoding")) + _ENDS)
    return (
        isinstance(files, dict)
        and all(isinstance(record.get(name), dict) for name in ("Summary", "Options"))
        and record.pop("Checksum", None) == _checksum_of(record)
        and _is_as_written(result_path, record.get("Result"))
        and all(map(names.fullmatch, files))
        and all(_is_as_written(folder / name, known) for name, known in files.items())
    )


def _is_as_written(path, known):
    """Tell whether a file has the content that is known by its checksum."""
    return path.is_file() and checksum(path) == known


def _checksum_of(record):
    """Return a checksum of what a record holds."""
    return sha256(json.dumps(as_json(record), sort_keys=True).encode()).hexdigest()


def _is_plain(path):
    """Tell whether a path is a file, and neither a link nor anything else."""
    return path.is_file() and not path.is_symlink()


def _check_plain(path):
    """Refuse to delete what is no plain file."""
    if os.path.lexists(path) and not _is_plain(path):
        raise ValueError(
            f"{path} would be replaced, but is a link or no file at all. Move it away; "
            "with DataLad, unlock the output first."
        )


# ------------------------------------------------------------- how a result is verified


def verify_command(path, options, of_group=False):
    """Return the command that verifies a result, from the folder of the output."""
    folder = options["output_dir"]
    words = ["mvpa-kfda", "verify", Path(path).relative_to(folder).as_posix()]
    if of_group:
        return shlex.join(words)
    places = {
        "--bids-dir": options["bids_dir"],
        "--derivatives": options["derivatives"],
    }
    places |= {flag: options.get(name) for name, flag in _FILES.items()}
    for flag, place in places.items():
        if place is not None:
            words += [flag, _relative(place, folder)]
    return shlex.join(words)


def _relative(path, folder):
    """Return where something is, as seen from a folder."""
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return Path(os.path.relpath(path, folder)).as_posix()
