"""The options that the public functions share: each is named, and described, once.

A public function writes out the arguments that are its own. The others come in as
``**options: Unpack[SomeOptions]``, a `TypedDict` that type checkers and editors read,
and `decodes` completes the signature, with the defaults of the parts of a
`~mvpa_kfda.decoding.procedure.Procedure`, and the docstring, with their texts. What the
docstring itself says of a shared option, after "...", is added to the shared text.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from os import PathLike
from typing import Any, Literal, TypedDict, TypeVar

from ..inference.permutation import Permute
from ..kfda.folds import CrossValidation
from ..kfda.kernels import KernelLike
from ..kfda.penalties import PenaltyLike
from ..kfda.preprocess import Preprocess
from ..kfda.rowmaps import Nystrom
from ..metrics.names import Scoring
from ..results.procedure import passed_on
from ..utils.checks import Precision, Seed, collected_warnings
from ..utils.fingerprints import collected_inputs, files_of
from .procedure import PARTS, TrialData, Windowing
from .sizes import KeptNull

Function = TypeVar("Function", bound=Callable[..., Any])


class CommonOptions(TypedDict, total=False):
    """What all functions may be told."""

    kernel: KernelLike
    reg: PenaltyLike
    approx: Nystrom | None
    preprocess: Preprocess
    cv: CrossValidation
    n_permutations: int
    permute: Permute
    random_state: Seed
    dtype: Precision


class ClassOptions(CommonOptions, total=False):
    """What all that predict classes may be told."""

    scoring: Scoring
    n_components: int | None
    average: int | Literal["max"] | None
    n_repeats: int
    equalize: bool
    average_test: bool


class BatchOptions(TypedDict, total=False):
    """How one position is decoded."""

    batch_size: int | None


class JobOptions(TypedDict, total=False):
    """How many positions are decoded."""

    n_jobs: int | None
    verbose: bool | None


class LoggedJobOptions(TypedDict, total=False):
    """The same where `verbose` may be a level of MNE-Python's log.

    Parameters
    ----------
    verbose : bool | str | int | None
        True (or a level of INFO or below) shows how far the run is, by a bar, or in a
        log by a line now and then; False does not, None only for runs of more than a
        few seconds.
    """

    n_jobs: int | None
    verbose: bool | str | int | None


class WindowOptions(TypedDict, total=False):
    """How time is cut into positions."""

    window: float | None
    step: float | None
    window_mode: Literal["mean", "concatenate"]


class ClassScoreOptions(TypedDict, total=False):
    """What is kept beside predictions."""

    keep_class_scores: bool


class NullOptions(TypedDict, total=False):
    """What is kept of large maps."""

    null: KeptNull


class CheckpointOptions(TypedDict, total=False):
    """Where long runs are kept."""

    checkpoint: str | PathLike[str] | None


#: The functions that were made by `decodes`, by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

_PARAMETERS = re.compile(r"(?ms)(^Parameters\n-+\n)(.*?)(?=\n\n\S[^\n]*\n---|\Z)")
#: How the text of an argument begins that is added to the shared one.
_MORE = "    ... "


def decodes(
    options: type, *described: type, data: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Make a public function of one that takes shared `options`, a TypedDict.

    Parts of its own whose defaults and texts are needed are `described`. Its result
    keeps what the call warned of, the options but for those that are `data`, and the
    fingerprints of what was read.
    """
    kinds = (*PARTS.values(), Windowing, TrialData, *described)

    def decorate(function):
        own = inspect.signature(function)
        first = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        shared, defaults = options.__annotations__, _defaults(kinds)
        rest = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults[name],
                annotation=getattr(hint, "__forward_arg__", hint),
            )
            for name, hint in shared.items()
        ]
        signature = own.replace(parameters=[*first, *rest])
        function.__doc__ = complete(function.__doc__, signature.parameters, kinds)

        @wraps(function)
        def call(*args, **given):
            unknown = [name for name in given if name not in signature.parameters]
            if unknown:
                raise TypeError(_unexpected(function.__name__, unknown[0], signature))
            with collected_warnings() as texts, collected_inputs() as inputs:
                result = function(*args, **given)
            bound = signature.bind(*args, **given)
            bound.apply_defaults()
            read = {n: x for n, x in bound.arguments.items() if n != "checkpoint"}
            files = files_of(read.values())
            kept = {
                "warnings": tuple(dict.fromkeys(texts)),
                "options": passed_on(bound, data, result.parameters),
                "inputs": {"function": function.__name__, **inputs, "files": files},
            }
            for name, value in kept.items():
                # The one way to set a field of a frozen object.
                object.__setattr__(result, name, value)
            return result

        call.__signature__ = signature
        hints = {k: v for k, v in function.__annotations__.items() if k != "options"}
        call.__annotations__ = hints | shared
        FUNCTIONS[function.__name__] = call
        return call

    return decorate


def describes_options(function: Function) -> Function:
    """Complete the docstring of a function that writes out shared options."""
    kinds = (*PARTS.values(), Windowing, TrialData)
    named = inspect.signature(function).parameters
    function.__doc__ = complete(function.__doc__, named, kinds)
    return function


def _defaults(kinds):
    """Return the defaults of all fields of some parts."""
    return {
        each.name: each.default
        for kind in filter(is_dataclass, kinds)
        for each in fields(kind)
        if each.default is not MISSING
    }


def _unexpected(function, name, signature):
    """Word the error of an argument that a function does not have."""
    text = f"{function}() got an unexpected keyword argument {name!r}"
    others = sorted(f"{k}()" for k, each in _all().items() if _has(each, name))
    if others:
        *most, last = others
        words = f"{', '.join(most)} and {last} have" if most else f"{last} has"
        return f"{text}, which {words}"
    near = get_close_matches(name, signature.parameters, n=1)
    return f"{text}. Did you mean {near[0]!r}?" if near else text


def _has(function, name):
    """Tell whether a function has an argument."""
    return name in inspect.signature(function).parameters


def _all():
    """Return all public functions of this room, by name."""
    package = __package__
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    return FUNCTIONS


# --------------------------------------------------------------------------- docstrings


def complete(doc, parameters, kinds):
    """Return a docstring whose parameters are described, some by what parts say."""
    if doc is None:  # Python was told to leave docstrings out
        return None
    doc, known = inspect.cleandoc(doc), {}
    for each in (*(kind.__doc__ for kind in kinds), doc):
        for name, entry in entries(each).items():
            known[name] = _described(name, entry, known.get(name))
    texts = dict.fromkeys(known[name] for name in parameters if name in known)
    section = "\n".join(texts)
    return _PARAMETERS.sub(lambda found: found[1] + section, doc, count=1)


def entries(doc):
    """Map the parameters that a docstring describes to their entries.

    Several that are described together have the same one.
    """
    section = _PARAMETERS.search(inspect.cleandoc(doc or ""))
    found = {}
    for entry in re.split(r"\n(?=\S)", section[2]) if section else ():
        for name in entry.partition("\n")[0].partition(" : ")[0].split(", "):
            found[name] = entry
    return found


def _described(name, own, shared):
    """Return the entry of a parameter: its own, or what it adds to the shared one."""
    head, _, text = own.partition("\n")
    if shared is None or not text.startswith(_MORE):
        return own
    head_shared, _, text_shared = shared.partition("\n")
    head = head_shared if head == name else head
    return f"{head}\n{text_shared}\n    {text.removeprefix(_MORE)}"
