"""The package as a whole: imports, public names, docstrings, metadata, layers."""

import ast
import configparser
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from numpydoc.docscrape import ClassDoc, FunctionDoc
from numpydoc.validate import validate
from threadpoolctl import ThreadpoolController

import mvpa_kfda
from mvpa_kfda.cli import main
from mvpa_kfda.kfda.kernels import Kernel
from mvpa_kfda.utils import system

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mvpa_kfda"
FILES = sorted(PACKAGE.rglob("*.py"))
#: Rooms, and the modules that are one by themselves.
ROOMS = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} - {
    "__init__"
}
#: The numeric rooms, and what they must do without.
CORE = ("inference", "kfda", "metrics")
HEAVY = {"mne", "nilearn", "nibabel", "matplotlib", "h5py"}
PUBLIC = sorted(mvpa_kfda.__all__)
#: Extras for users; those for tests and pages are for developers.
EXTRAS = ("bids", "dask", "plotly", "rsa", "xarray")

#: Parameters by which these functions mean something of their own. All others are
#: described in the same words in every function of a room that has them.
OF_ITS_OWN = {
    "X": ("cross_validate", "decode_arrays", "generalize_arrays", "regress"),
    "y": ("decode_epochs", "generalize_epochs", "regress"),
    "mask_img": ("decode_regions",),
    "same_trials": ("generalize_arrays",),
    "y_test": ("generalize_arrays",),
    "verbose": ("decode_epochs", "decode_sources", "generalize_epochs"),
    "radius": ("decode_sources",),
    **dict.fromkeys(("cv", "scoring", "dtype"), ("regress",)),
    "n_permutations": ("compare", "regress"),
    "results": ("bootstrap_latency",),
    "other": ("bootstrap_latency",),
    "paired": ("bootstrap_latency",),
    **dict.fromkeys(("method", "alternative"), ("compare",)),
    "random_state": ("bootstrap_latency", "compare"),
}

#: What numpydoc checks in every docstring: it exists, its sections are in order, and
#: its parameters and return value are all there, with types, under the right names.
DOCSTRING_CHECKS = {
    *("GL06", "GL07", "GL08", "SS03", "PR01", "PR02", "PR03", "PR04", "RT01", "YD01")
}


def read_settings():
    """Settings of the tools, from pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def read_metadata():
    """Metadata and options, from setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def documented_names(page=None):
    """Names in the tables of a page of the reference, or of both, without the package.

    The first page has what is public, the second one what that is made of.
    """
    pages = ("api.rst", "api_inside.rst") if page is None else (page,)
    text = "".join((ROOT / "doc" / name).read_text() for name in pages)
    tables = re.findall(r"(?m)^\.\. autosummary::\n(?:   .*\n|\n)+", text)
    return re.findall(r"(?m)^   ([A-Za-z][\w.]+)$", "".join(tables))


def find(name):
    """Look up ``name`` or ``module.name`` in the package."""
    module, _, attribute = name.rpartition(".")
    path = f"mvpa_kfda.{module}" if module else "mvpa_kfda"
    return getattr(importlib.import_module(path), attribute)


def described():
    """Names whose parameters are described: functions, classes to make, methods."""
    names = []
    for name in documented_names():
        found = find(name)
        if name in PUBLIC or inspect.isfunction(found):
            names.append(name)
        # Kernels and penalties are handed over, not called: one line says enough.
        kernel = inspect.isclass(found) and issubclass(found, Kernel)
        if name in PUBLIC and not kernel:
            names += [
                f"{name}.{method}"
                for method, function in inspect.getmembers(found, inspect.isfunction)
                if not method.startswith("_")
                and function.__module__.startswith("mvpa_kfda")
            ]
    return names


def find_described(name):
    """Look up a name from `described`, methods included."""
    first, _, method = name.partition(".")
    return getattr(find(first), method) if method and first in PUBLIC else find(name)


def parse(found):
    """Parse a docstring into its numpydoc sections."""
    kind = ClassDoc if inspect.isclass(found) else FunctionDoc
    return kind(found)


def is_protocol(found):
    """Tell whether a class says only what others have."""
    return getattr(found, "_is_protocol", False)


@cache
def nodes_of(path):
    """Return the syntax tree of a module as a list, the module itself first."""
    return list(ast.walk(ast.parse(path.read_text())))


def imported_packages():
    """Third-party packages that the package imports, at any depth of its code."""
    packages = set()
    for path in FILES:
        nodes = nodes_of(path)
        typed = {  # what only type checkers see
            id(each)
            for node in nodes
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for each in ast.walk(node)
        }
        for node in nodes:
            if isinstance(node, ast.Import) and id(node) not in typed:
                packages |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and id(node) not in typed:
                packages |= {node.module.partition(".")[0]} if not node.level else set()
    return packages - set(sys.stdlib_module_names)


# ------------------------------------------------------------------------- imports


def module_name(path):
    """Return the dotted name of a module in the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def test_numeric_rooms_load_nothing_heavy():
    # One after the other in one process: the first to load something gives its name.
    modules = [
        module_name(path)
        for path in FILES
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") in CORE
    ]
    code = (
        "import importlib, sys\n"
        f"for module in {modules}:\n"
        "    importlib.import_module(module)\n"
        f"    print(module, *(set(sys.modules) & {HEAVY}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == modules


def test_every_public_name_can_be_imported():
    assert len(PUBLIC) <= 55
    for name in PUBLIC:
        found = getattr(mvpa_kfda, name)
        assert found.__name__ == name
        assert name in dir(mvpa_kfda)
    with pytest.raises(AttributeError, match="no_such_name"):
        mvpa_kfda.no_such_name  # noqa: B018


# -------------------------------------------------------------------- documentation


def test_every_public_name_is_in_the_api_reference():
    documented = documented_names()
    assert len(set(documented)) == len(documented)
    assert set(PUBLIC) == set(documented_names("api.rst"))
    assert all("." in name for name in documented_names("api_inside.rst"))
    for name in documented:
        assert callable(find(name))


def test_docstrings_are_complete_and_state_the_defaults():
    for name in described():
        found = find_described(name)
        parameters = inspect.signature(found).parameters
        checks = set(DOCSTRING_CHECKS)
        if {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}:
            checks.remove("PR03")  # their order means nothing
        errors = validate(f"{found.__module__}.{found.__qualname__}")["errors"]
        assert [error for error in errors if error[0] in checks] == [], name
        for documented in parse(found)["Parameters"]:
            if stated := re.search(r"default=(.+)$", documented.type):
                default = repr(parameters[documented.name].default).replace("'", '"')
                assert stated.group(1).strip().replace("'", '"') == default, name
            if name.partition(".")[0] in PUBLIC:  # described where it stands
                text = " ".join(documented.desc)
                sent = re.findall(r"(?i)\bsee (?::\w+:)?`(\w+)`", text)
                assert set(sent).isdisjoint(PUBLIC), (name, documented.name)


def test_every_field_of_a_class_is_described():
    for found in filter(inspect.isclass, map(find, documented_names())):
        described = parse(found)["Parameters"] + parse(found)["Attributes"]
        names = {part.strip() for entry in described for part in entry.name.split(",")}
        parameters = inspect.signature(found).parameters
        # A protocol has no arguments of its own, whatever Python says.
        own = set(parameters) - ({"args", "kwargs"} if is_protocol(found) else set())
        assert own <= names, found


def descriptions(room):
    """Map parameters to what every public function of a room says about them."""
    texts = {}
    for name in PUBLIC:
        found = getattr(mvpa_kfda, name)
        if inspect.isfunction(found) and found.__module__.split(".")[1] == room:
            for entry in parse(found)["Parameters"]:
                text = " ".join(" ".join(entry.desc).split())
                texts.setdefault(entry.name, {})[name] = text
    return texts


def test_a_parameter_is_described_alike_by_all_functions():
    for room in ("decoding", "group"):
        for parameter, texts in descriptions(room).items():
            own = OF_ITS_OWN.get(parameter, ())
            alike = {name: text for name, text in texts.items() if name not in own}
            # The plainest one is how all of them begin; some have more to say.
            shared = min(alike.values(), key=len, default="")
            others = [x for x, text in alike.items() if not text.startswith(shared)]
            assert others == [], parameter


def test_public_docstrings_have_an_example_and_describe_what_they_take():
    for name in PUBLIC:
        assert ">>>" in inspect.getdoc(getattr(mvpa_kfda, name)), name
    # No description consists of the name of a page that has it.
    elsewhere = r"(?m)^ +As (?:in|for) (?::\w+:|`pvalues`\.)|ends of the colors, see"
    for path in FILES:
        assert re.findall(elsewhere, path.read_text()) == [], path


# ------------------------------------------------------------------ metadata, layers


def test_version_is_the_one_in_the_metadata():
    assert read_metadata()["metadata"]["version"] == "attr: mvpa_kfda.__version__"
    installed = [
        distribution.version
        for distribution in importlib.metadata.distributions(name="mvpa-kfda")
    ]
    assert set(installed) <= {mvpa_kfda.__version__}


def read_requirements(section, key):
    """Names of the packages that an option of setup.cfg lists."""
    lines = read_metadata()[section][key].splitlines()
    return {re.split("[<>=]", line)[0] for line in lines if line.strip()}


def test_requirements_are_what_is_imported():
    required = read_requirements("options", "install_requires")
    names = {"sklearn": "scikit-learn", "mne_bids": "mne-bids"}
    imported = {names.get(name, name) for name in imported_packages()} - {"mvpa_kfda"}
    # Only who runs on a cluster, has raw BIDS data, or asks for datasets of xarray or
    # matrices of rsatoolbox needs what is for that.
    not_required = {"distributed", "mne-bids", "rsatoolbox", "xarray", "tomllib"}
    assert imported - not_required == required
    assert "distributed" in read_requirements("options.extras_require", "dask")
    assert "mne-bids" in read_requirements("options.extras_require", "bids")
    assert "rsatoolbox" in read_requirements("options.extras_require", "rsa")


def test_reports_of_bugs_name_all_that_can_be_required():
    required = read_requirements("options", "install_requires")
    assert set(system.REQUIRED) == required - {"tomli"}  # which Python has from 3.11 on
    extras = (read_requirements("options.extras_require", name) for name in EXTRAS)
    assert set(system.OPTIONAL) == set.union(*extras)


def test_sys_info_says_what_is_installed(capsys, monkeypatch):
    monkeypatch.setattr(system, "OPTIONAL", ("no-such-package",))
    monkeypatch.setattr(system, "usable_memory", lambda: 3e9)
    mvpa_kfda.sys_info()
    text = capsys.readouterr().out
    lines = dict(re.split("  +", line, maxsplit=1) for line in text.splitlines())
    assert lines["mvpa_kfda"] == mvpa_kfda.__version__
    assert lines["Python"] == sys.version.split()[0]
    assert lines["Memory"] == "3 GB"
    for name in system.REQUIRED:
        assert lines[name] == importlib.metadata.version(name)
    assert lines["no-such-package"] == "not installed"
    pools = ThreadpoolController().select(user_api="blas").info()
    for pool in pools:
        assert pool["internal_api"] in text
    assert main(["sys-info"]) == 0
    assert capsys.readouterr().out == text


def test_contracts_are_about_rooms():
    contracts = read_settings()["tool"]["importlinter"]["contracts"]
    layers, core, checks, figures, circles = contracts
    listed = [n.strip() for line in layers["layers"] for n in line.split("|")]
    assert sorted(listed) == sorted(ROOMS)
    assert layers["exhaustive"]
    assert sorted(core["source_modules"]) == [f"mvpa_kfda.{name}" for name in CORE]
    # scikit-learn may load pandas by itself; the core still must not ask for it.
    assert set(core["forbidden_modules"]) == HEAVY | {"pandas"}
    drawing = {"cli", "reports", "viz"}
    assert figures["source_modules"] == sorted(
        f"mvpa_kfda.{name}" for name in ROOMS - drawing
    )
    # What makes results has no part in the models that they are compared with.
    plain = ("refit", "scoring")
    assert checks["source_modules"] == [f"mvpa_kfda.verification.{x}" for x in plain]
    makers = ("data", "decoding", "inference", "kfda", "metrics", "results")
    assert checks["forbidden_modules"] == [f"mvpa_kfda.{name}" for name in makers]
    assert circles["ancestors"] == ["mvpa_kfda"]


def test_the_package_reads_as_a_few_rooms():
    assert len(ROOMS) <= 13
    assert len([path for path in FILES if path.stem != "__init__"]) <= 216
    # What is public is said by the package's own list, not by names of files.
    assert [path for path in FILES if path.stem.startswith("_")] == [
        path for path in FILES if path.stem == "__init__"
    ]


def test_public_functions_and_classes_have_one_name_each():
    defined = [
        node.name
        for path in FILES
        for node in nodes_of(path)[0].body
        # What checks results shares nothing with what makes them.
        if "verification" not in path.parts
        and isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and "overload" not in map(ast.unparse, node.decorator_list)
    ]
    assert sorted({name for name in defined if defined.count(name) > 1}) == []


@cache
def private_names(path):
    """Return the names with one underscore that a module defines, at any depth."""
    nodes = nodes_of(path)
    named = {getattr(node, "name", None) for node in nodes}
    named |= {node.attr for node in nodes if is_stored(node)}
    named |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return {name for name in named if name and re.match("_[a-z]", name)}


@cache
def all_private_names():
    """Return all that modules of the package define with one underscore."""
    return set().union(*map(private_names, FILES))


def is_stored(node):
    """Tell whether a node sets an attribute."""
    return isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)


def private_reads(path):
    """Yield what a module reads that others keep to themselves, but not of results."""
    others = all_private_names() - private_names(path)
    for node in nodes_of(path):
        if isinstance(node, ast.Attribute) and node.attr in others:
            if ast.unparse(node.value) not in ("self", "cls", "super()"):
                yield f"{path.name}:{node.lineno} {ast.unparse(node)}"


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_results_are_asked_public_questions(room):
    for path in FILES:
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") == room:
            check_questions(path)


def check_questions(path):
    """Assert that a module asks results what anybody may."""
    nodes = nodes_of(path)
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    guessed = [
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in ("getattr", "hasattr")
        and ast.unparse(call.args[0]) == "result"
        and (len(call.args) > 2 or call.func.id == "hasattr")
    ]
    # Whatever is no result at all has to be told apart where users enter.
    assert [each for each in guessed if each != "hasattr(result, 'predicted')"] == []
    strings = [node for node in nodes if isinstance(node, ast.Compare)]
    compared = [
        ast.unparse(node)
        for node in strings
        if "mode" in {getattr(each, "value", None) for each in ast.walk(node)}
    ]
    assert compared == []
    if path.parent.name == "results":
        return
    assert list(private_reads(path)) == []


def test_every_module_has_a_file_of_tests_and_every_file_a_module():
    """Beside ``tests/peers``, and what is read by type checkers."""
    modules = {
        path.relative_to(PACKAGE)
        for path in FILES
        if path.name != "__init__.py" and path.parent != PACKAGE
    }
    tests = {
        Path(path.parent.name) / path.name.removeprefix("test_")
        for path in (ROOT / "tests").glob("*/*.py")
        if path.parent.name not in ("peers", "typing")
        if path.name not in ("__init__.py", "conftest.py")
    }
    assert sorted(modules - tests) == []
    assert sorted(tests - modules) == []
