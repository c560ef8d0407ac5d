"""What a text cites, in three styles; the references are those of `references.bib`.

A text names what it cites by key, ``[@Treder2018]`` or ``[@Treder2018; @Mika1999]``,
marks *p* as shown, and wraps what comes from data, such as the names of classes, with
`name`. All else follows from the style.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from ..utils.checks import check_option

STYLES = ("apa", "markdown", "bibtex")

#: What stands around a name that comes from data; no keyboard has these.
_OPEN, _CLOSE = "\ue000", "\ue001"
_NAME = re.compile(f"{_OPEN}(.*?){_CLOSE}")
_CITED = re.compile(r"\[(@\w+(?:; @\w+)*)\]")
#: Type of an entry -> the field that says where it was published.
_SOURCE = {"article": "journal", "inproceedings": "booktitle", "book": "publisher"}


@dataclass(frozen=True)
class Reference:
    """One work that may be cited."""

    #: Type and text of the entry of BibTeX.
    kind: str
    bibtex: str
    authors: list[str]
    #: Whether there are more authors than those named.
    others: bool
    year: str
    title: str
    source: str
    volume: str = ""
    number: str = ""
    pages: str = ""
    doi: str = ""

    @classmethod
    def of(cls, kind, bibtex):
        """An entry of the file, without what only LaTeX needs."""
        found = re.findall(r"(?m)^  (\w+) = \{(.*)\},$", bibtex)
        plain = {k: re.sub(r"\\([&%$#_])", r"\1", v).strip("{}") for k, v in found}
        plain["source"] = plain.pop(_SOURCE[kind])
        authors = plain.pop("author").split(" and ")
        others = authors[-1] == "others"
        return cls(kind, bibtex, authors[: len(authors) - others], others, **plain)

    @property
    def families(self):
        """The authors as a citation in a text names them."""
        names = [author.partition(",")[0] for author in self.authors]
        if self.others or len(names) > 2:
            return f"{names[0]} et al."
        return " & ".join(names)

    @property
    def url(self):
        """Where the work is found, if it has a DOI."""
        return f"https://doi.org/{self.doi}" if self.doi else ""

    def listed(self, markdown):
        """The entry of a list of references, in the style of the APA."""
        star = "*" if markdown else ""
        *first, last = [*self.authors, "et al."] if self.others else self.authors
        before = ", " if self.others else ", & "
        authors = f"{', '.join(first)}{before}{last}" if first else last
        title, source = self.title, f"{star}{self.source}{star}"
        if self.kind == "book":
            title, source = f"{star}{self.title}{star}", self.source
        elif self.kind == "inproceedings":
            source = f"In {source}"
        issue = f"({self.number})" if self.number else ""
        volume = f"{star}{self.volume}{star}{issue}" if self.volume else ""
        pages = self.pages.replace("--", "\N{EN DASH}")
        where = ", ".join(part for part in (source, volume, pages) if part)
        url = f"<{self.url}>" if self.url and markdown else self.url
        return f"{authors} ({self.year}). {title}. {where}. {url}".rstrip()


#: Key -> what is cited by it.
REFERENCES = {
    key: Reference.of(kind, bibtex)
    for bibtex, kind, key in re.findall(
        r"(?ms)^(@(\w+)\{(\w+),$.*?^\}$)",
        files(__package__).joinpath("references.bib").read_text(encoding="utf-8"),
    )
}


def name(given):
    """A name that comes from data, to be printed as it is, in one line."""
    words = " ".join(str(given).replace(_OPEN, "").replace(_CLOSE, "").split())
    return f"{_OPEN}{words}{_CLOSE}"


def outside_names(text, change, change_name=str):
    """Change a text, and the names in it in another way."""
    parts = _NAME.split(text)
    parts[::2] = map(change, parts[::2])
    parts[1::2] = map(change_name, parts[1::2])
    return "".join(parts)


def cited_in(text):
    """The keys that a text cites, in alphabetical order, which is APA's too."""
    found = _CITED.findall(_NAME.sub("", text))
    return sorted({key.removeprefix("@") for keys in found for key in keys.split("; ")})


def render(paragraphs, style):
    """Paragraphs of marked text in one of the `STYLES`."""
    check_option("style", style, STYLES)
    text = "\n\n".join(paragraphs)
    cited = [REFERENCES[key] for key in cited_in(text)]
    if style == "bibtex":
        return "\n\n".join(reference.bibtex for reference in cited)
    if style == "markdown":
        body = outside_names(text, lambda part: _cite(part, _link), _escaped)
        entries = "\n".join(f"- {reference.listed(True)}" for reference in cited)
        return f"{body}\n\n**References**\n\n{entries}" if cited else body
    body = outside_names(text, lambda part: re.sub(r"\*(\w+)\*", r"\1", _cite(part)))
    entries = ["References", *(r.listed(False) for r in cited)]
    return "\n\n".join([body, *entries]) if cited else body


def _cite(text, word=lambda words, reference: words):
    """Print the citations in a text as (Author, year; Author, year)."""

    def print_one(match):
        keys = sorted(key.removeprefix("@") for key in match[1].split("; "))
        cited = [REFERENCES[key] for key in keys]
        return f"({'; '.join(word(f'{r.families}, {r.year}', r) for r in cited)})"

    # Brackets beside brackets become one pair.
    return _CITED.sub(print_one, text).replace(") (", "; ")


def _link(words, reference):
    """Link words to where a work is found; brackets would end the link."""
    address = reference.url.replace("(", "%28").replace(")", "%29")
    return f"[{words}]({address})" if address else words


def _escaped(name):
    """Escape what means something in Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", name)
