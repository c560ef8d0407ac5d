"""A public function as a command: its flags are the function's keyword arguments.

Help is the first sentences on each parameter in the docstring, and values are what
Python would write: numbers, lists, True, None, texts, or objects from a closed list.
Nothing is evaluated. The functions are imported only once their command is known, so
that ``mvpa-kfda --help`` answers at once.
"""

import argparse
import ast
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from ..utils.text import tell

#: Arguments of functions that no command takes: files of parts are kept by --resume.
NEVER = ("verbose", "checkpoint")
#: What stands for a value in the help.
_METAVARS = {Path: "PATH", float: "NUMBER", int: "NUMBER", str: "TEXT"}
#: First sentences are taken up to this length.
_ENOUGH = 60


@dataclass(frozen=True)
class Command:
    """A command, and the public function of which it is made.

    Parameters
    ----------
    run : callable
        Called with an object of `given`, and with the arguments of the function. Its
        docstring says what is read and written, and its first line stands in the list
        of commands.
    given : type
        A dataclass of what is given besides: files, and flags of what is read and
        written. Its docstring is their help.
    function : str or None
        The function of `mvpa_kfda` whose keyword arguments are flags.
    defaults : dict
        Defaults that differ from the function's.
    """

    run: Callable
    given: type
    function: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def add_to(self, parser):
        """Add all that is given to a parser."""
        own = options_in(self.given)
        files = [each.argument.upper() for each in own if each.positional]
        parser.usage = f"%(prog)s {' '.join([*files, '[options]'])}"
        parser.description = " ".join((self.run.__doc__ or "").split())
        for option in own:
            add_option(parser, option)
        if self.function is None:
            return
        group = parser.add_argument_group(
            f"keyword arguments of mvpa_kfda.{self.function}",
            "Values are written as in Python. Texts need no quotes, unless they look "
            "like something else: \"'1'\" is a text, 1 a number. Several values make "
            "a list. The reference has all details.",
        )
        for option in self._keywords():
            add_option(group, option)

    def __call__(self, arguments):
        """Run the command with what was parsed; return the exit status."""
        words = vars(arguments)
        own = [each.argument for each in options_in(self.given)]
        given = self.given(**{name: words[name] for name in own if name in words})
        options = dict(self.defaults)
        for option in self._keywords() if self.function else ():
            if option.argument in words:
                values = words[option.argument]
                options[option.argument] = made(single(values))
        return self.run(given, options)

    def _keywords(self):
        """The arguments of the function that are flags."""
        return options_of(self.function, self.defaults)


class Option(NamedTuple):
    """What a command takes.

    Parameters
    ----------
    argument : str
        What the function or the class calls it.
    type : callable
        Reads one value.
    takes : tuple of str or None
        The values that are allowed, if they are few.
    several : bool
        Whether it takes more than one value.
    default : object
        Its default, ``inspect.Parameter.empty`` if it must be given.
    help : str
        Its help.
    positional : bool
        Whether it has no flag.
    """

    argument: str
    type: Any
    takes: tuple | None
    several: bool
    default: Any
    help: str
    positional: bool = False


def options_in(kind):
    """The fields of a dataclass; those that are not keyword-only have no flag."""
    texts, types, options = help_of(kind), get_type_hints(kind), []
    for each in inspect.signature(kind).parameters.values():
        value, takes = types[each.name], None
        if get_origin(value) in (Union, UnionType):
            (value,) = {*get_args(value)} - {NoneType}
        if several := get_origin(value) is list:
            (value,) = get_args(value)
        if get_origin(value) is Literal:
            value, takes = str, get_args(value)
        positional = each.kind is not each.KEYWORD_ONLY
        what = (each.default, texts.get(each.name, ""), positional)
        options.append(Option(each.name, value, takes, several, *what))
    return options


def options_of(name, defaults, among=None):
    """The arguments of a public function that have a default."""
    import mvpa_kfda

    function, options = getattr(mvpa_kfda, name), []
    texts = help_of(function, _ENOUGH)
    for each in inspect.signature(function).parameters.values():
        if each.default is each.empty or each.name in NEVER:
            continue
        default = defaults.get(each.name, each.default)
        kind = bool if isinstance(default, bool) else literal
        several = not isinstance(default, bool | int | float)  # of numbers the last
        what = (kind, None, several, default, texts.get(each.name, ""))
        if among is None or each.name in among:
            options.append(Option(each.name, *what))
    return options


def add_option(parser, option, flag=None):
    """Add an option to a parser; what is not given is not in what is parsed."""
    text, default = option.help, option.default
    if isinstance(default, str | int | float) and default is not False:
        text += "" if "(default" in text else f" (default: {default})"
    keywords = {"help": text.replace("%", "%%"), "default": argparse.SUPPRESS}
    if option.type is bool:
        keywords["action"] = argparse.BooleanOptionalAction
    elif option.takes:
        keywords["choices"] = option.takes
    else:
        metavar = _METAVARS.get(option.type, "VALUE")
        keywords |= {"type": option.type, "metavar": metavar}
    if option.several:
        keywords |= {"nargs": "+", "action": "extend"}
    if option.positional:
        keywords |= {"metavar": option.argument.upper()}
        if default == ():
            keywords["nargs"] = "*"
        parser.add_argument(option.argument, **keywords)
        return
    if default is inspect.Parameter.empty:
        keywords["required"] = True
    flag = f"--{(flag or option.argument).replace('_', '-')}"
    parser.add_argument(flag, dest=option.argument, **keywords)


def help_of(called, enough=None):
    """What docstrings say of every parameter, or the first sentences of `enough`."""
    texts = {}
    for each in getattr(called, "__mro__", (called,)):
        section = re.search(
            r"\nParameters\n-+\n(.*?)(?:\n\n\w[\w ]*\n-|\Z)",
            inspect.cleandoc(each.__doc__ or ""),
            re.DOTALL,
        )
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            names, _, text = entry.partition("\n")
            text = re.sub(r":\w+:`[~/]?([^`<]*?)( <[^`]*)?`", r"\1", text).replace(
                "`", ""
            )
            words = ""
            for sentence in re.split(r"(?<=\w{2}[.]) ", " ".join(text.split())):
                if enough is None or len(words) < enough:
                    words = f"{words} {sentence}".strip()
            for name in names.partition(" :")[0].split(", "):
                texts.setdefault(name, words)
    return texts


# ------------------------------------------------------------------------------ values


def single(values):
    """The value that is alone in a list, else the list."""
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def literal(word):
    """A number, list, dict, truth or None as Python writes it, or else the text."""
    try:
        return ast.literal_eval(word.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return word


def made(value):
    """A value in which texts that name a known object are that object.

    Examples
    --------
    >>> from mvpa_kfda.cli.command import literal, made
    >>> [made(literal(word)) for word in ("1e-3", "'1'", "block < 4", "Ridge(4)")]
    [0.001, '1', 'block < 4', Ridge(lam=4)]
    """
    if isinstance(value, list):
        return [made(each) for each in value]
    call = re.fullmatch(r"(?s)\s*(\w+)\(.*\)\s*", value if type(value) is str else "")
    if not call:
        return value
    known, name = known_objects(), call[1]
    if name not in known:
        if near := get_close_matches(name, known, 1):
            raise ValueError(f"{value} is not known. Did you mean {near[0]}?")
        return value
    try:
        node = ast.parse(value.strip(), mode="eval").body
        args = [ast.literal_eval(each) for each in node.args]
        named = {each.arg: ast.literal_eval(each.value) for each in node.keywords}
    except (SyntaxError, ValueError, AttributeError, MemoryError, RecursionError):
        raise ValueError(
            f"{value} is not written as in Python: {name}(...) takes numbers, texts in "
            "quotes, and lists of these."
        ) from None
    try:
        return known[name](*args, **named)
    except TypeError as error:
        raise ValueError(f"{value} cannot be made: {error}.") from None


def known_objects():
    """The classes of kernels, penalties and steps that values may name."""
    import mvpa_kfda

    from ..kfda.preprocess import STEPS
    from ..utils.plain import Recorded

    public = [getattr(mvpa_kfda, name) for name in mvpa_kfda.__all__]
    kinds = [x for x in public if isinstance(x, type) and issubclass(x, Recorded)]
    return {kind.__name__: kind for kind in (*kinds, *map(type, STEPS.values()))}


# ------------------------------------------------------------------------------ errors


class Parser(argparse.ArgumentParser):
    """A parser whose errors `main` reports like all others, in one line."""

    def error(self, message):
        """Hand the message on instead of printing the usage and leaving."""
        if "the following arguments are required" in message:
            message += ". Put files first, before the options."
        raise ValueError(message)

    def parse_args(self, args=None, namespace=None):
        """Parse all arguments; of a flag that there is not, name the nearest."""
        parsed, left = self.parse_known_args(args, namespace)
        if left:
            wrong = next((each for each in left if each.startswith("-")), "")
            near = get_close_matches(wrong.partition("=")[0], self._flags(parsed), 1)
            hint = f". Did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return parsed

    def _flags(self, parsed):
        """All flags of the command that was named."""
        (commands,) = (each for each in self._actions if isinstance(each.choices, dict))
        actions = commands.choices[parsed.command]._actions
        return [flag for each in actions for flag in each.option_strings]


def with_nearest(text):
    """A message with the name that is nearest to one that is not allowed."""
    wrong = re.search(r"(?:choice|Invalid value for '\w+'): '([^']+)'(.*)", text)
    allowed = re.findall(r"'([^']+)'", wrong[2]) if wrong else ()
    near = get_close_matches(wrong[1], allowed, 1) if wrong else ()
    return f"{text.rstrip('.')}. Did you mean {near[0]}?" if near else text


#: So much of the name of a file is printed in errors.
_LONG_NAME = 300


def tell_of(what, message):
    """Tell an error or warning on the standard error stream."""
    tell(f"mvpa-kfda: {what}{one_line(message)}", file=sys.stderr)


def one_line(error):
    """An error or warning without line breaks."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        name = str(error.filename)
        name = name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}..."
        return f"{error.strerror}: {name}"
    return " ".join(str(error).split()) or type(error).__name__


# ------------------------------------------------------------------------------- files


@dataclass(kw_only=True)
class Out:
    """Where the output is written.

    Parameters
    ----------
    out
        output folder, created if needed (default: this one). Existing files with the
        same names are overwritten.
    """

    out: Path = Path()


def check_out(folder, stem):
    """Make the folder and see that it takes files, before anything is computed.

    What is there by names that begin with `stem` must be files.
    """
    from ..utils.files import check_target

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        file = next(path for path in (folder, *folder.parents) if path.exists())
        raise NotADirectoryError(
            f"--out {folder}: {file} is a file, not a folder. Choose another folder."
        ) from None
    except OSError as error:
        raise OSError(
            f"--out {folder}: no files can be written into this folder "
            f"({error.strerror}). Change its permissions, or choose another folder."
        ) from error
    for path in folder.iterdir():
        if path.name.startswith(stem) and not path.is_dir():
            check_target(path)


def check_there(*paths):
    """Refuse files that do not exist, before anything is read."""
    for path in paths:
        if path is not None and not Path(path).exists():
            raise FileNotFoundError(f"no such file: {path}")
