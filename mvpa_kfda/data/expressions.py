"""Expressions on the columns of a table: which trials to choose, and their labels.

``rt > rt.median() and trial_type.str.startswith('face')`` means what it means to
`pandas.DataFrame.eval`. But expressions may come from a file that somebody else wrote,
and pandas evaluates what can read and write files and start programs. Here the text is
parsed, and only what is listed below is evaluated; everything else is refused by name,
and so is what would take too much time or memory.
"""

import ast
import operator
import re
import warnings
from functools import reduce

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from ..utils.checks import quoted

#: The longest text, and how deep it may be nested.
MAX_LENGTH, MAX_DEPTH = 20_000, 100
#: The most characters that a step may make, and steps that a pattern may take.
MAX_TEXT, MAX_STEPS = 10**8, 10**9

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
#: Functions of numbers, as pandas has them.
_FUNCTIONS = {
    name: getattr(np, name) for name in "abs ceil exp floor log log10 sqrt".split()
}
#: Methods of a column, and the names of their arguments.
_METHODS = {
    "isin": "values",
    **dict.fromkeys(("isna", "isnull", "notna", "notnull"), ""),
    "between": "left right inclusive",
    "fillna": "value",
    "where": "cond other",
    "mask": "cond other",
    "map": "arg",
    "replace": "to_replace value",
    "astype": "dtype",
    "duplicated": "keep",
    "shift": "periods",
    "nunique": "",
    "min": "",
    "max": "",
}
#: The same of columns of numbers alone.
_OF_NUMBERS = {
    "abs": "",
    "round": "decimals",
    "clip": "lower upper",
    "diff": "periods",
    "cumsum": "",
    "rank": "",
    "quantile": "q",
    **dict.fromkeys(("mean", "median", "sum"), ""),
    **dict.fromkeys(("std", "var"), "ddof"),
}
_TYPES = ("str", "int", "float", "bool")
#: Those of ``.str`` whose first argument is a pattern, and all others.
_PATTERNS = {
    **dict.fromkeys(("contains", "match", "fullmatch"), "pat case na regex"),
    "count": "pat",
    "extract": "pat expand",
    "findall": "pat",
    "replace": "pat repl n case regex",
    "split": "pat n regex",
}
_TEXT = {
    **_PATTERNS,
    **dict.fromkeys(("startswith", "endswith"), "pat na"),
    **dict.fromkeys(("strip", "lstrip", "rstrip"), "to_strip"),
    **dict.fromkeys("capitalize casefold lower swapcase title upper len".split(), ""),
    **{f"is{kind}": "" for kind in "alnum alpha decimal digit lower upper".split()},
    **dict.fromkeys(("isnumeric", "isspace", "istitle"), ""),
    **dict.fromkeys(("find", "rfind"), "sub start end"),
    "get": "i",
    "join": "sep",
    "removeprefix": "prefix",
    "removesuffix": "suffix",
    "rsplit": "pat n",
    "slice": "start stop step",
    "zfill": "width",
}
#: Where strings end, names in backticks, and signs that mean something else to Python.
_PIECES = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`(?P<name>[^`]*)`|(?P<sign>[&|@#])"""
)
_SIGNS = {"&": " and ", "|": " or "}
_REFUSED = {
    ast.Lambda: "lambda",
    ast.IfExp: "if ... else",
    ast.NamedExpr: ":=",
    ast.JoinedStr: "f'...'",
    ast.Starred: "*",
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), "for ... in"
    ),
}
_ALLOWED = (
    "Allowed are columns (in backticks if the name is no plain word), numbers, texts, "
    "comparisons, in, and, or, not, arithmetic, and methods of columns such as isin, "
    "notna, median and .str.startswith."
)


class ExpressionError(ValueError):
    """What is wrong with an expression; the text ends with a full stop."""


def evaluate_expression(table, text):
    """Return what an expression makes of the columns of a table, mostly a Series.

    Parameters
    ----------
    table : DataFrame
        The columns that names stand for. It is not changed.
    text : str
        The expression.

    Returns
    -------
    value : Series | scalar | list
        What the expression is.

    Raises
    ------
    ExpressionError
        If the text is no such expression, holds what is not allowed, or takes too much.

    Examples
    --------
    >>> import pandas as pd
    >>> from mvpa_kfda.data.expressions import evaluate_expression
    >>> table = pd.DataFrame({"rt": [0.4, 0.7], "shown": ["face/a", "house/b"]})
    >>> evaluate_expression(table, "shown.str.split('/').str[0]").tolist()
    ['face', 'house']
    >>> evaluate_expression(table, "rt.to_csv('rt.csv')")
    Traceback (most recent call last):
    ...
    mvpa_kfda.data.expressions.ExpressionError: '.to_csv' is not allowed. Allowed ...
    """
    tree, names = _parse(text)
    try:
        with np.errstate(all="ignore"):
            return _Evaluation(table, names).value(tree)
    except ExpressionError:
        raise
    except Exception as error:  # pandas raises anything
        words = str(error).rstrip(".") or type(error).__name__
        raise ExpressionError(f"{words}.") from error


def _parse(text):
    """Return the tree of an expression, and the columns of names in backticks."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"It has {len(text)} characters; {MAX_LENGTH} may be.")
    stem = "column"
    while stem in text:
        stem += "_"
    names = {}

    def replaced(piece):
        if piece["text"] is not None:
            return piece["text"]
        if piece["name"] is not None:
            name = f"{stem}{len(names)}"
            names[name] = piece["name"]
            return f" {name} "
        if piece["sign"] not in _SIGNS:
            raise _refusal(piece["sign"])
        return _SIGNS[piece["sign"]]

    plain = _PIECES.sub(replaced, text).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\\d" in a pattern is no mistake
            tree = ast.parse(plain.replace("\n", " "), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        words = getattr(error, "msg", None) or str(error) or "too deeply nested"
        raise ExpressionError(f"It cannot be read ({words}).") from error
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [part for node in level for part in ast.iter_child_nodes(node)]
    if level:
        raise ExpressionError(f"It is nested more than {MAX_DEPTH} deep.")
    return tree, names


def _refusal(what):
    """Return the error for what is no part of the grammar."""
    return ExpressionError(f"{what!r} is not allowed. {_ALLOWED}")


class _Evaluation:
    """Expressions of a table, part by part: a method for each kind of node."""

    def __init__(self, table, names):
        self.table, self.names = table, names

    def value(self, node):
        """Return the value of a part."""
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            raise _refusal(_REFUSED.get(type(node), ast.unparse(node)[:80]))
        return method(node)

    def of_Constant(self, node):
        """Return a number, a text, or a truth value."""
        if not isinstance(node.value, bool | int | float | str):
            hint = " Use .isna() or .notna()." if node.value is None else ""
            raise ExpressionError(f"{node.value!r} is not allowed.{hint}")
        return _check_number(node.value)

    def of_Name(self, node):
        """Return a column."""
        name = self.names.get(node.id, node.id)
        if name not in self.table.columns:
            raise ExpressionError(f"There is no column {name!r}.")
        column = self.table[name]
        if not isinstance(column, pd.Series):
            raise ExpressionError(f"There are several columns {name!r}.")
        return column

    def of_List(self, node):
        """Return a list of single values."""
        values = [self.value(part) for part in node.elts]
        if any(isinstance(value, pd.Series | list | dict) for value in values):
            raise ExpressionError("A list holds single values alone.")
        return values

    of_Tuple = of_Set = of_List

    def of_Dict(self, node):
        """Return what values are replaced by."""
        if None in node.keys:
            raise _refusal("**")
        keys, values = (self.of_List(ast.List(p)) for p in (node.keys, node.values))
        return dict(zip(keys, values, strict=True))

    def of_UnaryOp(self, node):
        """Return a number with another sign, or the contrary of a truth value."""
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not | ast.Invert):
            value = _truth(value)
            return ~value if isinstance(value, pd.Series) else not value
        _check_numeric(value, "-")
        return -value if isinstance(node.op, ast.USub) else +value

    def of_BoolOp(self, node):
        """Return whether all are true, or any."""
        both = operator.and_ if isinstance(node.op, ast.And) else operator.or_
        return reduce(both, [_truth(self.value(part)) for part in node.values])

    def of_BinOp(self, node):
        """Return what arithmetic makes of two values."""
        if type(node.op) not in _ARITHMETIC:
            raise _refusal(ast.unparse(node)[:80])
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Add) and _is_text(left) and _is_text(right):
            _check_size(_n_characters(left, right) + _n_characters(right, left))
            return left + right
        for value in (left, right):
            _check_numeric(value, ast.unparse(node)[:80])
        if isinstance(node.op, ast.Pow):
            _check_power(left, right)
        return _check_number(_ARITHMETIC[type(node.op)](left, right))

    def of_Compare(self, node):
        """Return whether all comparisons of a chain hold."""
        values = [self.value(part) for part in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        return reduce(operator.and_, [_compare(*pair) for pair in pairs])

    def of_Call(self, node):
        """Return what a function, or a method of a column, makes of its arguments."""
        if any(keyword.arg is None for keyword in node.keywords):
            raise _refusal("**")
        given = [self.value(part) for part in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            if node.func.id not in _FUNCTIONS:
                raise _refusal(f"{node.func.id}()")
            if named or len(given) != 1:
                raise ExpressionError(f"{node.func.id}() takes one argument.")
            _check_numeric(given[0], node.func.id)
            return _FUNCTIONS[node.func.id](given[0])
        if not isinstance(node.func, ast.Attribute):
            raise _refusal(ast.unparse(node)[:80])
        name, owner = node.func.attr, node.func.value
        if _is_str(owner):
            return _call_text(self._column(owner.value, ".str"), name, given, named)
        return _call(self._column(owner, f".{name}"), name, given, named)

    def of_Attribute(self, node):
        """Refuse all that is no call."""
        raise _refusal(f".{node.attr}")

    def of_Subscript(self, node):
        """Return a character, or an item of a list, of each cell."""
        if not _is_str(node.value):
            raise _refusal("[...]")
        column = self._column(node.value.value, ".str")
        place = node.slice
        if isinstance(place, ast.Slice):
            ends = (place.lower, place.upper, place.step)
            return column.str[slice(*(e and _whole(self.value(e)) for e in ends))]
        return column.str[_whole(self.value(place))]

    def _column(self, node, method):
        """Return a value that must be a column, the owner of a method."""
        name = method.removeprefix(".")
        if name != "str" and name not in _METHODS and name not in _OF_NUMBERS:
            raise _refusal(method)
        value = self.value(node)
        if not isinstance(value, pd.Series):
            raise ExpressionError(f"{method} is asked of what is no column.")
        return value


def _is_str(node):
    """Tell whether a part is ``.str`` of something."""
    return isinstance(node, ast.Attribute) and node.attr == "str"


def _is_text(value):
    """Tell whether a value is a text, or a column of anything but numbers."""
    if isinstance(value, pd.Series):
        return value.dtype == object or isinstance(value.dtype, pd.StringDtype)
    return isinstance(value, str)


def _whole(value):
    """Return a whole number."""
    if not isinstance(value, int):
        raise ExpressionError(f"[{value!r}] must be a whole number.")
    return value


def _truth(value):
    """Return truth values, which may be missing."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, pd.Series) and is_bool_dtype(value.dtype):
        return value
    if isinstance(value, pd.Series) and value.dtype == object:
        if value.dropna().isin([True, False]).all():
            return value.where(value.notna(), None).astype("boolean")
    raise ExpressionError(
        "and, or and not join what is true or false. Compare, e.g. rt > 0."
    )


def _compare(how, left, right):
    """Return whether one comparison holds."""
    if isinstance(how, ast.In | ast.NotIn) or (
        isinstance(how, ast.Eq | ast.NotEq) and isinstance(right, list)
    ):
        if not isinstance(left, pd.Series) or not isinstance(right, pd.Series | list):
            raise ExpressionError("in has a column before it and a list behind it.")
        found = left.isin(right)
        return ~found if isinstance(how, ast.NotIn | ast.NotEq) else found
    if type(how) not in _COMPARISONS:
        raise _refusal("is")
    if isinstance(left, list | dict) or isinstance(right, list | dict):
        raise ExpressionError("Columns and single values are compared, not lists.")
    return _COMPARISONS[type(how)](left, right)


def _check_numeric(value, where):
    """Refuse arithmetic with anything but numbers, truth values and times."""
    kind = getattr(value, "dtype", None)
    allowed = isinstance(value, bool | int | float | np.generic | pd.Timestamp)
    if isinstance(value, pd.Series):
        allowed = is_numeric_dtype(kind) or kind.kind in "mM"
    if not allowed:
        what = f"a column of {kind}" if kind is not None else type(value).__name__
        raise ExpressionError(f"{where}: arithmetic needs numbers; got {what}.")


def _check_number(value):
    """Return a value; whole numbers of more than 64 bits are refused."""
    if isinstance(value, int) and value.bit_length() > 64:
        raise ExpressionError("A number is larger than 64 bits.")
    return value


def _check_power(left, right):
    """Refuse powers of whole numbers that Python writes out, and NumPy cuts off."""
    parts = [
        value if isinstance(value, pd.Series) else pd.Series([value])
        for value in (left, right)
    ]
    if any(part.dtype.kind not in "iu" for part in parts):
        return
    base, exponent = (np.float64(part.abs().max()) for part in parts)
    if not base**exponent < 2.0**63:
        raise ExpressionError("A power is larger than 64 bits.")


def _n_characters(value, beside=None):
    """Return how many characters a text has, repeated for a column beside it."""
    if isinstance(value, str):
        return len(value) * (len(beside) if isinstance(beside, pd.Series) else 1)
    lengths = value.str.len() if len(value) and _is_text(value) else pd.Series([0])
    return int(lengths.fillna(0).sum())


def _longest(values):
    """Return the length of the longest text, also in lists and dicts."""
    lengths = [0]
    for value in values:
        if isinstance(value, str):
            lengths.append(len(value))
        elif isinstance(value, list | dict):
            parts = value if isinstance(value, list) else value.values()
            lengths.append(_longest(parts))
    return max(lengths)


def _check_size(n):
    """Refuse steps that make too much text."""
    if n > MAX_TEXT:
        raise ExpressionError(f"It makes more than {MAX_TEXT} characters of text.")


def _check_arguments(name, allowed, given, named, positional=3):
    """Refuse arguments by unknown names, and more than there are."""
    allowed = allowed.split()
    unknown = [key for key in named if key not in allowed]
    if unknown:
        raise _refusal(f".{name}({unknown[0]}=)")
    if len(given) > min(positional, len(allowed)):
        raise ExpressionError(f".{name} takes fewer arguments than {len(given)}.")


def _call(column, name, given, named):
    """Return what a method makes of a column."""
    if name in _OF_NUMBERS:
        _check_numeric(column, f".{name}")
    allowed = {**_METHODS, **_OF_NUMBERS}[name]
    _check_arguments(name, allowed, given, named)
    _check_size(len(column) * _longest([*given, *named.values()]))
    if name == "astype" and [*given, *named.values()] not in [[t] for t in _TYPES]:
        raise ExpressionError(f".astype takes one of {quoted(_TYPES)}.")
    return getattr(column, name)(*given, **named)


def _call_text(column, name, given, named):
    """Return what a method of texts makes of a column, if it is cheap."""
    if name not in _TEXT:
        raise _refusal(f".str.{name}")
    _check_arguments(f"str.{name}", _TEXT[name], given, named, 2)
    values = [*given, *named.values()]
    if not all(isinstance(value, bool | int | float | str) for value in values):
        raise ExpressionError(f".str.{name} takes texts and numbers.")
    if name in _PATTERNS:
        _check_pattern(column, named.get("pat", given[0] if given else ""))
    if name in ("replace", "join"):
        _check_size((_n_characters(column) + len(column)) * (_longest(values) + 1))
    if name == "zfill":
        _check_size(len(column) * max([0, *(v for v in values if v == v)]))
    found = getattr(column.str, name)(*given, **named)
    if isinstance(found, pd.DataFrame):
        raise ExpressionError(f".str.{name} makes a table; pass expand=False.")
    return found


#: What counts in a pattern: characters of no meaning, groups, choices and repeats.
_PATTERN_PIECES = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<sign>[(|)])|(?P<repeat>[*+?]|\{[\d, ]*\})",
    re.S,
)


def _check_pattern(column, pattern):
    """Refuse patterns that may try too many ways to match the longest of texts."""
    if not isinstance(pattern, str) or re.search(r"\(\?[a-zA-Z]*x", pattern):
        raise ExpressionError("A pattern is a text without (?x).")
    # Every repeat may end at any character, and every choice be any of its options.
    n_repeats, n_ways, open_choices, before, end = 0, 1, [1], "", 0
    for piece in _PATTERN_PIECES.finditer(pattern):
        sign, repeat = piece["sign"], piece["repeat"]
        after_group = before == ")" and piece.start() == end
        if sign == "(":
            open_choices.append(1)
        elif sign == "|":
            open_choices[-1] += 1
        elif sign == ")" and len(open_choices) > 1:
            n_ways *= open_choices.pop()
        elif repeat == "?" and pattern[piece.start() - 1 : piece.start()] != "(":
            n_ways *= 2
        elif repeat and repeat != "?":
            if after_group:
                raise ExpressionError(
                    f"The pattern {pattern!r} repeats a group, which can take for "
                    "ever. Repeat single characters alone."
                )
            n_repeats += 1
        before, end = sign or "", piece.end()
    lengths = np.array([len(v) for v in column.unique() if isinstance(v, str)])
    ways = float(n_ways * open_choices[0])
    with np.errstate(over="ignore"):
        n_steps = ways * np.sum((lengths + 1.0) ** (n_repeats + 1))
    if not n_steps <= MAX_STEPS:
        raise ExpressionError(
            f"The pattern {pattern!r} may take too many steps on these texts. Use "
            "fewer of * + ? and |."
        )
