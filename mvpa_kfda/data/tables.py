"""Tables in text files as people save them: blanks, encodings, commas for tabs."""

import gzip
import re
from io import StringIO
from pathlib import Path

import pandas as pd

from ..utils.checks import trimmed, warn

#: Byte order marks -> encodings.
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_text_table(path, separator, **options):
    """Return the table in a text file; names and texts have no blanks at their ends.

    `options` are those of pandas. A ValueError if it is no such table.
    """
    text = _read_text(Path(path))
    first = text.partition("\n")[0]
    if separator == "\t":
        if separator not in first and re.search("[,;]", first):
            raise ValueError(
                "its columns are separated by commas or semicolons, those of a .tsv "
                "file must be separated by tabs. Save it with tabs."
            )
        text = re.sub(r" *\t *|^ +| +$", _without_blanks, text, flags=re.MULTILINE)
    return trimmed_table(pd.read_csv(StringIO(text), sep=separator, **options))


def _without_blanks(match):
    """Return the tab in blanks, if there is one."""
    return "\t" if "\t" in match[0] else ""


def _read_text(path):
    """Return the text of a file, also of one that is compressed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    encoding = _MARKS.get(content[:2], "utf-8-sig")
    if encoding == "utf-8-sig" and b"\0" in content:
        raise ValueError("it is no text")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252")  # Latin-1 and what Windows adds; may fail too
    warn(
        f"{path.name} is not in UTF-8 and was read as Latin-1. Check names with "
        "special letters, and save the file as UTF-8."
    )
    return text


def trimmed_table(table):
    """Return a table whose names and texts have no blanks at their ends."""
    names = [name.strip() if isinstance(name, str) else name for name in table]
    table = table.set_axis(names, axis=1)
    for i, dtype in enumerate(table.dtypes):
        if isinstance(dtype, pd.StringDtype) or pd.api.types.is_object_dtype(dtype):
            given = table.iloc[:, i].to_numpy(object)
            if (kept := trimmed(given)) is not given:
                table.isetitem(i, pd.Series(kept, table.index, dtype=dtype))
    return table
