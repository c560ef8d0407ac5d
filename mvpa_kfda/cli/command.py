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
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

from ..inference.listed import CLUSTER_FDR, CorrectionName
from ..utils.text import tell


def literal(word):
    """A number, list, dict, truth or None as Python writes it, or else the text."""
    try:
        return ast.literal_eval(word.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return word


#: Arguments of functions that no command takes: files of parts are kept by --resume.
NEVER = ("verbose", "checkpoint")
#: Types in the docstrings of options, and what reads a value.
_TYPES = {"path": Path, "float": float, "int": int, "str": str, "bool": bool}
_TYPES["value"] = literal
#: What stands for a value in the help.
_METAVARS = {Path: "PATH", float: "NUMBER", int: "NUMBER", str: "TEXT"}
#: Choices by what docstrings call them: corrections, and those of both levels.
_CHOICES = {"correction": get_args(CorrectionName)}
_CHOICES["any correction"] = (*_CHOICES["correction"], CLUSTER_FDR)
#: Arguments whose flag is another word.
_FLAGS = {"run_label": "run"}
#: First sentences are taken up to this length.
_ENOUGH = 60


class Option(NamedTuple):
    """What a command takes.

    Parameters
    ----------
    argument : str
        What the function, or the docstring of the options, calls it.
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

    @property
    def key(self):
        """Its flag without dashes in front."""
        return _FLAGS.get(self.argument, self.argument).replace("_", "-")

    def add_to(self, parser):
        """Add it to a parser; what is not given is not in what is parsed."""
        text, default = self.help, self.default
        if isinstance(default, str | int | float) and default is not False:
            text += "" if "(default" in text else f" (default: {default})"
        keywords = {"help": text.replace("%", "%%"), "default": argparse.SUPPRESS}
        if self.type is bool:
            keywords["action"] = argparse.BooleanOptionalAction
        elif self.takes:
            keywords["choices"] = self.takes
        else:
            metavar = _METAVARS.get(self.type, "VALUE")
            keywords |= {"type": self.type, "metavar": metavar}
        if self.several:
            keywords |= {"nargs": "+", "action": "extend"}
        if self.positional:
            keywords |= {"metavar": self.argument.upper()}
            keywords |= {"nargs": "*"} if default == () else {}
            parser.add_argument(self.argument, **keywords)
            return
        required = default is inspect.Parameter.empty
        keywords |= {"required": True} if required else {}
        parser.add_argument(f"--{self.key}", dest=self.argument, **keywords)


@dataclass(frozen=True)
class Command:
    """A command, and the public function of which it is made.

    Parameters
    ----------
    run : callable
        Called with what `options` took, by name, and with the arguments of the
        function. Its docstring says what is read and written, and its first line stands
        in the list of commands.
    options : tuple of type
        Classes whose docstrings define what is taken besides: files, and flags of what
        is read and written.
    function : str or None
        The function of `mvpa_kfda` whose keyword arguments are flags.
    defaults : dict
        Defaults that differ from the function's.
    groups : callable or None
        Further options, title -> options.
    """

    run: Callable
    options: tuple = ()
    function: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    groups: Callable = dict

    def add_to(self, parser):
        """Add all that is given to a parser."""
        own = options_in(*self.options)
        files = [each.argument.upper() for each in own if each.positional]
        parser.usage = f"%(prog)s {' '.join([*files, '[options]'])}"
        parser.description = " ".join((self.run.__doc__ or "").split())
        groups = [(parser, own)]
        for title, options in self.groups().items():
            groups.append((parser.add_argument_group(title), options))
        if self.function is not None:
            group = parser.add_argument_group(
                f"keyword arguments of mvpa_kfda.{self.function}",
                "Values are written as in Python. Texts need no quotes, unless they "
                "look like something else: \"'1'\" is a text, 1 a number. Several "
                "values make a list. The reference has all details.",
            )
            groups.append((group, options_of(self.function, self.defaults)))
        for group, options in groups:
            for option in options:
                option.add_to(group)

    def __call__(self, arguments):
        """Run the command with what was parsed; return the exit status."""
        words = {k: each for k, each in vars(arguments).items() if k != "command"}
        own = options_in(*self.options)
        given = {each.argument: words.pop(each.argument, each.default) for each in own}
        if self.function is not None:
            words = {name: made(single(each)) for name, each in words.items()}
        return self.run(SimpleNamespace(**given), {**self.defaults, **words})


def options_in(*kinds):
    """The options that docstrings define; names in capitals have no flag.

    The type of an option is "path", "float, default=5.0" or "list of str, optional";
    one that is neither optional nor has a default must be given.
    """
    options = {}
    for kind in kinds:
        for name, words, text in _entries(kind):
            words, _, default = words.partition(", default=")
            is_optional, several = words.endswith(", optional"), "list of " in words
            words = words.removesuffix(", optional").removeprefix("list of ")
            takes = _CHOICES.get(words)
            if words.startswith("{"):
                takes = tuple(words[1:-1].split(", "))
            read = str if takes else _TYPES[words]
            value = None if is_optional else inspect.Parameter.empty
            if default:
                value = (
                    literal(default) if several or read is not Path else Path(default)
                )
            what = (takes, several, value, text, name.isupper())
            options[name.lower()] = Option(name.lower(), read, *what)
    return sorted(options.values(), key=lambda each: not each.positional)


def options_of(name, defaults, among=None):
    """The arguments of a public function that have a default."""
    import mvpa_kfda

    function, options = getattr(mvpa_kfda, name), []
    texts = {name: _beginning(text) for name, _, text in _entries(function)}
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


def _entries(described):
    """Name, type and text of every parameter in a docstring."""
    section = re.search(
        r"\nParameters\n-+\n(.*?)(?:\n\n\w[\w ]*\n-|\Z)",
        inspect.cleandoc(described.__doc__ or ""),
        re.DOTALL,
    )
    for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
        names, _, text = entry.partition("\n")
        names, _, kind = names.partition(" : ")
        for name in names.split(", "):
            yield name, kind, " ".join(text.split())


def _beginning(text):
    """The first sentences of a docstring, without its markup."""
    text = re.sub(r":\w+:`[~/]?([^`<]*?)( <[^`]*)?`", r"\1", text).replace("`", "")
    words = ""
    for sentence in re.split(r"(?<=\w{2}[.]) ", text):
        if len(words) < _ENOUGH:
            words = f"{words} {sentence}".strip()
    return words


# ------------------------------------------------------------------------------ values


def single(values):
    """The value that is alone in a list, else the list."""
    return values[0] if isinstance(values, list) and len(values) == 1 else values


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
            # The flags of the command that was named.
            (commands,) = (x for x in self._actions if isinstance(x.choices, dict))
            actions = commands.choices[parsed.command]._actions
            flags = [flag for each in actions for flag in each.option_strings]
            near = get_close_matches(wrong.partition("=")[0], flags, 1)
            hint = f". Did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(left)}{hint}")
        return parsed


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


class Out:
    """Where the output is written.

    Parameters
    ----------
    out : path, default=.
        output folder, created if needed (default: this one). Existing files with the
        same names are overwritten.
    """


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
    """Refuse files that do not exist, before anything is read; None is no file."""
    for path in paths:
        if isinstance(path, list | tuple):
            check_there(*path)
        elif path is not None and not Path(path).exists():
            raise FileNotFoundError(f"no such file: {path}")
