"""Options in a TOML file: read and checked like those of the command line, and written.

A key is an option without its dashes. What stands at the top is for both levels of the
analysis, what stands in the table of a level, [participant] or [group], for that one.
"""

import json
import sys
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Types of values -> what they are called.
_TYPES = {bool: "true or false", int: "a whole number", float: "a number"}
_TYPES |= {str: "a text", Path: "a path"}


def read_config(path, level, levels):
    """The options of a level in a file, by what the functions call them.

    `levels` maps every level to its options, by their keys.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"--config {path}: the file cannot be read ({error.strerror})."
        ) from None
    except ValueError as error:  # also of bytes that are no text
        raise ValueError(f"--config {path} is no valid TOML: {error}.") from None
    tables = {name: _with_hyphens(content.pop(name, {})) for name in levels}
    content = _with_hyphens(content)
    every = {key: option for known in levels.values() for key, option in known.items()}
    named = [(f" of [{name}]", table, levels[name]) for name, table in tables.items()]
    for where, table, known in [("", content, every), *named]:
        for key in table:
            if key not in known:
                close = get_close_matches(key, known, 1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise ValueError(
                    f"--config {path}: unknown key {key!r}{where}.{hint} Keys are the "
                    "options of mvpa-kfda bids without their dashes, e.g. n-jobs = 2."
                )
    given = content | tables[level]
    return {
        option.argument: convert(f"--config {path}", key, given[key], option)
        for key, option in levels[level].items()
        if key in given
    }


def _with_hyphens(table):
    """A table whose keys are written as options are."""
    if not isinstance(table, dict):
        raise ValueError(
            "--config: [participant] and [group] are tables of options, such as "
            '[group] followed by lines like method = "sign-flip".'
        )
    return {key.replace("_", "-"): value for key, value in table.items()}


def convert(where, key, value, option):
    """The value of a key as the command line would have it.

    `where` names the file, or its part, in errors.
    """
    values = value if isinstance(value, list) else [value]
    if isinstance(value, list) and not option.several:
        raise ValueError(f"{where}: {key} takes one value, not a list.")
    converted = [_convert_one(where, key, each, option) for each in values]
    return converted if option.several else converted[0]


def _convert_one(where, key, value, option):
    """A single value in the type of its option."""
    wrong = isinstance(value, bool) != (option.type is bool)
    if not wrong and isinstance(value, str | int | float):
        if option.type is bool:
            return value
        with suppress(Exception):  # whatever the type makes of it
            converted = option.type(str(value))
            if not option.takes or converted in option.takes:
                return converted
    allowed = _TYPES.get(option.type, "what mvpa-kfda bids --help says")
    allowed += ", or a list" * option.several
    allowed = ", ".join(map(repr, option.takes)) if option.takes else allowed
    raise ValueError(
        f"{where}: invalid value for {key}: {value!r}. Allowed: {allowed}."
    )


def word_config(level, values, heading):
    """The text of a file with options of a level, after lines of comment."""
    lines = [*(f"# {line}" for line in heading), f"[{level}]"]
    lines += [
        f"{key} = {_written(value)}"
        for key, value in values.items()
        if value is not None
    ]
    return "\n".join([*lines, ""])


def _written(value):
    """Write a value as TOML does."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Path):
        value = str(value.absolute())
    if isinstance(value, str):  # JSON escapes what TOML does, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
