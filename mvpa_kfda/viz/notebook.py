"""What a notebook shows of a result: a small table of facts, and a small figure.

Everything is in one piece of HTML, without scripts, styles or requests of its own.
"""

import warnings
from base64 import b64encode
from html import escape
from io import BytesIO

from .brains import kinds_of
from .style import make_figure

#: Dots per inch of the figure, which make about 500 of its width.
_DPI = 72

#: Names on one line, and words beside the first.
_NAME = "text-align: left; vertical-align: top; white-space: nowrap"
#: Pages may center tables. Those without a doctype draw them in black, even if dark.
_TABLE = "margin-left: 0; color: inherit"


def make_html(result, facts, with_figure=True):
    """The HTML of a result: of the facts, name -> words, and of its figure."""
    rows = "".join(
        f'<tr><th style="{_NAME}">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(words)}</td></tr>'
        for name, words in facts.items()
    )
    title = escape(type(result).__name__)
    picture = _picture(result) if with_figure and _draws_fast(result) else ""
    table = f'<table style="{_TABLE}">{rows}</table>'
    return f"<div><strong>{title}</strong>{table}{picture}</div>"


def _draws_fast(result):
    """Tell figures of a moment from those of brains, which take seconds."""
    return result.geometry is None or kinds_of(result.geometry)[0] == "bar"


def _picture(result):
    """The figure as an image within HTML; "" if there is none."""
    content = BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fonts without some letter
            make_figure(result).savefig(content, format="png", dpi=_DPI)
    except Exception:  # whatever goes wrong in a figure: the facts are worth showing
        return ""
    data = b64encode(content.getvalue()).decode()
    return f'<img alt="{escape(repr(result))}" src="data:image/png;base64,{data}">'
