"""Pages to look at: of each subject, of each test of the group, and one that links all.

The last one has subjects in rows and their analyses side by side.
"""

import re
from pathlib import Path

import numpy as np
from jinja2 import Environment

from ..inference.corrections import CORRECTIONS
from ..reports.html import STYLE, facts_html
from ..utils.checkpoint import digest
from ..utils.checks import counted
from ..utils.files import write_whole
from ..utils.fingerprints import file_checksum
from ..verification.verdict import record_path
from .events import word_runs
from .find import entities_of
from .write import read_json, stem_of, write_about

#: Facts that the rest of the page has already.
_KNOWN = ("NumberOfTrials", "TrialsPerClass")
NAME = "index.html"
#: What a page ends with, before a checksum.
_SEAL = b"\n<!-- checksum "
#: What MNE-BIDS calls datasets that nobody has named.
_UNNAMED = "unspecified"


# ------------------------------------------------------------------------ of results


def write_page(paths, page, title):
    """Write the page of some results; return that it is done, and where it is."""
    from ..reports.page import report  # draws

    named = {_word_pairs(_entities(path).items()): path for path in paths}
    made = report(named, None, title, correction=_corrections_of(paths[0]))
    for name, path in named.items():
        if facts := _facts_of(path):
            heading = "How trials were made" + (f": {name}" if len(named) > 1 else "")
            html = f'<div class="mvpa">{facts_html(facts)}</div>'
            made.add_html(html, title=heading, tags=("trials",))

    def write(draft):
        made.save(draft, open_browser=False, overwrite=True, verbose="error")

    write_whole(page, write, follow=False)
    return "done", str(page)


def _corrections_of(path):
    """The corrections that were asked for, which stand beside a result."""
    options = read_json(path.with_suffix(".json")).get("Options")
    asked = options.get("correction") if isinstance(options, dict) else None
    asked = asked if isinstance(asked, list) else ()
    return [name for name in asked if name in list(CORRECTIONS)] or None  # or of groups


def _facts_of(path):
    """How the trials of a result were made, by names in words."""
    trials = read_json(path.with_suffix(".json")).get("Trials")
    trials = trials if isinstance(trials, dict) else {}
    if "Events" in trials:
        events = trials["Events"] if isinstance(trials["Events"], dict) else {}
        events = {n: each for n, each in events.items() if isinstance(each, dict)}
        trials = trials | {"Events": word_runs(events)}
    facts = {}
    for key, value in trials.items():
        if key not in _KNOWN and value not in (None, {}, []):
            # SliceTimeRef -> Slice time ref
            first, *words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).split(" ")
            words = [word if word.isupper() else word.lower() for word in words]
            facts[" ".join([first, *words])] = value
    return facts


def seal_page(page, paths):
    """Say at the end of a page of which results it is."""
    if page.is_file():
        text = page.read_bytes()
        text += _seal(text, paths)
        write_whole(page, lambda draft: draft.write_bytes(text), follow=False)


def is_of(page, paths):
    """Whether a page is there as it was written, of these very results."""
    if not page.is_file():
        return False
    text, _, last = page.read_bytes().rpartition(_SEAL)
    return _SEAL + last == _seal(text, paths)


def _seal(text, paths):
    """A comment with a checksum of a page and of results and their records."""
    checksums = []
    for path in sorted(paths):
        files = path, path.with_suffix(".json"), record_path(path)
        checksums += [file_checksum(each) for each in files if each.is_file()]
    content = np.frombuffer(text, np.uint8)
    return _SEAL + digest(content, checksums).encode() + b" -->\n"


# ------------------------------------------------------------------------ of all pages


def write_overview(folder, dataset):
    """Write the page of all results in the output; `dataset` is what they are of."""
    name = read_json(dataset / "dataset_description.json").get("Name")
    named = isinstance(name, str) and name.strip("[]").lower() not in ("", _UNNAMED)
    template = Path(__file__).with_name("overview.jinja").read_text(encoding="utf-8")
    page = Environment(autoescape=True).from_string(template)
    constants = {
        "title": f"Decoding of {name if named else dataset.resolve().name}",
        "style": STYLE,
        "folder": folder,
        "counted": counted,
        "none_word": "\N{EN DASH}",
    }

    def word(records):
        group, data = [], {}
        for (subject, pairs, desc), summary in records.items():
            if subject is None:
                pairs = [*pairs, ("desc", desc)]
                link = f"{stem_of('group', dict(pairs))}_report.html"
                group.append((link, _word_pairs(pairs), summary))
            else:
                of_data = data.setdefault(_word_pairs(pairs), {})
                of_data.setdefault(subject, {})[desc] = summary
        tables = [
            (words, sorted(set().union(*each.values())), dict(sorted(each.items())))
            for words, each in data.items()
        ]
        return page.render(group=group, data=tables, **constants)

    write_about(folder / NAME, lambda: _read_records(folder), word)
    return folder / NAME


def _read_records(folder):
    """What is known of every result, by subject, data and analysis."""
    records = {}
    for path in sorted(folder.glob("*/**/*_decoding.json")):
        summary, entities = read_json(path).get("Summary"), _entities(path)
        if isinstance(summary, dict):  # else it is not finished
            subject = entities_of(path).get("sub")
            desc = entities.pop("desc", "")
            records[subject, tuple(entities.items()), desc] = summary
    return records


def _entities(path):
    """What tells a result from others of a subject or group."""
    entities = entities_of(path)
    return {k: v for k, v in entities.items() if k not in ("sub", "suffix")}


def _word_pairs(pairs):
    """Word entities: task-faces desc-time."""
    return " ".join(f"{key}-{value}" for key, value in pairs)
