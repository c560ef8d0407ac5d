"""What the records of subjects have in common, and in what they differ.

Every field that a result records is compared, so that nobody has to think of a new one:
the tables here name what may differ, not what may not.
"""

import numpy as np

from ..utils.checks import some_of, warn
from ..utils.record import as_call, is_record, recorded

#: Fields that may differ without a word: seeds, numerical precision, what was kept of
#: permutations, and what follows from the data or from fields that are compared.
MAY_DIFFER = frozenset(
    {
        *("random_state", "dtype", "null", "exact", "renamings", "selected"),
        *("recorded_order", "n_images", "class_sizes"),
        *("checkpoint", "n_jobs", "verbose"),
    }
)

#: Numbers that make scores more or less precise; they are told, and not warned of.
NUMBERS = (
    *("n_trials", "n_groups", "n_folds", "n_confounds", "n_permutations"),
    *("n_trained", "n_runs", "n_confound_regressors", "n_scans_left_out"),
    *("n_scans", "n_mask_voxels", "n_channels"),
)

#: Fields whose differences are told, and not warned of either.
TOLD = frozenset({"times"})

#: Numbers that differ by less, as a part of the first, are the same.
_SAME = 1e-6

#: Subjects, values of a field, and names of channels that a warning lists.
_NAMED = 3


def _splitter(cv, record):
    """What is recorded of a splitter, but for what may differ."""
    dropped = ("n_splits", "random_state") if isinstance(cv, dict) else ()
    return {k: cv[k] for k in cv if k not in dropped} if dropped else cv


def _confounds(value, record):
    """Return confounds by name, or whether there are some where they have no names."""
    unnamed = [isinstance(each, dict) and each["name"] is None for each in value or ()]
    return value if value and not any(unnamed) else bool(record.get("n_confounds"))


#: Fields whose names users never meet -> what they are called.
_CALLED = {"class_names": "classes", "ch_names": "channels"}

#: Field -> what is compared of it, of its value and of the whole record.
_COMPARED_AS = {
    "cv": _splitter,
    "ch_names": lambda names, record: None if names is None else sorted(names),
    "confounds": _confounds,
    # Metrics beside the first, which is the one that was to be tested, are free.
    "scoring": lambda names, record: names[0] if names else None,
    # The diagonal of such a map is what the same times give by themselves.
    "mode": lambda mode, record: None if mode == "plain" else mode,
}


def record_of(result):
    """Record how a result was made, and the numbers of its trials."""
    record = _flat(result.parameters)
    groups, n_repeats = result.groups, result.parameters.get("n_repeats", 1)
    record["groups"] = groups is not None
    record["class_names"] = list(map(str, result.classes))
    record["n_groups"] = None if groups is None else len(np.unique(groups))
    if record.get("train_on") is None:
        record["n_trials"] = result.n_tested // n_repeats
    if record.get("ch_names") is not None:  # in all, and by type where it is known
        known = result.places.info_fif is not None
        types = result.info.get_channel_types() if known else []
        record["n_channels"] = len(record["ch_names"])
        record |= {f"{kind}.n_channels": types.count(kind) for kind in types}
    return record


def _flat(record, before=""):
    """A record with the fields of nested ones beside the others, "a.b"."""
    fields = {}
    for name, value in record.items():
        if isinstance(value, dict) and not (is_record(value) or "function" in value):
            fields |= _flat(value, f"{before}{name}.")
        else:
            fields[f"{before}{name}"] = value
    return fields


def _compared(record):
    """The fields that have to be the same, as they are compared."""
    free = (*MAY_DIFFER, *NUMBERS)
    names = dict.fromkeys((*record, *_COMPARED_AS))
    as_given = {name: record.get(name) for name in names if _last(name) not in free}
    return as_given | {
        name: convert(as_given[name], record) for name, convert in _COMPARED_AS.items()
    }


def _last(name):
    """The name of a field within the record that holds it."""
    return name.rpartition(".")[2]


def shared(records):
    """The fields that all have alike, and the numbers (S,) of each subject."""
    first, *others = records
    alike = {
        name: value
        for name, value in first.items()
        if all(name in other and is_same(other[name], value) for other in others)
    }
    for name in dict.fromkeys(x for each in records for x in each):
        if _last(name) not in NUMBERS:
            continue
        numbers = [each.get(name) for each in records]
        alike.pop(name, None)
        if None not in numbers:
            alike[name] = numbers
    cv = [_compared(each)["cv"] for each in records]
    if first.get("cv") is not None and all(is_same(each, cv[0]) for each in cv):
        alike["cv"] = cv[0]
    return alike


# ------------------------------------------------------------------------- differences


def differences(records, n_first):
    """Find the fields that some subjects have otherwise than the first of their list.

    Returns field -> what they have in the place of what the first has -> the numbers of
    these subjects.
    """
    found, compared = {}, [_compared(record) for record in records]
    for k, fields in enumerate(compared):
        first = compared[0 if k < n_first else n_first]
        for name in dict.fromkeys((*first, *fields)):
            value, usual = fields.get(name), first.get(name)
            if not is_same(value, usual):
                text = value if name in TOLD else _instead(value, usual)
                found.setdefault(name, {}).setdefault(text, []).append(k)
    return found


def tell_differences(found, names, words):
    """Warn of subjects that were analysed otherwise than the first of their list.

    `words` stand for one subject at the start of a sentence, `names` for several.
    """
    found = {_CALLED.get(x, x): found[x] for x in found if x not in TOLD}
    differing = {k for of in found.values() for who in of.values() for k in who}
    if not differing:
        return
    if len(differing) == 1:
        who = f"{words[differing.pop()]} was"
        told = {field: ", ".join(values) for field, values in found.items()}
    else:
        who = f"{len(differing)} of {len(names)} subjects were"
        told = {field: _by_subject(values, names) for field, values in found.items()}
    fields = ", ".join(f"{field} ({text})" for field, text in told.items())
    warn(
        f"{who} analysed differently from the first: {fields}. If this is not on "
        "purpose, run the analysis again."
    )


def _by_subject(values, names):
    """Word who has what in the place of what the first has."""
    pairs = [
        f"{some_of([names[k] for k in who])}: {value}" for value, who in values.items()
    ]
    more = len(pairs) - _NAMED
    return "; ".join([*pairs[:_NAMED], *([f"and {more} more"] if more > 0 else [])])


def is_same(value, other):
    """Whether two recorded values are the same, but for rounding."""
    pair = value, other
    if all(isinstance(each, float | int | np.number) for each in pair):
        return bool(np.isclose(value, other, rtol=_SAME, atol=0, equal_nan=True))
    if all(isinstance(each, list | tuple | np.ndarray) for each in pair):
        return len(value) == len(other) and all(map(is_same, value, other))
    if all(isinstance(each, dict) for each in pair):
        return value.keys() == other.keys() and all(
            is_same(value[key], other[key]) for key in value
        )
    return _worded(value) == _worded(other)


def _instead(value, usual):
    """Word a value, and what the first has in its place."""
    if _are_names(value) and _are_names(usual) and 0 < len({*value} & {*usual}):
        lost = [name for name in usual if name not in value]
        new = [name for name in value if name not in usual]
        parts = [f"without {some_of(lost)}"] if lost else []
        return " and ".join([*parts, *([f"with {some_of(new)}"] if new else [])])
    return f"{_worded(value)} instead of {_worded(usual)}"


def _are_names(value):
    """Whether a value is a list of names."""
    several = isinstance(value, list | tuple)
    return several and all(isinstance(each, str) for each in value)


def _worded(value):
    """Word a recorded value."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return f"{value:.6g}"
    if _are_names(value):
        return ", ".join(value) or "none"
    return value if isinstance(value, str) else as_call(recorded(value))
