"""What a verification found, kept in a small JSON file beside that of the result.

It holds the checksum of the file that was verified, and counts for that file only.
"""

import json
from datetime import datetime, timezone
from pathlib import Path

from .. import __version__
from ..utils.files import write_whole
from ..utils.fingerprints import file_checksum

#: What the names of records end in, in place of .h5.
ENDING = ".verified.json"


def record_path(path):
    """Return where the record of a file is."""
    return Path(path).with_suffix(ENDING)


def write_record(path, found):
    """Write what a `Verification` found of the result in a file."""
    path = Path(path)
    record = {
        "file": path.name,
        "sha256": file_checksum(path),
        "ok": found.ok,
        "verdict": found.verdict,
        "n_cells": len(found.cells),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "mvpa_kfda": __version__,
    }
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    target = record_path(path)
    write_whole(target, lambda draft: Path(draft).write_text(text, encoding="utf-8"))
    return target


def read_record(path):
    """Return the record of a file as it is now; None if there is none of it."""
    path = Path(path)
    try:
        record = json.loads(record_path(path).read_text(encoding="utf-8"))
        same = record["sha256"] == file_checksum(path)
        known = {**record, "ok": bool(record["ok"])}
        return known if same and known.keys() >= _KEYS else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


_KEYS = {"ok", "verdict", "date", "mvpa_kfda"}
