"""Tables in text files as people save them, and expressions on their columns.

Files come with blanks, encodings, and commas for tabs. Expressions choose trials and
make labels of columns, as `pandas.DataFrame.eval` does. They may come from a file that
somebody else wrote, and pandas evaluates what can read and write files and start
programs. Here the text is parsed, and only what `_evaluate` lists is evaluated.
"""

import ast
import gzip
import operator
import re
import warnings
from functools import reduce
from io import StringIO
from pathlib import Path

import pandas as pd
from pandas.api.types import is_bool_dtype, is_object_dtype

from ..utils.checks import trimmed, warn

#: Byte order marks -> encodings.
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_text_table(path, separator, **options):
    """The table in a text file; names and texts have no blanks at their ends.

    `options` are those of pandas. A ValueError if it is no such table.
    """
    text = _read_text(Path(path))
    first = text.partition("\n")[0]
    if separator == "\t":
        if separator not in first and re.search("[,;]", first):
            raise ValueError(
                "its columns are separated by commas or semicolons, those of a .tsv "
                "file must be separated by tabs."
            )
        text = re.sub(r" *\t *", "\t", text)
        text = re.sub(r"(?m)^ +| +$", "", text)
    return trimmed_table(pd.read_csv(StringIO(text), sep=separator, **options))


def _read_text(path):
    """The text of a file, also of one that is compressed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    encoding = _MARKS.get(content[:2], "utf-8-sig")
    if encoding == "utf-8-sig" and b"\0" in content:
        raise ValueError("it is no text")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252")  # Latin-1 and what Windows adds; may fail too
    mend = "Check names with special letters, and save the file as UTF-8."
    warn(f"{path.name} is not in UTF-8 and was read as Latin-1. {mend}")
    return text


def trimmed_table(table):
    """A table whose names and texts have no blanks at their ends."""
    names = [name.strip() if isinstance(name, str) else name for name in table]
    table = table.set_axis(names, axis=1)
    for i, dtype in enumerate(table.dtypes):
        if isinstance(dtype, pd.StringDtype) or is_object_dtype(dtype):
            given = table.iloc[:, i].to_numpy(object)
            if (kept := trimmed(given)) is not given:
                table.isetitem(i, pd.Series(kept, table.index, dtype=dtype))
    return table


# ------------------------------------------------------------------------- expressions

#: The longest expression.
_MAX_LENGTH = 20_000
_COMPARISONS = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
#: Where strings end, names in backticks, and signs that mean something else to Python.
_PIECES = re.compile(
    r"""(?P<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|`(?P<name>[^`]*)`|(?P<sign>[&|@#])"""
)
_SIGNS = {"&": " and ", "|": " or "}


def evaluate_expression(table, text):
    """Evaluate an expression on the columns of a table.

    Parameters
    ----------
    table : DataFrame
        The columns that names stand for. It is not changed.
    text : str
        The expression.

    Returns
    -------
    value : Series | scalar | list
        What the expression is, mostly a Series.

    Raises
    ------
    ValueError
        If the text is no such expression, or holds what is not allowed; the message
        ends with a full stop.

    Examples
    --------
    >>> import pandas as pd
    >>> from mvpa_kfda.data.tables import evaluate_expression
    >>> table = pd.DataFrame({"rt": [0.4, 0.7], "shown": ["face/a", "house/b"]})
    >>> evaluate_expression(table, "shown.str.startswith('face') and rt < 1").tolist()
    [True, False]
    >>> evaluate_expression(table, "rt.to_csv('rt.csv')")
    Traceback (most recent call last):
    ...
    ValueError: "rt.to_csv('rt.csv')" is not allowed. ...
    """

    def column(name):
        name = names.get(name, name)
        if name in table.columns and isinstance(table[name], pd.Series):
            return table[name]
        few = "are several columns" if name in table.columns else "is no column"
        raise ValueError(f"There {few} {name!r}.")

    tree, names = _parse(text)
    try:
        return _evaluate(tree, column)
    except Exception as error:  # pandas raises anything
        words = str(error).rstrip(".") or type(error).__name__
        raise ValueError(f"{words}.") from error


def _parse(text):
    """The tree of an expression, and the columns of names in backticks."""
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"It has {len(text)} characters; {_MAX_LENGTH} may be.")
    stem = "column"
    while stem in text:
        stem += "_"
    names = {}

    def replaced(piece):
        if piece["name"] is not None:
            name = f"{stem}{len(names)}"
            names[name] = piece["name"]
            return f" {name} "
        if piece["sign"] is not None and piece["sign"] not in _SIGNS:
            raise _refusal(piece["sign"])
        return piece["text"] or _SIGNS[piece["sign"]]

    plain = _PIECES.sub(replaced, text).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\\d" in a text is no mistake
            return ast.parse(plain.replace("\n", " "), mode="eval").body, names
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        words = getattr(error, "msg", None) or str(error) or "too deeply nested"
        raise ValueError(f"It cannot be read ({words}).") from error


def _refusal(what):
    """The error for what is no part of the grammar."""
    return ValueError(
        f"{what!r} is not allowed. Allowed are columns (in backticks if the name is no "
        "plain word), numbers, texts, comparisons, in, and, or, not, and the methods "
        "isin, isna, notna, .str.startswith and .str.endswith of columns."
    )


def _evaluate(node, column):
    """The value of a part of an expression; `column` has the columns by name."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return node.value
        case ast.UnaryOp(ast.USub(), ast.Constant(value=int() | float())):
            return -node.operand.value
        case ast.Name():
            return column(node.id)
        case ast.List() | ast.Tuple() | ast.Set():
            values = [_evaluate(part, column) for part in node.elts]
            if any(isinstance(value, pd.Series | list) for value in values):
                raise ValueError("A list holds single values alone.")
            return values
        case ast.UnaryOp(ast.Not() | ast.Invert()):
            value = _truth(_evaluate(node.operand, column))
            return ~value if isinstance(value, pd.Series) else not value
        case ast.BoolOp():
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return reduce(join, [_truth(_evaluate(x, column)) for x in node.values])
        case ast.Compare():
            sides = [_evaluate(x, column) for x in (node.left, *node.comparators)]
            pairs = zip(node.ops, sides, sides[1:], strict=False)
            return reduce(operator.and_, [_compare(node, *pair) for pair in pairs])
        case ast.Call(ast.Attribute(ast.Name(name), "isna" | "notna" as asked), [], []):
            return getattr(column(name), asked)()
        case ast.Call(ast.Attribute(ast.Name(name), "isin"), [values], []):
            return _compare(node, ast.In(), column(name), _evaluate(values, column))
        case ast.Call(
            ast.Attribute(
                ast.Attribute(ast.Name(name), "str"), "startswith" | "endswith" as asked
            ),
            [ast.Constant(str() as part)],
            [],
        ):
            return getattr(column(name).str, asked)(part)
    raise _refusal(ast.unparse(node)[:80])


def _truth(value):
    """Truth values, which may be missing."""
    column = isinstance(value, pd.Series)
    if isinstance(value, bool) or (column and is_bool_dtype(value.dtype)):
        return value
    if column and value.dtype == object and value.dropna().isin([True, False]).all():
        return value.where(value.notna(), None).astype("boolean")
    raise ValueError("and, or and not join true or false. Compare, e.g. rt > 0.")


def _compare(node, sign, left, right):
    """Whether one comparison of a chain holds."""
    if isinstance(sign, ast.In | ast.NotIn):
        if not isinstance(left, pd.Series) or not isinstance(right, pd.Series | list):
            raise ValueError("in has a column before it and a list behind it.")
        found = left.isin(right)
        return ~found if isinstance(sign, ast.NotIn) else found
    if type(sign) not in _COMPARISONS:
        raise _refusal(ast.unparse(node)[:80])
    if isinstance(left, list) or isinstance(right, list):
        raise ValueError("Columns and values are compared; for lists use in.")
    return _COMPARISONS[type(sign)](left, right)
