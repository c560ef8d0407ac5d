"""The verdict on a result, and the small JSON file that keeps it beside the result.

It holds the checksum of the file that was verified, and counts for that file only.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime, timezone
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd

from .. import __version__
from ..utils.checks import check_path, counted, enumerated
from ..utils.files import write_text, write_whole
from ..utils.fingerprints import file_checksum
from ..utils.rounding import number
from ..utils.text import templates

#: The columns of a table of cells.
COLUMNS = (
    *("position", "fold", "permutation", "n_trials", "n_differ", "n_ties"),
    *("score", "score_refitted", "ok"),
)
#: What the names of records end in, in place of .h5.
ENDING = ".verified.json"
#: Confidence in the largest share that may differ.
CONFIDENCE = 0.95
#: What a record has to say, and in which types.
_TYPES = {"ok": bool} | dict.fromkeys(("verdict", "date", "mvpa_kfda", "sha256"), str)


@dataclass(frozen=True, repr=False)
class Verification:
    """What :func:`verify` found.

    Parameters
    ----------
    cells : DataFrame
        The cells that were refitted, one in each row: its ``position`` (a number, or
        one along every axis of the map), ``fold`` (or "all"), ``permutation`` (0: the
        observed labels), ``n_trials`` tested, ``n_differ``, how many of their
        predictions differ (not known for permuted labels), ``n_ties``, how many are
        decided by rounding, the ``score`` in the result (of its first metric), the
        ``score_refitted``, and whether everything agrees, ``ok``. Of a group, the
        ``position`` and second-level ``permutation`` (0: the observed scores), the
        statistic in the result as ``score`` (of permutations the most extreme one of
        all positions, with "largest" for a position) and as recomputed,
        ``score_refitted``, the p-value by the first correction and as recomputed,
        ``p`` and ``p_refitted``, and ``ok``.
        Of a null that is kept as a summary, ``position`` "all" is a row of the largest
        score of a permutation, ``permutation`` "all" one of the p-value of a position.
    differences : tuple of str
        What differs, apart from cells: the data, folds, scores.
    unverified : tuple of str
        Why something, or all of it, cannot be verified.
    notes : tuple of str
        What to know of the check.
    samples : tuple of tuple
        For each kind of cell, its name, how many were looked at, and how many there
        are. If not all of them were, the verdict states the largest share that may
        differ with 95 % confidence (hypergeometric).
    recomputed : tuple of int or None
        At how many positions the result was computed again, and how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import cross_validate, verify
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 5)), rng.permutation(np.repeat(["a", "b"], 20))
    >>> found = verify(cross_validate(X, y, cv=5), X, y, n_cells=3)
    >>> found.ok
    True
    >>> found.cells["n_trials"].tolist()[0]
    40
    """

    cells: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=COLUMNS))
    differences: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    samples: tuple[tuple[str, int, int], ...] = ()
    recomputed: tuple[int, int] | None = None

    @property
    def ok(self) -> bool:
        """Whether all was looked at, and everything agrees."""
        return not (self.differences or self.unverified or self.n_differ)

    @property
    def n_differ(self) -> int:
        """How many of the cells differ."""
        return int((~self.cells["ok"].astype(bool)).sum())

    @property
    def verdict(self) -> str:
        """One line that says it."""
        found, n = list(self.differences), len(self.cells)
        what = "refitted" if "fold" in self.cells else "recomputed"
        if self.n_differ:
            found.append(f"{self.n_differ} of {counted(n, f'{what} cell')} differ")
        if found:
            return f"The result does NOT hold: {'; '.join(found)}."
        again = [("position", *self.recomputed)] if self.recomputed else []
        looked_at = ", ".join(
            f"{enumerated([_share(*each) for each in parts])} {done}"
            for parts, done in ((again, "recomputed"), (self.samples, what))
            if parts
        )
        if self.unverified:
            words = (
                f"The result cannot be verified because {'; '.join(self.unverified)}."
            )
            return words + f" What was looked at holds: {looked_at}." * bool(looked_at)
        ties = int(self.cells.get("n_ties", pd.Series(0)).sum())
        also = f" ({counted(ties, 'tie')} within rounding)" if ties else ""
        where = ""
        if self.recomputed and self.recomputed[0] < self.recomputed[1]:
            where = " where it was looked at"
        words = f"The result holds{where}: {looked_at}, all equal{also}."
        if all(drawn == total for _, drawn, total in self.samples):
            return words
        # Which share of each kind of cell may differ all the same.
        shares = [_percent_up(largest_share(*counts)) for _, *counts in self.samples]
        of = "each" if len(shares) > len(set(shares)) == 1 else "them"
        at_most = enumerated(dict.fromkeys(shares) if of == "each" else shares)
        confidence = f"{100 * CONFIDENCE:g} % confidence"
        return f"{words} At {confidence}, at most {at_most} of {of} differ."

    def record(self, fname: str | PathLike[str]) -> None:
        """Write the verdict beside the file of the result, for its report.

        ``result.h5`` gets ``result.verified.json``, with the verdict, the number of
        cells, the date, the version of this package and the SHA-256 of the file. If the
        file changes, its report no longer shows the verdict.

        Parameters
        ----------
        fname : str or path-like
            The file that was verified.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        """
        path = Path(check_path(fname, "fname"))
        record = {
            "file": path.name,
            "sha256": file_checksum(path),
            "ok": self.ok,
            "verdict": self.verdict,
            "n_cells": len(self.cells),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "mvpa_kfda": __version__,
        }
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        write_whole(record_path(path), lambda draft: write_text(draft, text))

    def __str__(self):
        """The verdict."""
        return self.verdict

    def __repr__(self):
        """Say the verdict, and show the table."""
        lines = [self.verdict, *self.notes]
        if len(self.cells):
            lines.append(self.cells.to_string(index=False))
        return "\n".join(lines)

    def _repr_html_(self):
        """Say the verdict, and show the table, in a notebook."""
        table = self.cells.to_html(index=False) if len(self.cells) else ""
        template = templates(Path(__file__).parent).get_template("verdict.html")
        words = {"verdict": self.verdict, "notes": self.notes}
        return template.render(table=table, **words)


def _share(noun, drawn, total):
    """Word how many of something were looked at."""
    share = f"{drawn:,} of " if drawn < total else "all " * (total > 1)
    return f"{share}{counted(total, noun, ',')}"


def largest_share(drawn, total, confidence=CONFIDENCE):
    """The share of cells may differ at most, where none that was drawn does.

    Of `total` cells, `drawn` at random without replacement. The largest number D of
    different ones that a draw would miss with a probability of more than 1 minus the
    confidence, C(total - D, drawn) / C(total, drawn), as a share.
    """
    left = total - np.arange(drawn)  # cells before each is drawn

    def is_missed(n_differ):
        return np.log1p(-n_differ / left).sum() > np.log(1 - confidence)

    least, most = 0, total - drawn  # more than that would have been found
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if is_missed(middle) else (least, middle - 1)
    return least / total


def _percent_up(share):
    """Word a share that is an upper bound: no less than it is, to two digits."""
    step = 10.0 ** (math.floor(math.log10(100 * share)) - 1) if share else 1.0
    return f"{number(math.ceil(100 * share / step - 1e-9) * step)} %"


# ------------------------------------------------------------------- the file beside it


def record_path(path):
    """Where the record of a file is."""
    return Path(path).with_suffix(ENDING)


def read_record(path):
    """The record of a file as it is now; None if there is none of it.

    A ValueError if there is one that nobody can read.
    """
    place = record_path(path)
    if not place.is_file():
        return None
    try:
        record = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ValueError(f"{place.name} cannot be read as JSON.") from None
    record = record if isinstance(record, dict) else {}
    wrong = [n for n, kind in _TYPES.items() if not isinstance(record.get(n), kind)]
    if wrong:
        raise ValueError(
            f"{place.name} is damaged: it does not say {enumerated(wrong, 'or')}."
        )
    return record if record["sha256"] == file_checksum(path) else None
