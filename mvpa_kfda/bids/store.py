"""What lies in the output: parts of a run that are there, whole, and of these inputs.

A part is the files of one result, or the images of the trials that it is made of. The
record is the JSON file beside it. It has a digest of all input files, by their content,
and of the options, and checksums of everything that was written. What is there is taken
for done only if all of it is as it was written.
"""

import os
import re
import shlex
from functools import cached_property

import nibabel
import nilearn
import numpy as np
import pandas as pd

from .. import __version__
from ..utils.checkpoint import digest
from ..utils.checks import warn
from ..utils.files import write_json, write_whole
from ..utils.fingerprints import file_checksum as checksum
from ..utils.plain import recorded
from .analyses import unused_options
from .bold import OF_ESTIMATES
from .events import TrialInputs, read_events_tsv
from .find import OF_RESULTS, OF_TRIALS
from .write import (
    about_files,
    describe_column,
    entity_value,
    part_of,
    read_json,
    relative,
    write_table,
)

#: The ends of all names that files of a result may have, behind its stem.
_ENDS = (
    r"_(decoding\.(h5|tsv|json|verified\.json)|peaks\.(tsv|json)"
    r"|stat-[A-Za-z0-9]+_statmap\.(nii\.gz|json))"
)
#: Options on which no number depends; what they choose is in the names of files, or the
#: content of what they name among the inputs.
NOT_OF_RESULTS = (
    *("bids_dir", "output_dir", "derivatives", "participant_label", "session"),
    *("task", "run_label", "space", "datatype", "desc", "n_jobs", "config"),
    *("name", "keep_betas", "dry_run", *OF_TRIALS, *OF_RESULTS),
)
#: Options that trials of images depend on.
_OF_TRIALS = ("by", "regression", "where", "estimate", "max_dropped", *OF_ESTIMATES)
#: The parts of a record of trials that are looked at, and what they are.
_PARTS = {"Checksums": dict, "TextColumns": list, "Trials": dict, "Notes": list}
#: Older pandas reads numbers that differ by so much from those that it wrote.
_ROUNDED = 1e-12


def _short_digest(*content):
    """A digest that fits into the name of a file."""
    return digest(*content).removeprefix("digest:")[:16]


def options_of_results(options):
    """The options on which results depend, as they are recorded.

    Those that were given or have a value of their own; what the others came to is among
    the parameters of the result.
    """
    left_out = {*NOT_OF_RESULTS, *unused_options(options)}
    return recorded(
        {n: v for n, v in options.items() if v is not None and n not in left_out}
    )


def are_as_written(folder, checksums):
    """Whether all files are there with the content that is known by its checksum."""
    return all(
        (folder / name).is_file() and checksum(folder / name) == known
        for name, known in checksums.items()
    )


def is_whole(result_path):
    """Whether a result and all files with it are there as they were written."""
    record = read_json(result_path.with_suffix(".json"))
    files, known = record.get("Files"), record.pop("Checksum", None)
    names = re.compile(re.escape(result_path.stem.removesuffix("_decoding")) + _ENDS)
    return (
        isinstance(files, dict)
        and all(isinstance(record.get(name), dict) for name in ("Summary", "Options"))
        and known == digest(record)
        and all(map(names.fullmatch, files))
        and are_as_written(
            result_path.parent, {result_path.name: record.get("Result")} | files
        )
    )


# ----------------------------------------------------------------------------- results


class Output:
    """The files of one result.

    `inputs` maps the names of files to their checksums, and `page` is where the result
    is shown.
    """

    def __init__(self, folder, stem, inputs, page, options):
        self.folder, self.stem, self.page = folder, stem, page
        self.inputs, self.options = inputs, options_of_results(options)
        self.digest = _short_digest(self.inputs, self.options)
        self.result_path = folder / f"{stem}_decoding.h5"
        self.record_path = folder / f"{stem}_decoding.json"
        self.checkpoint = folder / f".{stem}_{self.digest}.checkpoint"
        self._verify = self._verify_command(options)
        self._old = read_json(self.record_path)
        self._trials, self._result = self._old.get("Trials"), self._old.get("Result")
        self._sources = self._old.get("Sources", [])

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

    @cached_property
    def result_is_there(self):
        """Whether the result is there as it was made of the same inputs and options."""
        known = {self.result_path.name: self._old.get("Result")}
        same = self._old.get("Digest") == self.digest
        return same and are_as_written(self.folder, known)

    @cached_property
    def is_complete(self):
        """Whether nothing is left to do but the page."""
        return self.result_is_there and is_whole(self.result_path)

    def changes(self, config):
        """Word what differs from the result that is there; empty if there is none.

        `config` has what options are called on the command line.
        """
        if not self.result_path.exists():
            return ""
        old, new = part_of(self._old, "Options"), self.options
        names = [
            f"--{config.get(n, [n])[0]}" for n in old | new if old.get(n) != new.get(n)
        ]
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
        """All that is there under names of this result, and its page."""
        names = re.compile(re.escape(self.stem) + _ENDS)
        folder = self.folder.iterdir() if self.folder.is_dir() else ()
        return [*(p for p in folder if names.fullmatch(p.name)), self.page]

    def save(self, result, sources, trials=None):
        """Write a result, after the record of it; `trials` says how they were made."""
        self._sources, self._trials = sources, trials

        def write(draft):
            result.save(draft)
            self._result = checksum(draft)
            self.result_path.unlink(missing_ok=True)
            self._record(result, {}, {})  # without files: there is more to write

        write_whole(self.result_path, write, follow=False)
        self.checkpoint.unlink(missing_ok=True)

    def finish(self, result, corrections, summary):
        """Write tables and maps, and last the record of all files.

        The table has all positions or, of volumes, the peaks.
        """
        tested = [name for name in corrections if name != "none"]
        names, more, geometry = [], {"Summary": summary}, result.geometry
        if geometry is None or geometry.kind != "volume":
            table = result.to_dataframe(tested)
            names = [f"{self.stem}_decoding.tsv"]
            write_table(table, self.folder / names[0])
            more |= {name: describe_column(name, result) for name in table}
        elif result.has_p:
            table, stem = result.peaks(*corrections[:1]), f"{self.stem}_peaks"
            names = [f"{stem}.tsv", f"{stem}.json"]
            write_table(table.round(dict.fromkeys("xyz", 3)), self.folder / names[0])
            words = "Peaks of the positions with p <= 0.05, with the correction "
            about = self._about(result, f"{words}{corrections[0]!r}")
            about |= {name: describe_column(name, result) for name in table}
            write_json(self.folder / names[1], about, follow=False)
        if geometry is not None and geometry.base.kind == "volume":
            names += self._write_maps(result, tested)
        files = {name: checksum(self.folder / name) for name in names}
        self._record(result, files, more)

    def _write_maps(self, result, corrections):
        """Write maps of scores and p-values."""
        maps = {metric: (metric, "none") for metric in result.scalar_metrics}
        if result.has_p:
            maps["p"] = "p", "none"
            maps |= {f"p_{name}": ("p", name) for name in corrections}
            maps["z"] = "z", "none"
        names = []
        for column, (name, correction) in maps.items():
            stem = f"{self.stem}_stat-{entity_value(column)}_statmap"
            image = result.to_img(name, correction=correction)
            write_whole(self.folder / f"{stem}.nii.gz", image.to_filename, follow=False)
            words = describe_column(column, result)["Description"]
            words = "Normal deviate of the p-value" if column == "z" else words
            about = self._about(result, words)
            chance = result.chances.get(name, np.nan)
            if np.isfinite(chance):
                about["Chance"] = float(chance)
                if np.isfinite(permuted := result.permuted_mean(name)):
                    about["PermutedMean"] = permuted
            write_json(self.folder / f"{stem}.json", about, follow=False)
            names += [f"{stem}.nii.gz", f"{stem}.json"]
        return names

    def _record(self, result, files, more):
        """Write the record."""
        about = self._about(
            result, "Result of mvpa_kfda, read by mvpa_kfda.load_result"
        )
        about |= {"Digest": self.digest, "Inputs": self.inputs, "Result": self._result}
        content = recorded(about | {"Files": files} | more)
        content["Checksum"] = digest(content)
        write_json(self.record_path, content, follow=False)

    def _about(self, result, description):
        """What every JSON file says."""
        return {
            "Description": description,
            **about_files(self._sources),
            **({} if self._trials is None else {"Trials": self._trials}),
            "Options": self.options,
            "Parameters": result.parameters,
            "Versions": result.versions,
            "Verify": self._verify,
        }

    def _verify_command(self, options):
        """The command that verifies the result, from the folder of the output."""
        folder = options["output_dir"]
        words = ["mvpa-kfda", "verify", relative(self.result_path, folder)]
        if "analysis" in options:  # else it is a test of the group
            for name in ("bids_dir", "derivatives", *OF_TRIALS, *OF_RESULTS):
                if options.get(name) is not None:
                    flag = f"--{name.replace('_', '-')}"
                    words += [flag, relative(options[name], folder)]
        return shlex.join(words)


def _is_plain(path):
    """Whether a path is a file, and neither a link nor anything else."""
    return path.is_file() and not path.is_symlink()


def _check_plain(path):
    """Refuse to delete what is no plain file."""
    if os.path.lexists(path) and not _is_plain(path):
        raise ValueError(
            f"{path} would be replaced, but is a link or no file at all. Move it away; "
            "with DataLad, unlock the output first."
        )


# ------------------------------------------------------------------------------ trials


class KeptTrials:
    """The images of the trials of a unit, in a folder of the output.

    A series has the name that ``--estimate images`` reads, so that other analyses and
    programs can go on with it.
    """

    def __init__(self, folder, stem, inputs, options):
        self.folder, self.name = folder, f"{stem}_betaseries"
        of_results = options_of_results(options)
        self.options = {n: v for n, v in of_results.items() if n in _OF_TRIALS}
        made_by = [__version__, nilearn.__version__]
        self.digest = _short_digest(made_by, inputs, self.options)

    @cached_property
    def trials(self):
        """The `TrialInputs` that were kept of the same files and options, or None."""
        for path in sorted(self.folder.glob("*_betaseries.json")):
            record = read_json(path)
            named = all(isinstance(record.get(n), kind) for n, kind in _PARTS.items())
            same = named and record.get("Digest") == self.digest
            if same and are_as_written(self.folder, record["Checksums"]):
                name, stem = path.stem, self.folder / path.stem
                return TrialInputs(
                    nibabel.load(f"{stem}.nii.gz"),
                    read_events_tsv(path.with_suffix(".tsv"), record["TextColumns"]),
                    nibabel.load(f"{stem}_mask.nii.gz"),
                    record["Trials"] | {"TrialsFrom": f"{name}.nii.gz"},
                    (*record["Notes"], f"trials from {name}.nii.gz"),
                )
        return None

    def write(self, trials, about):
        """Write trials, their table and mask, and last what they are of."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sidecar = self.folder / f"{self.name}.json"
        sidecar.unlink(missing_ok=True)
        endings = (".nii.gz", ".tsv", "_mask.nii.gz")
        paths = [self.folder / f"{self.name}{ending}" for ending in endings]
        images, table, mask = paths
        write_whole(images, trials.data.to_filename, follow=False)
        write_table(trials.table, table)
        write_whole(mask, trials.mask_img.to_filename, follow=False)
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
        if _same_table(read_events_tsv(table, texts), trials.table):
            record["Digest"] = self.digest
            record["Checksums"] = {path.name: checksum(path) for path in paths}
        else:
            warn(
                f"{table.name} cannot hold the table of events as it is, so that the "
                "images of trials are kept, but will be made anew in other runs."
            )
        write_json(sidecar, record, follow=False)


def _same_table(table, other):
    """Whether tables have the same values, missing ones included."""
    plain = [x.astype(object).where(x.notna(), None) for x in (table, other)]
    try:
        options = {"check_dtype": False, "rtol": _ROUNDED, "atol": 0}
        pd.testing.assert_frame_equal(*plain, **options)
    except AssertionError:
        return False
    return True
