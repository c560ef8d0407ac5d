"""Results of every kind, pages about them, and what stands on these."""

import base64
import inspect
import io
import re
from functools import cache
from html.parser import HTMLParser

import matplotlib.pyplot as plt

from mvpa_kfda.reports import sections
from mvpa_kfda.reports.html import part
from mvpa_kfda.reports.sections import SECTIONS
from mvpa_kfda.reports.summary import corrections_of
from tests import build

GROUPS = {
    "group": build.group,
    "group of numbers": lambda: build.group("DecodingResult"),
    "group of volumes": lambda: build.group("VolumeResult"),
    "prevalence": lambda: build.group(method="prevalence", n_permutations=999),
    "comparison": build.comparison,
    "latency": build.latency,
}


@cache
def result_of(kind, n_permutations=39, **options):
    """Return a result of a kind, made once."""
    if kind in GROUPS:
        return GROUPS[kind]()
    return build.result(kind, n_permutations=n_permutations, **options)


class Reader(HTMLParser):
    """Reads what the tests ask a page for."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.styles, self.ids, self.texts = [], [], [], []
        self.rows, self.inside = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in ("img", "meta", "input", "hr", "br", "link"):
            self.inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if {"style"} & set(self.inside):
            self.styles.append(data)
        elif "script" not in self.inside:
            self.texts.append(data)
            if {"td", "th"} & set(self.inside):
                self.rows[-1][-1] += data

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())

    @property
    def kinds(self):
        """The names of all tags."""
        return {tag for tag, _ in self.tags}


def read(page, title=None):
    """Read a page, or one of its parts."""
    parts = [each for each in page._content if title in (None, each.name)]
    return Reader("".join(each.html for each in parts))


def read_section(result, title, path=None):
    """Read one section about a result."""
    (section,) = (each for each in SECTIONS if each.title == title)
    return Reader(section.html(result, corrections_of(result), path))


def alternatives_in(reader):
    """Return the words of the figures of pages for those who do not see them."""
    return [attributes["alt"] for tag, attributes in reader.tags if tag == "img"]


def images_in(reader):
    """Return the pixels of the figures of a page, and their alternative texts."""
    images = [attributes for tag, attributes in reader.tags if tag == "img"]
    pixels = []
    for image in images:
        data = image["src"].removeprefix("data:image/png;base64,")
        pixels.append(plt.imread(io.BytesIO(base64.b64decode(data))))
    return pixels, alternatives_in(reader)


def keep_sections(monkeypatch, *titles):
    """Leave out all but some sections of pages."""
    kept = [section for section in SECTIONS if section.title in titles]
    monkeypatch.setattr("mvpa_kfda.reports.page.SECTIONS", kept)


def draw_nothing(monkeypatch, instead=""):
    """Leave out the figures, for tests of what stands beside them."""
    monkeypatch.setattr(sections, "_draw", lambda *plot, **options: instead)


class Blank:
    """A view of nilearn that nothing is drawn in."""

    width = height = 100
    html = "<html><body></body></html>"

    def __init__(self, *positional, **options):
        self.positional, self.options = positional, options

    def resize(self, width, height):
        return self


def draw_words(monkeypatch):
    """Leave out the figures and views, but not the words for who does not see them."""

    def draw(plot, alternative, caption="", **options):
        inspect.signature(plot).bind(**options)
        return part("figure", alternative, 1, "", caption)

    monkeypatch.setattr(sections, "_draw", draw)
    monkeypatch.setattr("nilearn.plotting.view_img", Blank)


#: Attributes by which pages load something, without a click.
LOADING = {"src", "srcset", "data", "poster", "background", "action", "xlink:href"}


def assert_asks_no_host(reader):
    """Assert that a page loads nothing."""
    for tag, attributes in reader.tags:
        for name, value in attributes.items():
            assert name not in LOADING or value.startswith("data:"), (tag, name)
            assert "url(" not in (value or "") or name != "style"
            # Links in text wait for a click.
            assert name != "href" or tag == "a" or value.startswith("#"), tag
    style = "".join(reader.styles)
    assert "@import" not in style
    assert re.findall(r"url\((?!\s*[\"']?(?:data:|#)).{20}", style) == []
