"""Input checks at the public edge, and their one wording.

Every message says what was given, what is allowed and what to do. The numeric core
below the public functions trusts its input and checks nothing.
"""

import errno
import glob
import inspect
import math
import os
import re
import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike

from .advice import COMPLEX, advice, described, may_hold_numbers

#: What users may give as a seed, and as the precision to compute in.
Seed = int | np.random.Generator | np.random.RandomState | None
Precision = Literal["float64", "float32"] | DTypeLike


def quoted(values, most=None):
    """Join values for a message, e.g. ``'linear', 'rbf'``; at most so many of them."""
    values = list(values)
    more = ", ..." if most is not None and len(values) > most else ""
    return ", ".join(repr(value) for value in values[:most]) + more


def enumerated(parts, last="and"):
    """Return "a", "a and b" or "a, b, and c"."""
    parts = list(parts)
    if len(parts) < 3:
        return f" {last} ".join(parts)
    return f"{', '.join(parts[:-1])}, {last} {parts[-1]}"


def capital(text):
    """A text with its first letter large."""
    return text[:1].upper() + text[1:]


def some_of(names, most=3):
    """Names, or the first of them and how many more there are."""
    names = list(names)
    if len(names) <= most + 1:
        return enumerated(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


#: Plurals that take more than an "s".
_PLURALS = {"vertex": "vertices", "frequency": "frequencies", "class": "classes"}


def plural(noun, number=2):
    """A noun as it stands after a number, e.g. "folds", but 1 "fold"."""
    if number == 1:
        return noun
    first, of, rest = noun.partition(" of ")  # "pairs of times"
    *words, last = first.split(" ")
    return " ".join([*words, _PLURALS.get(last, f"{last}s")]) + of + rest


def counted(number, noun, form=""):
    """Word a number of things: "1 fold", "12 vertices", or with "," "1,000 folds"."""
    return f"{number:{form}} {plural(noun, number)}"


def ranged(values, noun):
    """Word a number of things, or the smallest and the largest of several numbers."""
    low, high = min(values), max(values)
    return counted(high, noun) if low == high else f"{low} to {counted(high, noun)}"


def times_words(n):
    """Word how often."""
    return {1: "once", 2: "twice"}.get(n, f"{n:,} times")


def word_bytes(size):
    """Word a number of bytes."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:g} bytes"


#: What was warned of since `collected_warnings` began; None outside of it.
_WARNED_OF = ContextVar("warned_of", default=None)


@contextmanager
def collected_warnings():
    """Collect the texts of all warnings that follow, which are given as always."""
    texts, outer = [], _WARNED_OF.get()
    before = _WARNED_OF.set(texts)
    try:
        yield texts
    finally:
        _WARNED_OF.reset(before)
        if outer is not None:
            outer += texts


def keep_warning(text):
    """Let the result of the call in progress keep a warning that was given before."""
    texts = _WARNED_OF.get()
    if texts is not None:
        texts.append(text)


def warn(message, category=RuntimeWarning, of_result=True):
    """Warn at the first caller outside this package, however deep the call is.

    With `of_result` the result of the call in progress keeps the text.
    """
    if of_result:
        keep_warning(str(message))
    package = __name__.partition(".")[0] + "."
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def invalid(name, value, allowed, kind=ValueError, hint=""):
    """The error for a value that is not allowed."""
    return kind(f"Invalid value for {name!r}: {value!r}. Allowed: {allowed}.{hint}")


def did_you_mean(name, known):
    """Ask for the known name that is nearest to an unknown one, in a sentence."""
    folded = {str(each).casefold(): str(each) for each in known}
    near = get_close_matches(str(name).casefold(), folded, n=1)
    return f" Did you mean {folded[near[0]]!r}?" if near else ""


def check_option(name, value, allowed, also=()):
    """A value of `allowed`; `also` words what else the caller takes."""
    try:
        hash(value)  # arrays and lists are no names, even where they equal one
        known = value in allowed
    except (TypeError, ValueError):
        known = False
    if not known:
        raise invalid(name, value, ", ".join(filter(None, [quoted(allowed), *also])))
    return value


#: Items that something without a length may have, as a generator; more may never end.
_MOST_ITEMS = 10_000


def all_items(name, values):
    """The items of an iterable as a list; refuse one that may never end."""
    most = None if hasattr(values, "__len__") else _MOST_ITEMS + 1
    try:
        items = list(islice(values, most))
    except TypeError:  # also of what only says that it can be gone through
        raise TypeError(
            f"Invalid value for {name!r}: {described(values)}. Allowed: a list."
        ) from None
    if most is not None and len(items) == most:
        raise ValueError(
            f"{name} is of type {type(values).__name__} and yields more than "
            f"{_MOST_ITEMS:,} items; it may never end. Pass a list."
        )
    return items


def expand_pattern(pattern, where=""):
    """The path of a file, or the paths in order that a pattern stands for."""
    path = Path(pattern).expanduser()
    refuse_long_name(path)
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    paths = [Path(name) for name in sorted(glob.glob(str(path)))]
    if not paths:
        raise FileNotFoundError(f"No file matches the pattern {str(pattern)!r}{where}.")
    return paths


def read_file(path, name, read, what, errors=Exception):
    """What is read of a file; say which one is not there, or is no `what`."""
    file = Path(path).expanduser()
    given = ("" if name == str(path) else f"{name}: ") + repr(str(file))
    refuse_long_name(file, name)
    if not file.is_file():
        raise FileNotFoundError(f"{given} is no file.")
    try:
        return read(file)
    except errors as error:
        raise ValueError(f"{given} is no {what}: {error}") from error


def name_items(name, items):
    """What to call each of several inputs: its file, or its place in a list."""
    several = len(items) > 1
    return [
        _file_of(item) or (f"{name}[{i}]" if several else name)
        for i, item in enumerate(items)
    ]


def _file_of(item):
    """The file that something is, or was read from; None: no file is known."""
    if isinstance(item, str | os.PathLike):
        return os.fspath(item)
    if callable(found := getattr(item, "get_filename", None)):
        return found()
    attrs = getattr(item, "attrs", None)  # of tables that were read for a call
    return attrs.get("file") if isinstance(attrs, dict) else None


def check_scoring_names(scoring, metrics):
    """The list of metric names, each of them one of `metrics`."""
    names = [scoring] if isinstance(scoring, str) else scoring
    if not isinstance(names, (list, tuple)) or not names:
        allowed = f"a metric's name or a list of names, of {', '.join(metrics)}"
        raise invalid("scoring", scoring, allowed, TypeError)
    for name in names:
        check_option("scoring", name, metrics)
    if len(set(names)) < len(names):
        raise ValueError(f"scoring names a metric twice: {list(names)}.")
    return list(names)


def check_components(n_components, n_classes):
    """A number of discriminants, at most one less than there are classes."""
    n_components = check_count("n_components", n_components, minimum=1)
    if n_components > n_classes - 1:
        allowed = f"at most {n_classes - 1}, one less than the {n_classes} classes in y"
        raise invalid("n_components", n_components, allowed)
    return n_components


#: The largest count that arrays can be told; nobody means more.
_MOST_COUNTED = np.iinfo(np.int64).max


def check_count(name, value, minimum=0, most=_MOST_COUNTED):
    """Return `value` as an int of at least `minimum`."""
    allowed = f"a whole number of at least {minimum}"
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    number = int(value) if whole else None  # NumPy's have a largest value of their own
    if number is None or number < minimum:
        hint = ""
        if isinstance(value, float) and value.is_integer() and value >= minimum:
            short = f"{value:g}"  # such as 1e6
            written = short if float(short) == value else repr(float(value))
            hint = f" This one is a float: write int({written})."
        raise invalid(name, value, allowed, hint=hint)
    if number > most:
        raise invalid(name, value, f"{allowed} and at most {most:,}")
    return number


def check_jobs(n_jobs):
    """A number of workers as joblib takes it."""
    whole = isinstance(n_jobs, Integral) and not isinstance(n_jobs, bool)
    if n_jobs is not None and not (whole and n_jobs != 0):
        allowed = "None, or a whole number other than 0; -1 takes all processors"
        raise invalid("n_jobs", n_jobs, allowed)
    return None if n_jobs is None else int(n_jobs)


def _is_real(value):
    """Whether a value is a real number; True and False are none here."""
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_finite(value):
    """Whether a value is a real number that is finite as a float, however large."""
    try:
        return _is_real(value) and math.isfinite(value)
    except OverflowError:
        return False


def check_positive(name, value, hint="", zero=False):
    """Return `value` as a float above zero, or zero if `zero`."""
    hint = hint or (" Zero is allowed too." if zero else "")
    if not _is_real(value):
        raise TypeError(
            f"Invalid value for {name!r}: {value!r} of type "
            f"{type(value).__name__}. Allowed: a number above zero.{hint}"
        )
    if not (_is_finite(value) and (value > 0 or (zero and value == 0))):
        raise invalid(name, value, "a finite number above zero", hint=hint)
    return float(value)


def check_finite(name, value, hint=""):
    """Return `value` as a finite float."""
    if not _is_finite(value):
        raise invalid(name, value, "a finite number", hint=hint)
    return float(value)


def check_share(name, value, below=1, zero=False, such_as=""):
    """Return `value` as a float above 0, or 0 if `zero`, and below `below`."""
    if not _is_real(value) or not (0 < value < below or (zero and value == 0)):
        least = "of at least 0" if zero else "above 0"
        raise invalid(name, value, f"a number {least} and below {below:g}{such_as}")
    return float(value)


def check_flag(name, value, also=()):
    """A boolean; of anything else nobody knows what is meant."""
    if any(value is known for known in also):
        return value
    if not isinstance(value, bool | np.bool_):
        allowed = "True, False or None" if also else "True or False"
        raise invalid(name, value, allowed, TypeError)
    return bool(value)


def check_text(name, value):
    """A text, or None."""
    if value is not None and not isinstance(value, str):
        raise invalid(name, value, "a text, or None", TypeError)
    if value is not None and re.search("[\ud800-\udfff]", value):
        raise ValueError(
            f"Invalid value for {name!r}: {value!r}, which holds halves of characters "
            "and cannot be drawn."
        )
    return value


def check_path(path, name="path"):
    """A path as text; refuse bytes, numbers and what no file can be called."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise TypeError(
            f"Invalid value for {name!r}: {path!r} of type {type(path).__name__}. "
            "Allowed: the name of a file, as a text or a pathlib.Path."
        )
    try:
        named = text and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # halves of characters
        named = False
    if not named:
        allowed = "a name that a file can have, neither empty nor with NUL characters"
        raise invalid(name, text, allowed)
    refuse_long_name(text, name)
    return text


def refuse_long_name(path, name="path"):
    """Refuse a name that is longer than those of files can be, without printing it."""
    try:
        os.lstat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            text = os.fspath(path)
            raise ValueError(
                f"Invalid value for {name!r}: a name of {len(text):,} characters that "
                f"begins with {text[:20]!r}. Allowed: names as long as the file system "
                "takes, often up to 255 characters for each folder and file."
            ) from None
    except ValueError:  # with NUL, or halves of characters: there is no such file
        return


def check_dtype(dtype):
    """The floating type to compute in: float64 or float32."""
    try:
        name = np.dtype(dtype).name
    except (TypeError, ValueError):
        name = dtype
    return np.dtype(check_option("dtype", name, ("float64", "float32")))


def check_checkpoint(checkpoint):
    """Refuse what is no path, or none that a file can have."""
    if not isinstance(checkpoint, str | os.PathLike | None):
        allowed = "None, or the path of a file"
        raise invalid("checkpoint", checkpoint, allowed, TypeError)
    if checkpoint is not None:
        check_path(checkpoint, "checkpoint")


def check_numbers(X, name, of_complex=""):
    """An array of real numbers of any shape, not copied if it is one.

    `of_complex` says what to do with complex ones.
    """
    if not (isinstance(X, np.ndarray) or may_hold_numbers(X)):
        raise TypeError(
            f"{name} must be an array of numbers; got {described(X)}.{advice(X)}"
        )
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} is a sparse matrix; pass a dense one: X.toarray().")
    rows = X if isinstance(X, list | tuple) else [X]
    if any(np.ma.is_masked(each) for each in rows):
        raise ValueError(
            f"{name} is a masked array with masked values, which cannot be left out "
            "one by one. Drop these trials or features, or fill the values."
        )
    try:
        X = np.asarray(X)
    except ValueError:
        raise ValueError(
            f"{name} is no array: its rows differ in length. All need the same."
        ) from None
    if np.iscomplexobj(X):
        raise ValueError(
            f"{name} holds complex data; real numbers are needed.{of_complex}"
        )
    try:
        # Dates and records become numbers, too, but none that mean anything.
        if X.dtype.kind in "mMV":
            raise ValueError
        return X if X.dtype.kind in "biuf" else X.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be numeric; got dtype {X.dtype}. Convert it, and fill or "
            "drop missing values."
        ) from None


#: What a column of angles may be called, as a word of its own.
_ANGLE = re.compile(
    r"(?i)(?<![a-z])(phase|angle|orientation|direction|azimuth|heading|deg|degrees?)"
    r"(?![a-z])"
)
#: How close to both ends of a turn the extremes of angles come, in mean distances
#: between them, and how many values tell: of a column, and of a matrix, which is only
#: warned of if it can hardly be anything else.
_GAPS, _ENOUGH = (3, 6), (40, 2_000)
#: Which share is in every quarter of a turn, one of which is around both of its ends:
#: there, other values become rare before they end.
_IN_QUARTER = 0.12
#: How far beyond a turn rounding takes angles, in turns.
_BEYOND = 1e-4
#: The same where the name says that they are angles: which share is near each end.
_NEAR_END, _SHARE_NEAR = 1 / 6, 0.03
#: How many values are looked at, and are enough where the name says what they are.
_LOOKED_AT, _ENOUGH_NAMED = 10_000, 20


def angle_unit(values, name=""):
    """The unit of numbers that seem to be angles, by their range; else None.

    They fill one turn up to both of its ends. Of whole numbers, and of degrees, the
    name has to say so too.
    """
    values = np.asarray(values)
    named = bool(_ANGLE.search(name.replace("_", " ")))
    is_matrix = values.size > len(values)
    values = values[:: max(1, values.size // _LOOKED_AT // 100)].ravel()
    # An odd step, which does not stay with some features.
    values = values[:: max(1, len(values) // _LOOKED_AT) | 1]
    enough = _ENOUGH_NAMED if named else _ENOUGH[is_matrix]
    if len(values) < enough or not np.isfinite(values).all():
        return None
    turns = [("radians", 2 * np.pi)] if (values != np.rint(values)).any() else []
    if named:
        turns += [("degrees", 360.0), ("degrees", 180.0)]
    for unit, turn in turns:
        for start in (0.0, -turn / 2):
            at = (values - start) / turn
            if at.min() < -_BEYOND or at.max() > 1 + _BEYOND:
                continue
            if named:
                near = min(np.mean(at <= _NEAR_END), np.mean(at >= 1 - _NEAR_END))
                fills = near > _SHARE_NEAR
            else:
                quarter = (4 * at + 0.5).astype(int) % 4  # the first is at both ends
                in_quarter = np.bincount(quarter, minlength=4) / len(at)
                gap = max(at.min(), 1 - at.max())
                rare = in_quarter.min() < _IN_QUARTER
                fills = gap < _GAPS[is_matrix] / len(at) and not rare
            if fills:
                return unit
    return None


def warn_of_angles(values, name, sines):
    """Warn of what seems to be angles; `sines` says how to take sine and cosine.

    Or nothing, of values that may be predicted as angles.
    """
    unit = angle_unit(values)
    instead = f"Use sine and cosine instead: {sines}" if sines else "Pass circular=True"
    if unit:
        warn(
            f"{name} looks like angles in {unit} and is taken as numbers, for which "
            f"both ends of a turn are far apart. {instead}.",
            UserWarning,
        )


def check_array(X, name="X", ndim=2):
    """A real, finite float64 array with `ndim` dimensions."""
    return check_real(X, name, ndim).astype(np.float64, copy=False)


def check_real(X, name="X", ndim=2):
    """A real, finite array with `ndim` dimensions, in its own type.

    In float64 if numbers of that type need more room than there.
    """
    X = check_numbers(X, name, f" {COMPLEX}")
    if X.dtype.itemsize > 8:
        X = X.astype(np.float64)
    if X.ndim != ndim:
        raise ValueError(
            f"{name} must have {ndim} dimensions, trials first; got {X.ndim}, shape "
            f"{X.shape}.{advice(X)}"
        )
    if X.size == 0:
        raise ValueError(f"{name} is empty: shape {X.shape}.")
    # Extremes take no memory, and are what is not finite if anything is.
    if X.dtype.kind != "f" or np.isfinite([X.min(), X.max()]).all():
        return X
    bad = ~np.isfinite(X)
    trials = np.flatnonzero(bad.reshape(len(X), -1).any(axis=1))
    raise ValueError(
        f"{name} holds {bad.sum()} NaN or infinite values, in {len(trials)} of "
        f"{len(X)} trials (first: {trials[0]}). Drop or repair these trials first."
    )


def check_gram(K):
    """A finite, square, symmetric precomputed kernel matrix."""
    K = check_array(K)
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            "With kernel='precomputed', X must be square, (n_trials, n_trials); "
            f"got {K.shape}."
        )
    check_symmetric(K, "With kernel='precomputed', X")
    return K


def check_symmetric(K, subject):
    """Raise a ValueError unless K is symmetric up to rounding."""
    if not np.allclose(K, K.T, rtol=1e-8, atol=1e-8 * np.abs(K).max()):
        raise ValueError(
            f"{subject} must be a symmetric kernel matrix; the largest difference "
            f"between K and its transpose is {np.abs(K - K.T).max():.3g}."
        )


def check_shape(values, shape, what, mend=""):
    """Refuse an array of another shape; `what` words what it must hold."""
    if values.shape != shape:
        raise ValueError(f"{what}, shape {shape}; got {values.shape}.{mend}")


def _is_missing(value):
    """Whether one value is None, NaN or the NA of a data frame."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA will not say whether it differs from itself
        return True
    except ValueError:  # an array: of the wrong type, but there
        return False


def native(values):
    """An array in the order of bytes of this machine, which pandas needs."""
    if values.dtype.isnative:
        return values
    return values.astype(values.dtype.newbyteorder("="))


def refuse_masked(name, values, n_trials):
    """Refuse masked trials, whose values would be those that the mask hides."""
    if isinstance(values, list | tuple):  # of rows that may be masked
        masked = [bool(np.ma.is_masked(value)) for value in values]
    elif np.ma.is_masked(values):  # also an array of pandas with missing values
        mask = np.atleast_1d(np.ma.getmaskarray(values))
        masked = mask.reshape(len(mask), -1).any(axis=1)
    else:
        return
    if any(masked):
        raise ValueError(
            f"{name} is masked for {np.count_nonzero(masked)} of {n_trials} trials; "
            "drop these trials first."
        )


def trimmed(values):
    """An array (n,) whose texts have no blanks at their ends."""
    if values.dtype.kind not in "UO":
        return values
    given = values.tolist()
    kept = [each.strip() if isinstance(each, str) else each for each in given]
    if all(new is old or new == old for new, old in zip(kept, given, strict=True)):
        return values
    return np.array(kept, dtype=object if values.dtype.kind == "O" else None)


def check_per_trial(values, n_trials, name):
    """A 1-D array with one non-missing value per trial, texts trimmed."""
    return trimmed(_per_trial(values, n_trials, name))


def _per_trial(values, n_trials, name):
    """A 1-D array with one non-missing value per trial, as given."""
    refuse_masked(name, values, n_trials)
    # A list as objects: NaN among strings would become the string 'nan'.
    values = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if values.dtype.kind == "T":  # NumPy's strings of any length
        values = values.astype(object)
    if values.ndim != 1 or len(values) != n_trials:
        raise ValueError(
            f"{name} must hold one value per trial, shape ({n_trials},); got shape "
            f"{values.shape}."
        )
    missing = np.array([_is_missing(value) for value in values], dtype=bool)
    if missing.any():
        raise ValueError(
            f"{name} is missing (None or NaN) for {missing.sum()} of {n_trials} "
            "trials; drop these trials first."
        )
    if values.dtype.kind == "O":  # as one of strings or of numbers
        for kinds in (str, bytes, (Real, np.bool_)):
            if all(isinstance(value, kinds) for value in values):
                values = np.array(values.tolist())
                break
        else:
            types = sorted({type(value).__name__ for value in values})
            raise ValueError(
                f"{name} holds values of type {', '.join(types)}, which cannot be "
                "sorted as labels; use all strings or all numbers."
            )
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise ValueError(
                f"{name} holds bytes that are no UTF-8 text; use strings or numbers."
            ) from None
    return native(values)


def plain_labels(y):
    """Labels as scikit-learn takes them; refuse missing ones."""
    values = y if np.ma.is_masked(y) else None
    if isinstance(y, list | tuple):
        values = np.asarray(y, dtype=object)  # NaN among strings is no text
    elif hasattr(y, "__array__"):
        values = np.asarray(y)
    odd = np.ma.is_masked(y) or (values is not None and values.dtype.kind in "OT")
    if not odd or values.ndim != 1:
        return y
    # Not trimmed: scikit-learn compares predictions with labels as they are given.
    return _per_trial(y, len(y), "y")


def check_labels(y, n_trials):
    """The sorted classes and each trial's integer code into them."""
    y = check_per_trial(y, n_trials, "y")
    whole = y.dtype.kind not in "fc" or np.isfinite(y) & (y == np.rint(y))
    if y.dtype.kind == "c" or not np.all(whole):
        raise ValueError(
            f"y looks continuous ({len(np.unique(y))} distinct values); class "
            "labels are strings, whole numbers or booleans."
        )
    if len(y) == 0:
        raise ValueError("y is empty; decoding needs one label per trial.")
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes[0].item()!r}); decoding needs two "
            "or more."
        )
    if len(classes) == n_trials:
        raise ValueError(
            f"y holds a different label for each of the {n_trials} trials; every "
            "class needs two or more trials."
        )
    return classes, codes.astype(np.intp)


def draw_seed(random_state):
    """A whole number that redraws the same permutations."""
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, Integral):
        return check_count("random_state", random_state, most=math.inf)
    allowed = "None, a whole number, or a NumPy Generator or RandomState"
    raise invalid("random_state", random_state, allowed, TypeError)


def generator(random_state):
    """A random generator of a seed, or the generator itself."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        allowed = "None, a whole number of at least 0 or a numpy.random.Generator"
        raise invalid("random_state", random_state, allowed) from None
