"""The files around the package: what cites, describes, checks and releases it."""

import datetime
import re
import runpy
import shutil
import zipfile

import pytest
import yaml
from packaging.requirements import Requirement

from mvpa_kfda.reports.citations import REFERENCES
from tests.test_package import EXTRAS, ROOT, read_metadata

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))
RUN = (ROOT / ".ci" / "run").read_text("utf-8")
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"))


#: What jobs may do besides reading.
RIGHTS = {"codeql": {"security-events"}, "publish": {"id-token", "attestations"}}


def read_yaml(path):
    """Read a file of YAML; ``on`` is a truth value there, and a key of workflows."""
    return yaml.safe_load(path.read_text("utf-8").replace("\non:", "\n'on':"))


def steps():
    """Names of the steps of .ci/run, in order."""
    return re.search(r"(?m)^steps=\((.*)\)$", RUN).group(1).split()


@pytest.mark.parametrize("words", RELEASE["ALWAYS"])
def test_what_has_to_agree_at_any_time_does(words):
    assert list(RELEASE["ALWAYS"][words](RELEASE["Project"](ROOT))) == []


@pytest.fixture
def copied(tmp_path):
    """Return a function that changes a file in a copy of what describes the project."""
    names = ("CITATION.cff", "CHANGES.rst", "README.rst", "codemeta.json", "setup.cfg")
    folders = (".github", "doc/paper", "doc/benchmarks/figures")
    more = ("pyproject.toml", "mvpa_kfda/__init__.py")
    for name in (*names, *more, "doc/install.rst", "doc/package_page.rst"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in folders:
        shutil.copytree(ROOT / name, tmp_path / name)

    def change(name, pattern, new):
        path = tmp_path / name
        text, n = re.subn(pattern, new, path.read_text("utf-8"), count=1, flags=re.M)
        assert n == 1
        path.write_text(text, encoding="utf-8", newline="\n")
        return RELEASE["Project"](tmp_path)

    return change


@pytest.mark.parametrize(
    ("name", "pattern", "new", "fault"),
    [
        ("mvpa_kfda/__init__.py", r"0\.1\.0\.dev0", "0.2.0", "CITATION.cff version"),
        ("codemeta.json", '"MEG", ', "", "codemeta.json keywords"),
        ("CITATION.cff", "name: mvpa.*", "name: Me", "setup.cfg author"),
        ("CITATION.cff", r"\Z", "doi: 10.5281/zenodo.1\n", "codemeta.json identifier"),
        (
            "setup.cfg",
            r"^.*Python :: 3\.12\n",
            "",
            "setup.cfg: Python 3.10, 3.11, 3.13",
        ),
        (".github/workflows/tests.yml", ', "3.14"', "", "tests.yml: "),
        (".github/workflows/tests.yml", "@[0-9a-f]{40}", "@v7", "tests.yml: actions/"),
        ("doc/paper/paper.md", "^# Summary", "# Abstract", "paper.md: "),
        ("doc/paper/paper.md", r"@Hanke2009", "@Hanke2010", "paper: Hanke2009"),
    ],
)
def test_what_does_not_agree_is_found(copied, name, pattern, new, fault):
    project = copied(name, pattern, new)
    faults = [f for check in RELEASE["ALWAYS"].values() for f in check(project)]
    assert [text for text in faults if text.startswith(fault)] != []


def test_the_list_of_a_tag_says_what_is_missing(copied):
    date = datetime.date(2030, 1, 2)
    addresses = "repository-code: https://a.org/b\nurl: https://a.org\n"
    copied("CITATION.cff", r"\Z", f"date-released: {date}\n{addresses}")
    copied("CHANGES.rst", r"^(\d\S+) \(.+\)$", rf"\1 ({date})")
    for name in ("CITATION.cff", "codemeta.json", "mvpa_kfda/__init__.py"):
        project = copied(name, r"0\.1\.0\.dev0", "0.1.0")
    check = RELEASE["check_tag"]
    # Whether the front page tells how to install a release is seen by the next line.
    files = ("README.rst", "doc/install.rst")
    faults = {*check(project, "v0.1.0", date)}
    told = {f"{name}: does not say pip install mvpa-kfda" for name in files}
    assert faults <= told
    assert {*check(project, "v0.1.1", date)} - faults == {
        "tag: 'v0.1.1' should be 'v0.1.0'"
    }
    later = date + datetime.timedelta(8)
    (stale,) = {*check(project, "v0.1.0", later)} - faults
    assert "not of the last seven days" in stale
    project = copied("README.rst", "^Start$", "Start TODO")
    (placeholder,) = {*check(project, "v0.1.0", date)} - faults
    assert "'TODO' is a placeholder" in placeholder


def test_a_version_in_development_is_no_release():
    project = RELEASE["Project"](ROOT)
    if ".dev" in project.version:
        faults = list(RELEASE["check_tag"](project, "v0.1.0", datetime.date.today()))
        for name in RELEASE["FILLED_IN"]:
            assert f"CITATION.cff: fill in {name}" in faults


def test_the_figure_of_the_paper_is_that_of_the_benchmarks():
    own = (ROOT / "doc" / "paper" / "speed.png").read_bytes()
    assert own == (ROOT / "doc" / "benchmarks" / "figures" / "paper.png").read_bytes()


def test_numbers_of_the_paper_are_those_of_the_benchmarks():
    paper = (ROOT / "doc" / "paper" / "paper.md").read_text("utf-8")
    results = ROOT / "doc" / "benchmarks"
    times = re.findall(r"\| (\d[\d.]* (?:s|min))\b", paper)
    assert len(times) > 5
    text = "".join(
        (results / f"results_{name}.rst").read_text("utf-8")
        for name in ("epochs", "searchlight")
    )
    assert [time for time in times if time not in text] == []


def test_citation_says_who_and_what():
    citation = read_yaml(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    (article,) = citation["references"]
    papers = (ROOT / "doc" / "method" / "references.rst").read_text("utf-8")
    assert article["title"] in " ".join(papers.split())


def test_references_of_the_pages_are_those_that_reports_cite():
    page = (ROOT / "doc" / "method" / "references.rst").read_text("utf-8")
    entries = dict(re.findall(r"(?m)^\.\. \[(\w+)\] ((?:.+\n?(?:   .+\n)*))", page))
    assert list(entries) == sorted(entries)
    shared = entries.keys() & REFERENCES.keys()
    assert len(shared) > 30
    for key in shared:
        text, known = " ".join(entries[key].split()), REFERENCES[key]
        assert known.title.lower() in text.lower()
        assert f"({known.year})" in text
        listed = re.findall(r"https://doi\.org/(\S+)", text)
        assert listed == ([known.doi] if known.doi and "arXiv" not in text else [])


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
    names = re.findall(r"(?m)^        (tests/\S+)$", RUN)
    assert len(names) == len(set(names)) > 4
    for name in names:
        assert (ROOT / name).exists(), name


def test_a_workflow_runs_all_tests_with_the_oldest_versions():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    ((name, value),) = jobs["oldest"]["env"].items()
    assert f'if [ "${{{name}:-}}" = {value} ]' in RUN


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_steps_that_exist_and_few_rights(path):
    workflow = read_yaml(path)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        rights = {right for right, kind in job["permissions"].items() if kind != "read"}
        assert rights <= RIGHTS.get(name, set())
        assert 0 < job["timeout-minutes"] <= 180
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step)
            called = re.findall(r"bash \.ci/run (.+)", step.get("run", ""))
            if called == ["$STEPS"]:
                assert step["env"] == {"STEPS": "${{ matrix.step }}"}
                called = matrix["step"]
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert set(" ".join(called).split()) <= set(steps())


def test_workflows_run_every_step():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    called = re.findall(r"step: \[(.*)\]|bash \.ci/run (\w+)", text)
    words = re.findall(r"\w+", " ".join(map(" ".join, called)))
    assert sorted(words) == sorted(steps())


def test_release_uploads_without_a_password():
    jobs = read_yaml(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    rights = {"id-token": "write", "attestations": "write"}
    assert jobs["publish"]["permissions"] == rights
    (tried,) = [step for step in jobs["build"]["steps"] if "run" in step]
    assert {*tried["env"]} == {"TAG", "DIST"}
    assert all(f"${{{name}:" in RUN for name in tried["env"])
    assert "secrets." not in str(jobs)


def test_forms_of_issues_have_fields_of_their_own_and_ask_for_the_system():
    for path in FORMS:
        ids = [field["id"] for field in read_yaml(path)["body"]]
        assert len(ids) == len(set(ids)) > 0
    form = (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text("utf-8")
    assert "mvpa-kfda sys-info" in form


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
        *(
            "mvpa_kfda/bids/overview.jinja",
            "mvpa_kfda/bids/readme.txt",
            "mvpa_kfda/decoding/problems.txt",
            "mvpa_kfda/inference/corrections.txt",
            "mvpa_kfda/inference/null.txt",
            "mvpa_kfda/inference/permutation.txt",
            "mvpa_kfda/reports/references.bib",
            "mvpa_kfda/reports/templates/page.html",
            "mvpa_kfda/reports/templates/page.css",
            "mvpa_kfda/reports/templates/subject.txt",
            "mvpa_kfda-0.1.dist-info/licenses/LICENSE",
        ),
    )

    @pytest.mark.parametrize(
        ("missing", "more", "fault"),
        [
            (None, None, None),
            ("mvpa_kfda/py.typed", None, "lacks mvpa_kfda/py.typed"),
            ("mvpa_kfda-0.1.dist-info/licenses/LICENSE", None, "lacks the licence"),
            (None, "tests/build.py", "has tests/build.py, which does not"),
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
