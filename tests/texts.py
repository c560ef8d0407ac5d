"""Texts of `methods_text`: whether grammar, citations and references are right."""

import re

from mvpa_kfda import methods_text

#: What no text may have, by what is wrong with it.
WRONG = {
    "two spaces": r"  ",
    "a space before a mark": r" [.,;:)]",
    "a number of one thing in the plural": (
        r"\b1 (?:[\w-]+ )?(?:trial|class|fold|group|permutation|channel|feature|"
        r"time point|voxel|region|subject|flip|sensor|split|value|regressor)(?:s|es)\b"
    ),
    "a number of several in the singular": (
        r"\b(?:[2-9]|\d{2,}) (?:(?:test|training|pseudo)[ -])*(?:trial|fold|group|"
        r"permutation|channel|feature|voxel|region|subject)\b(?! test)"
    ),
    "a value of Python": (
        r"\b(?:None(?! of the)|True|False|nan|NaN|inf|array|dict|lambda)\b"
    ),
    "a name of Python": r"(?<!mvpa)_(?!kfda)|\w\(\w*\)|\w=\w|0x[0-9a-f]+|object at",
    "an empty bracket": r"\(\s*\)|\[\s*\]|\(;|\(,",
    "the wrong article": r"\b[Aa] [aeio]\w|\b[Aa] (?:8|11|18)\b|\b[Aa]n [^aeioRFMLS8]",
    "a word twice": r"\b([A-Za-z]+) \1\b",
    "a small letter at the start": r"(?:^|\n\n|[.] )(?!p-value)[a-z](?!\w* 0)",
    "an end that is missing": r"[^.:]\n\n(?!References)",
    "two marks": r"[.,;]{2}|:[.]|,;",
    "a mark of the text itself": r"\[@|\*\w+\*|[\ue000\ue001{}]",
    "brackets beside brackets": r"\) \(",
}


def check_text(result, **options):
    """Return the plain text of a result, whose grammar and references are right."""
    text = methods_text(result, **options)
    body = text.partition("\n\nReferences")[0]
    # What is short for something has a full stop of its own.
    plain = body.replace("et al.", "et al")
    for what, pattern in WRONG.items():
        for paragraph in plain.split("\n\n"):
            found = re.search(pattern, paragraph + "\n\nReferences")
            assert not found, f"{what}: {found[0]!r} in {paragraph!r}"
    assert body.count("(") == body.count(")")
    assert body.endswith(".")
    entries = text.partition("References\n\n")[2].split("\n\n")
    cited = set(re.findall(r"[(;] ?([^();]+?, (?:19|20)\d\d)", body))
    listed = {short_of(entry) for entry in entries if entry}
    assert cited == listed
    assert entries == sorted(entries, key=lambda entry: entry.lower())
    keys = set(re.findall(r"@\w+\{(\w+),", methods_text(result, "bibtex", **options)))
    assert len(keys) == len(listed)
    markdown = methods_text(result, "markdown", **options)
    assert plain_of(markdown).startswith(body[:200])
    return body


def found_words(marked, n, noun):
    """Return how so many significant ones of n positions are worded."""
    if marked == n:
        return f"All {n:,} {noun}"
    return f"In all, {marked:,} of the {n:,} {noun}"


def short_of(entry):
    """Return how an entry of the list is cited."""
    authors, year = re.match(r"(.*?) \((\d+)\)", entry).groups()
    families = re.findall(r"((?:van der )?[^\s,&][^,&]*), (?:[A-Z]\.[- ]?)+", authors)
    if "et al." in authors or len(families) > 2:
        return f"{families[0]} et al., {year}"
    return f"{' & '.join(families)}, {year}"


def plain_of(markdown):
    """Return Markdown as it is shown."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\*(\w+)\*", r"\1", text)
    return re.sub(r"\\([^\w\s])", r"\1", text)
