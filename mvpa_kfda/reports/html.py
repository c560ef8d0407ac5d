"""Words, numbers, tables and figures as HTML; whatever comes from data is escaped here.

Nothing that is made here asks any host for anything: figures are within the text.
"""

import gzip
import re
from base64 import b64encode
from io import BytesIO
from numbers import Integral, Real

import numpy as np

from ..metrics.scores import mean_of_permuted
from ..utils.axes import BY_COLUMN
from ..utils.rounding import brief, p_number, rounded
from ..viz.style import cut_texts, metric_label
from .templating import macro, source

#: Dots per inch of figures; they are shown at two thirds of it, and sharp.
_DPI = 144

#: Rows of a table that are shown at most.
MOST_ROWS = 40

#: Values of a long list that are shown at most.
_MOST_VALUES = 12

#: Bytes of a view that is part of a page, at most.
MOST_BYTES = 3_000_000

#: What nilearn adds to the names of the parts of a view, and its icon.
_RANDOM = re.compile(r"-[0-9a-f]{32}\b")
_ICON = re.compile(r'<link rel="icon"[^>]*>')

#: What stands for a value that is not there.
_NONE = "\N{EN DASH}"

#: Columns of tables -> what they are called, where that is not their name.
_COLUMNS = {
    "n_features": "Features",
    "cluster_size_mm3": "Cluster size (mm³)",
    "p_none": "p",
    "p": "p",
    "n_true": "True, at least",
    "share_true": "Share true, at least",
    **{name: axis.label for name, axis in BY_COLUMN.items() if axis.unit},
    **{axis: f"{axis} (mm)" for axis in "xyz"},
}

#: Columns of scores, which all have as many decimals.
SCORES = ("score", "chance", *map(mean_of_permuted, ("accuracy", "pearsonr")), "mass")

#: How figures, tables and lists of facts look, on paper and on phones.
STYLE = source("page.css")


def part(kind, *values):
    """A part of `page.html`, in which values are escaped unless they are HTML."""
    return macro("page.html", kind)(*values)


def joined(parts):
    """Several parts of a page as one."""
    return part("joined", list(parts))


def paragraph(text, kind=""):
    """A text as a paragraph, of a class of the style if one is given."""
    return part("paragraph", text, kind)


def folded(title, html):
    """HTML that unfolds when its title is clicked on."""
    return part("folded", title, html)


def figure_html(figure, alternative, caption=""):
    """A matplotlib figure with the text for those who do not see it."""
    cut_texts(figure)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=_DPI)
    width = round(figure.get_figwidth() * _DPI * 2 / 3)
    data = b64encode(content.getvalue()).decode()
    return part("figure", alternative, width, data, caption)


def view_html(view):
    """A button that opens an interactive view of nilearn within the page.

    The view is in the page, compressed, and is unpacked when it is asked for. One of
    many megabytes is left out, and its size said.
    """
    # Its icon is on a host, and random names would make every page another one.
    html = _ICON.sub("", _RANDOM.sub("", view.html)).encode()
    data = b64encode(gzip.compress(html, mtime=0)).decode()
    if len(data) > MOST_BYTES:
        return paragraph(
            f"The interactive view of {_megabytes(html)} is left out of this page; "
            "result.view().save_as_html('view.html') writes it into a file of its own."
        )
    return part("view", data, view.width, view.height, _megabytes(data))


def _megabytes(content):
    """How long some content is."""
    return f"{rounded(len(content) / 1e6, 1)} MB"


def facts_html(facts):
    """A table of facts, name -> value."""
    return part("facts", {str(name): worded(value) for name, value in facts.items()})


def table_html(table):
    """A table of pandas, with numbers as the field rounds them."""
    table = table.dropna(axis="columns", how="all") if len(table) else table
    is_number = [table[name].dtype.kind in "iuf" for name in table]
    rows = [
        [_cell(*pair) for pair in zip(table, row, strict=True)]
        for row in table.head(MOST_ROWS).itertuples(index=False)
    ]
    more = len(table) - MOST_ROWS
    return part("table", [*map(column_label, table)], rows, is_number, more)


def column_label(name):
    """What a column of a table is called."""
    name = str(name)
    if name.startswith("p_"):
        words = name.removeprefix("p_").replace("majority_", "majority, ")
        return f"p ({words.replace('_', '-')})"
    return _COLUMNS.get(name) or metric_label(name)  # other names are words, too


def _cell(name, value):
    """A value of a column, in words."""
    if name == "p" or str(name).startswith("p_"):
        return p_number(value)
    if name in SCORES and np.isfinite(value):
        return rounded(value)
    return worded(value)


def worded(value):
    """A value in words: numbers are rounded, long lists cut short."""
    if value is None or (isinstance(value, Real) and np.isnan(value)):
        return _NONE
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, Real):
        return brief(value) if abs(value) >= 0.001 else f"{value:.3g}"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {worded(of)}" for name, of in value.items())
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if isinstance(value, (list, tuple)):
        return _worded_list([worded(each) for each in value])
    return str(value)


def _worded_list(words):
    """Join words; of a long list the first and the last ones."""
    if len(words) > _MOST_VALUES:
        words = [f"{len(words)} values: {words[0]}", words[1], "…", words[-1]]
    return ", ".join(words) or _NONE
