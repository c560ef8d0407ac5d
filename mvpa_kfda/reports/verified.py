"""How a result can be verified, and whether it has been."""

import json
import shlex
from html import escape
from pathlib import Path

from ..results.base import SubjectResult
from ..results.group import GroupResult
from ..verification.verdict import read_record
from .html import paragraph

#: What stands for a file whose name is not known.
_DATA = "DATA"


def verification_html(result, path=None):
    """Return the command that verifies a result, and what it found in a file."""
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
    """Return the command, and where it is to be run."""
    line = _line_of_dataset(path)
    if line is not None:
        return paragraph("In the folder of the output, this command verifies it:") + (
            f"<pre>{escape(line)}</pre>"
        )
    files = [each.rpartition(", ")[0] for each in result.inputs.get("files", ())]
    known = 0 < len(files) == len({*files} - {""})  # "" where there are more
    line = shlex.join(["mvpa-kfda", "verify", path.name])
    line += f" {shlex.join(files) if known else _DATA}"
    more = ""
    if isinstance(result, SubjectResult):
        more = " Labels are given as in the analysis, see mvpa-kfda verify --help."
    return paragraph(f"This command verifies it from the data.{more}") + (
        f"<pre>{escape(line)}</pre>"
    )


def _line_of_dataset(path):
    """Return the command that stands in the file beside a result, if there is one."""
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        line = record["Verify"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return line if isinstance(line, str) else None


def _status(path):
    """Return what was found when the file was verified, as it is now."""
    record = read_record(path)
    if record is None:
        return paragraph(
            "The file as it is has not been verified, or nobody recorded it: with "
            "--record, the command writes what it finds beside the file."
        )
    when = f"Checked on {record['date'][:10]} by mvpa_kfda {record['mvpa_kfda']}: "
    return paragraph(f"{when}{record['verdict']}", "" if record["ok"] else "warning")
