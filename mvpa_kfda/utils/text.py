r"""The way out for text: names of classes, files and regions are not obeyed.

Names come from files of others. What steers a terminal, such as ESC, or turns the order
of letters round, is written as Python writes it, ``\x1b``; and no cell of a table is a
formula that a spreadsheet would run.
"""

import re
import sys

#: Control characters, overrides of direction, invisible tags, half characters.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
#: Formulas that call something; "-1" and "+ face" are none.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20].*[(|!]", re.DOTALL)


def templates(folder, **words):
    """The templates of a folder, which know the words; HTML escapes its values."""
    # jinja2 is what MNE-Python and nilearn use.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FileSystemLoader(folder, encoding="utf-8"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
    )
    made.filters |= words
    made.globals |= words
    return made


def plain_text(text):
    r"""Text with what steers a terminal written out.

    Examples
    --------
    >>> from mvpa_kfda.utils.text import plain_text
    >>> print(plain_text("face\x1b[2J"))
    face\x1b[2J
    """
    return _STEERING.sub(lambda sign: ascii(sign[0])[1:-1], str(text))


def tell(*lines, file=None):
    r"""Print lines, each of them in one line; `file` is the standard output by default.

    Examples
    --------
    >>> from mvpa_kfda.utils.text import tell
    >>> tell("a name\nwith a line break", "the next line")
    a name\nwith a line break
    the next line
    """
    stream = file or sys.stdout
    text = "\n".join(map(plain_text, lines))
    if encoding := getattr(stream, "encoding", None):
        # A pipe on Windows, for one, has not every sign; a result is worth more.
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=stream, flush=True)


def plain_cells(table):
    """A table whose cells steer nothing and are no formulas.

    Formulas get an apostrophe, by which spreadsheets know text.

    Examples
    --------
    >>> import pandas as pd
    >>> from mvpa_kfda.utils.text import plain_cells
    >>> plain_cells(pd.DataFrame({"region": ["V1", "=cmd|'/C calc'!A0", "-1"]}))
                    region
    0                   V1
    1  '=cmd|'/C calc'!A0
    2                   -1
    """
    table = table.rename(columns=_cell)
    for name in table.select_dtypes(exclude=["number", "bool", "datetime"]).columns:
        table[name] = table[name].map(_cell)
    return table


def _cell(value):
    """The value of a cell."""
    if not isinstance(value, str):
        return value
    return f"{chr(39) if _FORMULA.match(value) else ''}{plain_text(value)}"
