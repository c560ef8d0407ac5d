"""Pages to look at: of each subject, of each test of the group, and one that links all.

The last one has subjects in rows and their analyses side by side.
"""

import re
from hashlib import sha256
from html import escape
from pathlib import Path
from urllib.parse import quote

from ..inference.corrections import CORRECTIONS
from ..reports.html import STYLE, facts_html, paragraph
from ..utils.checks import counted
from ..verification.verdict import record_path
from .fates import word_runs
from .find import entities_of
from .sources import checksum
from .write import as_dict, in_place, read_json, stem_of, write_about

#: Facts that the rest of the page has already.
_KNOWN = ("NumberOfTrials", "TrialsPerClass")
NAME = "index.html"
#: What a page ends with, before a checksum.
_SEAL = b"\n<!-- checksum "
#: What MNE-BIDS calls datasets that nobody has named.
_UNNAMED = "unspecified"
_NONE = "\N{EN DASH}"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}
body {{ font-family: system-ui, sans-serif; margin: 1.5rem; line-height: 1.4; }}
.mvpa {{ max-width: none; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
</style>
</head>
<body class="mvpa">
<h1>{title}</h1>
{body}
</body>
</html>
"""


# ------------------------------------------------------------------------ of results


def write_page(paths, page, title):
    """Write the page of some results."""
    from ..reports.page import report  # draws

    named = {_word_entities(path): path for path in paths}
    made = report(named, None, title, correction=_corrections_of(paths[0]))
    for name, path in named.items():
        if facts := _facts_of(path):
            heading = "How trials were made" + (f": {name}" if len(named) > 1 else "")
            html = f'<div class="mvpa">{facts_html(facts)}</div>'
            made.add_html(html, title=heading, tags=("trials",))

    def write(draft):
        made.save(draft, open_browser=False, overwrite=True, verbose="error")

    in_place(page, write)


def _corrections_of(path):
    """Return the corrections that were asked for, which stand beside a result."""
    record = as_dict(read_json(path.with_suffix(".json")))
    asked = as_dict(record.get("Options")).get("correction")
    asked = asked if isinstance(asked, list) else ()
    return [
        name for name in asked if name in list(CORRECTIONS)
    ] or None  # or of the group


def seal_page(page, paths):
    """Say at the end of a page of which results it is."""
    if page.is_file():
        text = page.read_bytes()
        in_place(page, lambda draft: draft.write_bytes(text + _seal(text, paths)))


def is_of(page, paths):
    """Tell whether a page is there as it was written, of these very results."""
    if not page.is_file():
        return False
    text, _, last = page.read_bytes().rpartition(_SEAL)
    return _SEAL + last == _seal(text, paths)


def _seal(text, paths):
    """Return a comment with a checksum of a page and of results and their records."""
    found = sha256(text)
    for path in sorted(paths):
        own = path, path.with_suffix(".json"), record_path(path)
        there = [each for each in own if each.is_file()]
        found.update("".join(checksum(each) for each in there).encode())
    return _SEAL + found.hexdigest().encode() + b" -->\n"


def _facts_of(path):
    """Return how the trials of a result were made, by names in words."""
    trials = as_dict(as_dict(read_json(path.with_suffix(".json"))).get("Trials"))
    if "Events" in trials:
        events = {n: as_dict(each) for n, each in as_dict(trials["Events"]).items()}
        trials = trials | {"Events": word_runs(events)}
    return {
        _word_fact(key): value
        for key, value in trials.items()
        if key not in _KNOWN and value not in (None, {}, [])
    }


def _word_fact(key):
    """Word the name of a fact: SliceTimeRef -> Slice time ref."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).split(" ")
    return " ".join([words[0], *(w if w.isupper() else w.lower() for w in words[1:])])


def _word_entities(path):
    """Return what a result is called among those of a subject or group."""
    entities = entities_of(path)
    del entities["suffix"]
    words = [f"{key}-{value}" for key, value in entities.items() if key != "sub"]
    return " ".join(words)


# ------------------------------------------------------------------------ of all pages


def write_overview(folder, dataset):
    """Write the page of all results in the output; `dataset` is what they are of."""
    name = as_dict(read_json(dataset / "dataset_description.json")).get("Name")
    named = isinstance(name, str) and name.strip("[]").lower() not in ("", _UNNAMED)
    title = f"Decoding of {name if named else dataset.resolve().name}"

    def word(records):
        parts = [*_of_group(folder, records), *_of_subjects(folder, records)]
        return _PAGE.format(title=escape(title), style=STYLE, body="\n".join(parts))

    write_about(folder / NAME, lambda: _read_records(folder), word)
    return folder / NAME


def _read_records(folder):
    """Return what is known of every result, by subject, data and analysis."""
    records = {}
    for path in sorted(folder.glob("*/**/*_decoding.json")):
        record, entities = as_dict(read_json(path)), entities_of(path)
        summary = record.get("Summary")
        if not isinstance(summary, dict):
            continue  # not finished
        subject, desc = entities.pop("sub", None), entities.pop("desc", "")
        del entities["suffix"]
        records[subject, tuple(entities.items()), desc] = summary
    return records


def _of_group(folder, records):
    """Yield the part about tests of the group."""
    rows = []
    for (subject, data, desc), summary in records.items():
        if subject is None:
            stem = stem_of("group", dict(data) | {"desc": desc})
            words = _linked(folder / f"{stem}_report.html", _word(data, desc))
            rows.append([words, *_facts(summary)])
    if rows:
        yield "<h2>Group</h2>" + _table(["Test", "What was found", "Warnings"], rows)


def _of_subjects(folder, records):
    """Yield a table for each kind of data: subjects in rows, analyses in columns."""
    kept = {key: value for key, value in records.items() if key[0] is not None}
    for data in dict.fromkeys(data for _, data, _ in kept):
        descs = sorted({desc for _, other, desc in kept if other == data})
        subjects = sorted({sub for sub, other, _ in kept if other == data})
        rows = [
            [
                escape(f"sub-{subject}"),
                *(_cell(folder, kept, subject, data, desc) for desc in descs),
            ]
            for subject in subjects
        ]
        yield f"<h2>{_word(data) or 'Subjects'}: {counted(len(rows), 'subject')}</h2>"
        yield paragraph(
            "The highest score of each subject, and the smallest p-value, with the "
            "correction that is named. Each links the page of the analysis."
        )
        yield _table(["Subject", *map(escape, descs)], rows)


def _cell(folder, records, subject, data, desc):
    """Return what one result says, with a link to its page."""
    summary = records.get((subject, data, desc))
    if summary is None:
        return _NONE
    page = folder / f"sub-{subject}_desc-{desc}_report.html"
    found, n_warnings = _facts(summary)
    more = [escape(str(p)) for p in [summary.get("SmallestP")] if p]
    more += [f"{n_warnings} warnings"] if n_warnings else []
    return f"{_linked(page, found)}<br>{'; '.join(more)}"


def _facts(summary):
    """Return what was found and the number of warnings."""
    words = str(summary.get("Found") or _NONE), str(summary.get("Warnings", 0) or "")
    return [*map(escape, words)]


def _word(data, desc=None):
    """Word what data and analysis a result is of."""
    pairs = [*data, *([] if desc is None else [("desc", desc)])]
    return escape(" ".join(f"{key}-{value}" for key, value in pairs))


def _linked(page, html):
    """Return text as a link, if there is the page."""
    if not page.is_file():
        return html
    return f'<a href="{escape(quote(Path(page).name))}">{html}</a>'


def _table(heads, rows):
    """Return a table of cells that are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f'<div class="table-wrap"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
