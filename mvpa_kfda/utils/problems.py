"""What is to be said of a design, by whoever finds it: a warning, or a line of a list.

A problem is worded where it is found, once. A decoding function warns of it;
:func:`mvpa_kfda.check_design` lists it.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from .checks import some_of, warn

#: Where another text of a file stands, "<its name>".
_OTHER = re.compile("<([a-z][^<>]*)>")

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def read_texts(path):
    """The texts of a file by name, each in one line, with fields for what was seen."""
    table = Path(path).read_text(encoding="utf-8")
    found = (each.partition("]\n") for each in table.split("\n\n[")[1:])
    texts = {name: " ".join(text.split()) for name, _, text in found}

    def whole(text):
        return _OTHER.sub(lambda other: whole(texts[other[1]]), text)

    return {name: whole(text) for name, text in texts.items()}


@dataclass(frozen=True)
class Problem:
    """Something about a design that a result has to be read with.

    Parameters
    ----------
    name : str
        One word for it, e.g. "order", "lasting", "absent", "leak" or "few".
    text : str
        What was seen, why it matters and what to do.
    numbers : dict
        What was seen, in numbers.
    severity : "error" | "warning" | "note"
        "error": it cannot be decoded so. "warning": p-values or scores may be wrong.
        "note": worth knowing.
    """

    name: str
    text: str
    numbers: dict = field(default_factory=dict)
    severity: str = "warning"

    def warn(self, category=UserWarning):
        """Warn of it at the first caller outside this package."""
        warn(self.text, category)


def who_was_told(texts, numbers=True):
    """Text -> names of those who were told so, of name -> texts.

    Without `numbers`, the first text stands for those that differ in numbers only.
    """
    first, told = {}, {}
    for name, each in texts.items():
        for text in dict.fromkeys(each):
            key = text if numbers else _NUMBER.sub("#", text)
            names = told.setdefault(first.setdefault(key, text), [])
            names += [name] if name not in names else []
    return told


def word_told(told, n_subjects):
    """Each text once, with how many subjects it was said of, and of which.

    `told` is what `who_was_told` returns.
    """
    texts = []
    for text, names in told.items():
        who = "" if len(names) == n_subjects else f" ({some_of(names, 10)})"
        differ = len(names) > 1 and _NUMBER.search(text) is not None
        note = f" (The numbers are those of {names[0]}.)" if differ else ""
        texts.append(f"{len(names)} of {n_subjects} subjects{who}: {text}{note}")
    return texts
