"""Words for what an analysis was asked for: kernels, penalties, folds, metrics, tests.

Whatever the package knows by a name has an entry in one of these tables. Results record
kernels, penalties and splitters by the name of their class and their arguments, which
the entries are given.
"""

from __future__ import annotations

from ..kfda.folds import SPLITTERS
from ..metrics.scores import find_metric
from ..utils.checks import enumerated, ranged
from ..utils.plain import is_record
from ..viz.style import channel_label
from .citations import name
from .templating import source

# ------------------------------------------------------------------------- of channels


def channels_words(n, by_type):
    """The channels of a subject or of several, (S,), in all and by their types.

    Types are left out where they are not those of all channels.
    """
    types = [
        ranged(each, label if label.endswith("meter") else f"{label} channel")
        for each, label in zip(
            by_type.values(), map(channel_label, by_type), strict=True
        )
    ]
    if list(map(sum, zip(*by_type.values(), strict=True))) != list(n):
        types = []
    if len(types) == 1:
        return types[0]
    return ranged(n, "channel") + (f" ({enumerated(types)})" if types else "")


# ------------------------------------------------------------------------- of settings

#: Fields of a record that a paper need not say: how the program went about it, and what
#: other sentences say from the data themselves.
NOT_SAID = frozenset(
    {
        # What was kept, and how computed.
        *("null", "selected", "renamings", "recorded_order"),
        # In numbers of trials, folds and permutations, and in the metrics.
        *("n_folds", "n_trained", "n_permutations", "scoring", "class_sizes"),
        # In trials that were averaged, z-scores of voxels, and types of channels.
        *("average_test", "n_images", "ch_names", "channels_left_out"),
    }
)

#: Field of a record -> what it is called where subjects differ in it.
SETTING_WORDS = dict(
    line.split(": ", 1) for line in source("settings.txt").splitlines()
)

# ---------------------------------------------------------------------------- of folds


def splitter_words(recorded, n_folds=None):
    """The words for a recorded splitter, with a number of folds or one per subject."""
    given = recorded if is_record(recorded) else {"name": recorded}
    kind = given["name"]
    if n_folds is None:
        n_folds = given.get("n_splits", [])
    n_folds = [n_folds] if isinstance(n_folds, int) else list(n_folds)
    if kind not in SPLITTERS:
        return f"cross-validation with the splitter {name(kind)}"
    words = SPLITTERS[kind].words(given, n_folds)
    moved = "groups" if "Group" in kind else "trials"
    return f"{words}, {moved} in random order" if given.get("shuffle") else words


# -------------------------------------------------------------------------- of metrics


def metric_words(metric):
    """The long and the short words of a metric; a function has its name."""
    entry = find_metric(metric)
    if entry is None:
        custom = f"custom metric {name(metric)}"
        return f"the {custom}", custom
    return entry.words or entry.label, entry.short or entry.label
