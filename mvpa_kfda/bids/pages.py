"""The page about the results of a subject, or of a test of the group."""

import re

from ..reports.html import facts_html
from ..results.load import load_result
from .find import entities_of
from .write import in_place, read_json

#: Facts that the rest of the page has already.
_KNOWN = ("NumberOfTrials", "TrialsPerClass")


def write_page(paths, page, title):
    """Write the page of some results."""
    from ..reports.page import report  # draws

    named = {_word_entities(path): path for path in paths}
    made = report(
        {name: load_result(path) for name, path in named.items()}, None, title
    )
    for name, path in named.items():
        record = read_json(path.with_suffix(".json"))
        trials = record.get("Trials") if isinstance(record, dict) else None
        if isinstance(trials, dict) and trials:
            facts = {
                _word(key): each for key, each in trials.items() if key not in _KNOWN
            }
            heading = "How trials were made" + (f": {name}" if len(named) > 1 else "")
            html = f'<div class="mvpa">{facts_html(facts)}</div>'
            made.add_html(html, title=heading, tags=("trials",))

    def write(draft):
        made.save(draft, open_browser=False, overwrite=True, verbose="error")

    in_place(page, write)


def _facts(path):
    """Return how the trials of a result were made, by names in words."""
    record = read_json(path.with_suffix(".json"))
    trials = record.get("Trials") if isinstance(record, dict) else None
    trials = trials if isinstance(trials, dict) else {}
    return {
        _word(key): value
        for key, value in trials.items()
        if key not in _KNOWN and value not in (None, {}, [])
    }


def _word(key):
    """Word the name of a fact: SliceTimeRef -> Slice time ref."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).split(" ")
    return " ".join([words[0], *(w if w.isupper() else w.lower() for w in words[1:])])


def _word_entities(path):
    """Return what a result is called among those of a subject or group."""
    entities = entities_of(path)
    del entities["suffix"]
    words = [f"{key}-{value}" for key, value in entities.items() if key != "sub"]
    return " ".join(words)
