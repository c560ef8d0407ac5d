"""The page that links all pages: subjects in rows, their analyses side by side."""

from html import escape
from pathlib import Path
from urllib.parse import quote

from ..reports.html import STYLE
from .find import entities_of
from .write import in_place, read_json, stem_of

NAME = "index.html"
_NONE = "\N{EN DASH}"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 1.5rem; line-height: 1.4; }}
h1 {{ font-size: 1.5rem; }} h2 {{ font-size: 1.15rem; margin-top: 2rem; }}
{style}
</style>
</head>
<body class="mvpa">
<h1>{title}</h1>
{body}
</body>
</html>
"""


def write_overview(folder, dataset):
    """Write the page of all results in the output; `dataset` is what they are of."""
    records = _read_records(folder)
    described = read_json(dataset / "dataset_description.json")
    name = described.get("Name") if isinstance(described, dict) else None
    title = f"Decoding of {name if isinstance(name, str) and name else dataset.name}"
    parts = [*_of_group(folder, records), *_of_subjects(folder, records)]
    html = _PAGE.format(title=escape(title), style=STYLE, body="\n".join(parts))
    path = folder / NAME
    in_place(path, lambda draft: draft.write_text(html, encoding="utf-8"))
    return path


def _read_records(folder):
    """Return what is known of every result, by subject, data and analysis."""
    records = {}
    for path in sorted(folder.glob("*/**/*_decoding.json")):
        record, entities = read_json(path), entities_of(path)
        summary = record.get("Summary") if isinstance(record, dict) else None
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
        rows = []
        for subject in subjects:
            row = [escape(f"sub-{subject}")]
            for desc in descs:
                summary = kept.get((subject, data, desc))
                page = folder / f"sub-{subject}_desc-{desc}_report.html"
                row += _cells(summary, page)
            rows.append(row)
        heads = [head for desc in descs for head in (desc, "p", "Warnings")]
        counts = [f"{len(subjects)} subject{'s' if len(subjects) != 1 else ''}"]
        yield f"<h2>{_word(data) or 'Subjects'}: {counts[0]}</h2>"
        yield _table(["Subject", *map(escape, heads)], rows)


def _cells(summary, page):
    """Return the cells of one result, which links its page."""
    if summary is None:
        return [_NONE] * 3
    found, *rest = _facts(summary)
    return [_linked(page, found), escape(str(summary.get("SmallestP") or _NONE)), *rest]


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
