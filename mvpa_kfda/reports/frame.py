"""The frame of a page: that of MNE-Python's reports, with our own head and foot."""

import re
import time
import webbrowser
from pathlib import Path

import mne

from .. import __version__
from ..utils.files import write_text, write_whole
from .html import STYLE, part
from .templating import source

#: The logo of MNE-Python in a page's head.
_LOGO = re.compile(r'\s*<img src="data:image/png;base64,[^"]*" alt="MNE"[^>]*>')


class Page(mne.Report):
    """An MNE-Python report that says who made it.

    Pages are about decoding, of brain images as well, and are not MNE-Python's. It
    lends them their layout, for which it is named below them.

    Parameters
    ----------
    title : str
        Title of the page.
    """

    def __init__(self, title):
        super().__init__(title=title, image_format="png", verbose="error")
        self.include = f"{self.include}{part('for_phones')}"  # + would escape it
        self.add_custom_css(STYLE)
        self.add_custom_js(source("page.js"))

    def save(
        self, fname=None, open_browser=True, overwrite=False, sort_content=False, **more
    ):
        """Save the page, see :meth:`mne.Report.save`."""
        written = super().save(fname, False, overwrite, sort_content, **more)
        path = Path(written)
        if path.suffix.lower() in (".html", ".htm"):
            html = path.read_text(encoding="utf-8")
            page = framed(html)
            write_whole(path, lambda draft: write_text(draft, page))
            if open_browser:
                webbrowser.open_new_tab(path.as_uri())
        return written


def framed(html):
    """A page of MNE-Python with our own head and foot."""
    content, _, foot = _LOGO.sub("", html, count=1).rpartition("<footer>")
    end = foot.partition("</footer>")[2]
    date = time.strftime("%Y-%m-%d %H:%M")
    foot = part("foot", date, __version__, mne.__version__)
    return f"{content}{foot}{end}"
