"""Words, numbers, tables and figures as HTML; whatever comes from data is escaped here.

Nothing that is made here asks any host for anything: figures are within the text.
"""

import gzip
import re
from base64 import b64encode
from html import escape
from io import BytesIO
from numbers import Integral, Real

import numpy as np

from ..metrics.names import mean_of_permuted
from ..utils.axes import BY_COLUMN
from ..utils.rounding import brief, p_number, rounded
from ..viz.style import cut_texts, metric_label

#: Dots per inch of figures; they are shown at two thirds of it, and sharp.
_DPI = 144

#: Rows of a table that are shown at most.
MOST_ROWS = 40

#: Values of a long list that are shown at most.
_MOST_VALUES = 12

#: Texts of more letters are given room on phones.
_LONG = 40

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
STYLE = """
.mvpa { max-width: 60rem; overflow-wrap: anywhere; }
.mvpa p { max-width: 45rem; }
.mvpa .table-wrap { overflow-x: auto; margin-bottom: 1rem; }
.mvpa table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal; }
.mvpa th, .mvpa td { padding: .25rem .75rem .25rem 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid #ddd; }
.mvpa tbody th { font-weight: 600; white-space: nowrap; }
.mvpa td.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.mvpa th.number { text-align: right; }
.mvpa .facts td { overflow-wrap: anywhere; }
.mvpa figure { margin: 0 0 1rem; }
.mvpa figure img { max-width: 100%; height: auto; }
.mvpa iframe { max-width: 100%; border: 0; }
.mvpa figcaption { color: #555; font-size: .9rem; max-width: 45rem; }
.mvpa .lead { font-size: 1.1rem; font-weight: 500; }
.mvpa .warning { border-left: .3rem solid #E69F00; padding: .1rem 0 .1rem .75rem; }
.mvpa pre { white-space: pre-wrap; font-size: .8rem; }
.mvpa summary { cursor: pointer; margin-bottom: .5rem; }
.accordion-header .badge { display: none; }
#top-bar .fs-3 { overflow-wrap: anywhere; }
#container { padding-bottom: 1rem; }
footer.mvpa-foot { margin: .75rem 0 1rem 16.67%; padding: 0 1rem; color: #555;
  font-size: .85rem; }
@media (max-width: 767px) {
  #toc, #filter-by-tags-dropdown-menu { display: none; }
  #content { width: 100%; margin-left: 0; padding: 0; }
  #top-bar .fs-3 { font-size: 1.1rem !important; }
  #top-bar .navbar-brand { white-space: normal; }
  .accordion-body { padding: .75rem .5rem; }
  .mvpa tbody th { white-space: normal; }
  .mvpa td.long { min-width: 15rem; }
  footer.mvpa-foot { margin-left: 0; }
}
"""


#: What opens a view: it is unpacked into a frame in the place of its button.
SCRIPT = """
async function openView(button) {
  const packed = atob(button.parentElement.querySelector("script").textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream();
  const unpacked = stream.pipeThrough(new DecompressionStream("gzip"));
  const frame = document.createElement("iframe");
  frame.title = "Interactive view";
  frame.width = button.dataset.width;
  frame.height = button.dataset.height;
  frame.srcdoc = await new Response(unpacked).text();
  button.replaceWith(frame);
}
"""


def paragraph(text, kind=""):
    """Return a text as a paragraph, of a class of the style if one is given."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def folded(title, html):
    """Return HTML that unfolds when its title is clicked on."""
    return f"<details><summary>{escape(title)}</summary>{html}</details>"


def figure_html(figure, alternative, caption=""):
    """Return a matplotlib figure with the text for those who do not see it."""
    cut_texts(figure)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=_DPI)
    width = round(figure.get_figwidth() * _DPI * 2 / 3)
    data = b64encode(content.getvalue()).decode()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><img alt="{escape(alternative)}" width="{width}" '
        f'src="data:image/png;base64,{data}">{below}</figure>'
    )


def view_html(view):
    """Return a button that opens an interactive view of nilearn within the page.

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
    words = f"Open the interactive view ({_megabytes(data)} of this page)"
    size = f'data-width="{view.width}" data-height="{view.height}"'
    return (
        f'<p><button type="button" class="btn btn-outline-primary btn-sm" {size} '
        f'onclick="openView(this)">{words}</button>'
        f'<script type="application/gzip">{data}</script></p>'
    )


def _megabytes(content):
    """Word how long some content is."""
    return f"{rounded(len(content) / 1e6, 1)} MB"


def facts_html(facts):
    """Return a table of facts, name -> value."""
    rows = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(worded(value))}</td></tr>"
        for name, value in facts.items()
    )
    return _wrapped(f'<table class="facts"><tbody>{rows}</tbody></table>')


def table_html(table):
    """Return a table of pandas, with numbers as the field rounds them."""
    table = table.dropna(axis="columns", how="all") if len(table) else table
    numeric = [table[name].dtype.kind in "iuf" for name in table]
    head = _row("th", map(column_label, table), numeric)
    rows = table.head(MOST_ROWS).itertuples(index=False)
    body = "".join(
        _row("td", (_cell(*pair) for pair in zip(table, row, strict=True)), numeric)
        for row in rows
    )
    more = len(table) - MOST_ROWS
    note = paragraph(f"{more} more rows are not shown.") if more > 0 else ""
    whole = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
    return _wrapped(whole) + note


def _wrapped(table):
    """Return a table that scrolls by itself where the page is narrow."""
    return f'<div class="table-wrap">{table}</div>'


def _row(tag, texts, numeric):
    """Return the row of a table; columns of numbers stand to the right."""
    cells = []
    for text, number in zip(texts, numeric, strict=True):
        kind = ' class="number"' if number else ""
        kind = ' class="long"' if len(text) > _LONG else kind
        cells.append(f"<{tag}{kind}>{escape(text)}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"


def column_label(name):
    """Return what a column of a table is called."""
    name = str(name)
    if name.startswith("p_"):
        words = name.removeprefix("p_").replace("majority_", "majority, ")
        return f"p ({words.replace('_', '-')})"
    return _COLUMNS.get(name) or metric_label(name)  # other names are words, too


def _cell(name, value):
    """Word a value of a column."""
    if name == "p" or str(name).startswith("p_"):
        return p_number(value)
    if name in SCORES and np.isfinite(value):
        return rounded(value)
    return worded(value)


def worded(value):
    """Word a value: numbers are rounded, long lists cut short."""
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
