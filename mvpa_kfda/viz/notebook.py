"""What a notebook shows of a result: a small table of facts, and a small figure.

Everything is in one piece of HTML, without scripts, styles or requests of its own.
"""

import warnings
from base64 import b64encode
from io import BytesIO
from pathlib import Path

from ..utils.text import templates
from .brains import kinds_of
from .style import make_figure

#: Dots per inch of the figure, which make about 500 of its width.
_DPI = 72


def make_html(result, facts, with_figure=True):
    """The HTML of a result: of the facts, name -> words, and of its figure."""
    # Those of brains take seconds.
    is_fast = result.geometry is None or kinds_of(result.geometry)[0] == "bar"
    picture = _picture(result) if with_figure and is_fast else ""
    values = {"facts": facts, "picture": picture, "alt": repr(result)}
    return html_of("notebook.html", title=type(result).__name__, **values)


def html_of(template, **values):
    """The HTML of a template of this room, in which values are escaped."""
    return templates(Path(__file__).parent).get_template(template).render(**values)


def _picture(result):
    """The figure as an image within HTML; "" if there is none."""
    content = BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of fonts without some letter
            make_figure(result).savefig(content, format="png", dpi=_DPI)
    except Exception:  # whatever goes wrong in a figure: the facts are worth showing
        return ""
    return b64encode(content.getvalue()).decode()
