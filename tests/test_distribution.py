"""The files around the package: what cites, describes, checks and releases it."""

import json
import re
import runpy
import zipfile

import pytest
import yaml
from packaging.requirements import Requirement

import mvpa_kfda
from test_package import EXTRAS, ROOT, read_metadata

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
RUN = (ROOT / ".ci" / "run").read_text()


def read_yaml(path):
    """Read a file of YAML; ``on`` is a truth value there, and a key of workflows."""
    return yaml.safe_load(path.read_text("utf-8").replace("\non:", "\n'on':"))


def steps():
    """Names of the steps of .ci/run, in order."""
    return re.search(r"(?m)^steps=\((.*)\)$", RUN).group(1).split()


def test_version_and_licence_are_the_same_everywhere():
    citation = read_yaml(ROOT / "CITATION.cff")
    description = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
    metadata = read_metadata()
    assert citation["version"] == description["version"] == mvpa_kfda.__version__
    assert citation["license"] == metadata["metadata"]["license"]
    assert description["license"].endswith("/" + citation["license"])
    assert description["description"] == metadata["metadata"]["description"]
    oldest = metadata["options"]["python_requires"]
    assert description["runtimePlatform"] == f"Python {oldest}"
    assert citation["title"].startswith("mvpa_kfda: ")


def test_citation_says_who_and_what():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    (article,) = citation["references"]
    method = (ROOT / "doc" / "method.rst").read_text("utf-8")
    assert article["title"] in " ".join(method.split())


def test_package_page_has_no_relative_figure():
    name = read_metadata()["metadata"]["long_description"].removeprefix("file: ")
    page = (ROOT / name).read_text("utf-8")
    assert re.findall(r"(?:image|figure):: (?!https://)", page) == []
    assert ":doc:" not in page
    for extra in read_metadata()["options.extras_require"]:
        assert f"``{extra}``" in page
        assert f"``{extra}``" in (ROOT / "doc" / "install.rst").read_text("utf-8")


def test_oldest_versions_are_those_that_are_promised():
    script = runpy.run_path(str(ROOT / ".ci" / "oldest.py"))
    oldest = [Requirement(line) for line in script["read_pins"](ROOT / "setup.cfg")]
    extras = read_metadata()["options.extras_require"]
    text = [
        read_metadata()["options"]["install_requires"],
        *map(extras.get, script["EXTRAS"]),
    ]
    assert {*EXTRAS} - {*script["EXTRAS"]} == {"rsa"}
    lines = "\n".join(text).splitlines()
    promised = [Requirement(line) for line in lines if line.strip()]
    assert {r.name for r in promised} <= {r.name for r in oldest}
    for requirement in promised:
        (lowest,) = requirement.specifier
        (pin,) = [r for r in oldest if r.name == requirement.name]
        assert lowest.operator == ">="
        assert str(pin.specifier) == f"=={lowest.version}"


def test_every_step_of_the_checks_is_a_function():
    assert len(steps()) == len(set(steps())) > 0
    for step in steps():
        assert re.findall(rf"(?m)^{step}\(\) {{$", RUN) == [f"{step}() {{"]


def test_tests_of_the_oldest_versions_are_there():
    names = ",".join(re.findall(r"tests/test_{(.*)}\.py", RUN)).split(",")
    assert len(names) == len(set(names)) > 4
    for name in names:
        assert (ROOT / "tests" / f"test_{name}.py").exists(), name


def test_a_workflow_runs_all_tests_with_the_oldest_versions():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    ((name, value),) = jobs["oldest"]["env"].items()
    assert f'if [ "${{{name}:-}}" = {value} ]' in RUN


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_steps_that_exist_and_few_rights(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 60
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            called = re.findall(r"bash \.ci/run (.+)", step.get("run", ""))
            if called == ["${{ matrix.step }}"]:
                called = matrix["step"]
            assert set(" ".join(called).split()) <= set(steps())


def test_workflows_run_every_step():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    called = re.findall(r"step: \[(.*)\]|bash \.ci/run (\w+)", text)
    words = re.findall(r"\w+", " ".join(map(" ".join, called)))
    assert sorted(words) == sorted(steps())


def test_release_uploads_without_a_password():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in str(jobs)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_form_is_one(path):
    form = read_yaml(path)
    assert {"name", "description", "body"} <= set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids)) > 0
    for field in form["body"]:
        assert field["type"] == "textarea"
        assert field["attributes"]["label"]


def test_report_of_a_bug_asks_for_the_system():
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text("utf-8")
    assert "mvpa-kfda sys-info" in form
    assert "mvpa_kfda.sys_info()" in form


def test_hooks_are_lines_of_the_checks():
    (repo,) = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert f"run .venv/bin/{hook['entry']}" in RUN


class TestContents:
    """What a wheel may hold."""

    GOOD = (
        *("mvpa_kfda/__init__.py", "mvpa_kfda/__init__.pyi", "mvpa_kfda/py.typed"),
        *("mvpa_kfda/viz/time.py", "mvpa_kfda-0.1.dist-info/METADATA"),
        "mvpa_kfda-0.1.dist-info/licenses/LICENSE",
    )

    @pytest.mark.parametrize(
        ("missing", "more", "fault"),
        [
            (None, None, None),
            ("mvpa_kfda/py.typed", None, "lacks mvpa_kfda/py.typed"),
            ("mvpa_kfda-0.1.dist-info/licenses/LICENSE", None, "lacks the licence"),
            (None, "tests/test_oracle.py", "has tests/test_oracle.py, which does not"),
            (None, "mvpa_kfda/data/words.h5", "has mvpa_kfda/data/words.h5"),
        ],
    )
    def test_finds_faults(self, tmp_path, missing, more, fault):
        path = tmp_path / "mvpa_kfda-0.1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in {*self.GOOD, more} - {missing, None}:
                archive.writestr(name, "")
        found = runpy.run_path(str(ROOT / ".ci" / "contents.py"))["find_faults"](path)
        assert bool(found) == bool(fault)
        assert all(text.startswith(fault) for text in found)
