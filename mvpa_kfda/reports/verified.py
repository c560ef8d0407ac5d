"""How a result can be verified, and whether it has been."""

import json
import shlex
from pathlib import Path, PurePosixPath

from ..results.base import SubjectResult
from ..results.group import GroupResult
from ..verification.verdict import read_record
from .html import paragraph, part

#: What stands for a file whose name is not known.
_DATA = "DATA"
#: Options of the command that say where the data of a result are.
_PLACES = ("--bids-dir", "--derivatives", "--mask-img", "--labels-img", "--lut")


def verification_html(result, path=None):
    """The command that verifies a result, and what it found in a file."""
    if not isinstance(result, SubjectResult | GroupResult):
        return ""
    if not result.inputs:
        return paragraph(
            "This result cannot be verified: it does not say of what data it was made."
        )
    if path is None:
        what = "data" if isinstance(result, SubjectResult) else "subjects"
        return paragraph(
            f"In Python, mvpa_kfda.verify(result, {what}) verifies it. A page about "
            "its file says whether that was done."
        )
    return _how(result, Path(path)) + _status(path)


def _how(result, path):
    """The command, and where it is to be run."""
    line = _line_of_dataset(path)
    if line is not None:
        what = "In the folder of the output, this command verifies it:"
        return paragraph(what) + part("code", line)
    files = result.inputs.get("files")
    files = files if isinstance(files, list | tuple) else ()
    names = [str(each).rpartition(", ")[0] for each in files]
    # A name is "" where there are more; a file may say anything.
    known = 0 < len(names) == len({*names}) and all(map(_is_name, names))
    line = shlex.join(["mvpa-kfda", "verify", path.name])
    line += f" {shlex.join(names) if known else _DATA}"
    more = ""
    if isinstance(result, SubjectResult):
        more = " Labels are given as in the analysis, see mvpa-kfda verify --help."
    what = f"This command verifies it from the data.{more}"
    return paragraph(what) + part("code", line)


def _line_of_dataset(path):
    """The command that stands in the file beside a result, if there is one.

    It is put together anew, of the result and the places that it names, which are the
    values of some options; any other text is no command that verifies.
    """
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        program, command, name, *places = shlex.split("".join(record["Verify"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    flags, values = places[::2], places[1::2]
    own = PurePosixPath(path.absolute().as_posix())
    if (
        (program, command) != ("mvpa-kfda", "verify")
        or own.parts[-len(PurePosixPath(name).parts) :] != PurePosixPath(name).parts
        or len(flags) != len(values)
        or not {*flags} <= {*_PLACES}
        or not all(map(_is_name, (name, *values)))
    ):
        return None
    return shlex.join([program, command, name, *places])


def _is_name(text):
    """Whether a text may be the name of a file in a command, and is no option."""
    return bool(text) and not text.startswith("-") and text.isprintable()


def _status(path):
    """What was found when the file was verified, as it is now."""
    try:
        record = read_record(path)
    except ValueError as error:
        words = f"{error} With --record, the command writes what it finds again."
        return paragraph(words, "warning")
    if record is None:
        return paragraph(
            "The file as it is has not been verified, or nobody recorded it: with "
            "--record, the command writes what it finds beside the file."
        )
    when = f"Checked on {record['date'][:10]} by mvpa_kfda {record['mvpa_kfda']}: "
    return paragraph(f"{when}{record['verdict']}", "" if record["ok"] else "warning")
