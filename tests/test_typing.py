"""Types in the public signatures: they are all there, and name what is known.

Whether calls of users are right to type checkers is for mypy and pyright to say, which
read the folder typing.
"""

import ast
import inspect
import typing

import mvpa_kfda
from mvpa_kfda.decoding import epochs
from mvpa_kfda.group.latency import ONSETS
from mvpa_kfda.group.second_level import METHODS, MethodName
from mvpa_kfda.inference import corrections, permutation
from mvpa_kfda.inference.listed import OnsetName
from mvpa_kfda.kfda import kernels, penalties, preprocess
from mvpa_kfda.metrics.scores import (
    METRICS,
    NUMBER_METRICS,
    MetricName,
    RegressionMetricName,
)
from tests.test_package import PACKAGE, PUBLIC, read_metadata

NAMES = {
    "correction": (corrections.CorrectionName, corrections.CORRECTIONS),
    "kernel": (kernels.KernelName | str, kernels.KERNELS),
    "penalty": (penalties.PenaltyName | str, (*penalties._NAMED, *penalties.ESTIMATED)),
    "metric": (MetricName, METRICS),
    "regression metric": (RegressionMetricName, NUMBER_METRICS),
    "group method": (MethodName, METHODS),
    "onset": (OnsetName | str, ONSETS),
    "step": (preprocess.StepName | str, preprocess.STEPS),
    "permute": (permutation.Permute | str, ("auto", *permutation.SCHEMES)),
}


def is_ours(function):
    """Tell whether a function is written in the package."""
    return function.__module__.startswith("mvpa_kfda")


def public_functions():
    """Map names to the public functions, and the methods and properties of classes."""
    found = {}
    for name in PUBLIC:
        public = getattr(mvpa_kfda, name)
        if inspect.isfunction(public):
            found[name] = public
            continue
        for member in dir(public):
            value = inspect.getattr_static(public, member)
            function = getattr(value, "fget", None) or getattr(value, "func", value)
            called = member in ("__init__", "__call__") or not member.startswith("_")
            if called and inspect.isfunction(function) and is_ours(function):
                found[f"{name}.{member}"] = function
    del found["decode_epochs"]  # type checkers take its overloads, see below
    return found


def test_public_signatures_have_types():
    for name, function in public_functions().items():
        named = {*inspect.signature(function).parameters, "return"} - {"self"}
        if name.endswith("__init__"):
            named.remove("return")
        assert named <= set(function.__annotations__), name


def test_names_to_complete_are_the_known_ones():
    for names, (alias, known) in NAMES.items():
        literal, anything = typing.get_args(alias)
        assert anything is str
        assert list(typing.get_args(literal)) == list(known), names


def test_overloads_of_decode_epochs_take_its_options():
    module = ast.parse((PACKAGE / "decoding" / "epochs.py").read_text())
    *overloads, function = (
        node.args
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == "decode_epochs"
    )
    deciding = {"sensors", "task"}
    for of in (*overloads, function):
        assert {parameter.arg for parameter in of.kwonlyargs} == deciding
        assert of.kwarg.arg == "options"
    named = {*inspect.signature(mvpa_kfda.decode_epochs).parameters}
    assert {*epochs._Options.__annotations__} == named - deciding - {"epochs", "y"}


def test_stub_marker_and_texts_are_packaged():
    packaged = read_metadata()["options.package_data"]["mvpa_kfda"].split()
    texts = [f"inference/{name}.txt" for name in ("corrections", "null", "permutation")]
    texts = [
        "bids/overview.jinja",
        "bids/readme.txt",
        "decoding/problems.txt",
        *texts,
        "reports/references.bib",
        "reports/templates/*",
        "verification/verdict.html",
        "viz/caption.html",
        "viz/notebook.html",
    ]
    assert packaged == ["__init__.pyi", "py.typed", *texts]
    assert all([*PACKAGE.glob(name)] for name in packaged)
