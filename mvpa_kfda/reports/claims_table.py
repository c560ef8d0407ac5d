"""The table of claims, which shows its sentences whole."""

from textwrap import fill

import pandas as pd

#: The columns that lead a row, that hold its sentence, and that follow.
_LEADING, _SENTENCES = ("result", "claim"), ("statement", "missing")
_FOLLOWING = ("confidence", "method", "source")


class ClaimsTable(pd.DataFrame):
    """A DataFrame of claims; what is selected from it is a plain one."""

    @property
    def _constructor(self):
        """What selections are made of."""
        return pd.DataFrame

    def __repr__(self):
        """Write each claim as a paragraph, since columns would cut the sentences."""
        if not {"claim", *_SENTENCES, *_FOLLOWING} <= set(self):  # edited in place
            return super().__repr__()
        rows = self.to_dict("records")
        leads = [", ".join(str(row[k]) for k in _LEADING if k in row) for row in rows]
        width = max(map(len, leads), default=0) + 2
        how = {"width": width + 68, "subsequent_indent": " " * width}
        lines = []
        for lead, row in zip(leads, rows, strict=True):
            words = row["statement"] or f"Not supported. {row['missing']}"
            if row["statement"]:
                share = row["confidence"]
                parts = [] if pd.isna(share) else [f"{100 * share:g} % confidence"]
                parts += [row[key] for key in _FOLLOWING[1:] if row[key]]
                words += f" ({'; '.join(parts)})"
            start = lead.ljust(width)
            lines.append(
                fill(words, initial_indent=start, break_on_hyphens=False, **how)
            )
        return "\n".join(lines)

    __str__ = __repr__

    def _repr_html_(self):
        """Show the table in a notebook, with whole sentences."""
        with pd.option_context("display.max_colwidth", None):
            return super()._repr_html_()
