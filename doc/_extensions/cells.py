"""Cells of a notebook in pages: code that runs when the pages are built.

The page shows the code and below it what a notebook would: what is printed, and the
last expression, as the HTML of a result or as a figure. The cells of a page share their
names, and none may warn::

    .. cell::
       :hidden:
       :alt: what a figure shows

       result.plot()

With ``hidden``, the page shows the output only.
"""

import ast
import contextlib
import io
import warnings
from base64 import b64encode
from html import escape

import matplotlib.pyplot as plt
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective


def run_code(code, names):
    """Run code as a notebook does, and return the value of its last expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def draw(figure, alt):
    """Return a figure as an image within HTML."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=90)
    data = b64encode(content.getvalue()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'


class Cell(SphinxDirective):
    """A cell: its code, unless it is hidden, and its output."""

    has_content = True
    option_spec = {"hidden": directives.flag, "alt": directives.unchanged_required}  # noqa: RUF012

    def run(self):
        """Run the code, and return the nodes of the cell."""
        code = "\n".join(self.content)
        names = self.env.temp_data.setdefault("cells", {})
        printed = io.StringIO()
        try:
            with (
                warnings.catch_warnings(),
                contextlib.redirect_stdout(printed),
                contextlib.redirect_stderr(io.StringIO()),  # progress
            ):
                warnings.simplefilter("error")
                html = self.show(run_code(code, names))
        except Exception as error:
            raise self.error(f"The cell failed: {error!r}") from error
        finally:
            plt.close("all")
        parts = []
        if "hidden" not in self.options:
            parts.append(nodes.literal_block(code, code, language="python"))
        if printed.getvalue():
            text = printed.getvalue().rstrip()
            parts.append(nodes.literal_block(text, text, language="none"))
        if html:
            html = f'<div class="cell-output">{html}</div>'
            parts.append(nodes.raw("", html, format="html"))
        return parts

    def show(self, value):
        """Return the HTML of a value, or "" if a notebook would show text."""
        figure = getattr(value, "figure", None)
        if isinstance(figure, plt.Figure):
            return draw(figure, self.options["alt"])
        return value._repr_html_() if hasattr(value, "_repr_html_") else ""


def setup(app):
    """Add the directive ``cell``."""
    app.add_directive("cell", Cell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
