"""Go through the list of a release, as far as a machine can.

Run ``python .ci/release.py`` for what has to agree at any time, and
``python .ci/release.py --tag v0.1.0 dist/*`` for what a tag and files to upload need.
The addresses, the digital object identifier (DOI) and the date of a release stand in
CITATION.cff; where else they are needed, this script says. It needs PyYAML.
"""

import argparse
import configparser
import datetime
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from itertools import pairwise
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
#: What a release has in CITATION.cff; a DOI may come later, from the archive.
FILLED_IN = ("date-released", "repository-code", "url")
STATUS = {
    "3 - Alpha": "wip",
    "4 - Beta": "active",
    "5 - Production/Stable": "active",
}
PLACEHOLDER = re.compile(
    r"\b(?:TODO|FIXME|TBD|XXX+)\b|in development|\.dev\d|0000-0000"
)
#: Files that state what the release is.
STATED = (
    *("CITATION.cff", "codemeta.json", "setup.cfg", "README.rst", "CHANGES.rst"),
    *("doc/install.rst", "doc/package_page.rst", "doc/paper/paper.md"),
)
#: The sections of an article in the Journal of Open Source Software, and its length.
SECTIONS = [
    *("Summary", "Statement of need", "State of the field", "Software design"),
    *("Research impact statement", "AI usage disclosure", "Acknowledgements"),
    "References",
]
WORDS = range(750, 1751)
USES = re.compile(r"(?m)^ *(?:- )?uses: *(\S+)(.*)$")
PIN = re.compile(r"([\w.-]+/[\w.-]+)(?:/[\w./-]+)?@([0-9a-f]{40})")


class Project:
    """The files of a checkout that describe it, read once."""

    def __init__(self, root):
        self.root = Path(root)
        self.citation = yaml.safe_load(self.read("CITATION.cff"))
        self.codemeta = json.loads(self.read("codemeta.json"))
        self.config = configparser.ConfigParser()
        self.config.read_string(self.read("setup.cfg"))
        self.metadata = self.config["metadata"]
        init = self.read("mvpa_kfda/__init__.py")
        self.version = re.search(r'(?m)^__version__ = "(.+)"$', init)[1]

    def read(self, name):
        """Return the text of a file."""
        return (self.root / name).read_text(encoding="utf-8")

    def lines(self, name):
        """Return the lines of an entry under [metadata] of setup.cfg."""
        return self.metadata.get(name, "").strip().splitlines()

    def pythons(self):
        """Return the versions of Python that the classifiers declare, in order."""
        start = "Programming Language :: Python :: 3."
        found = [line for line in self.lines("classifiers") if line.startswith(start)]
        return [line.rpartition(" ")[2] for line in found]

    def heading(self):
        """Return the version and what stands beside it in the first heading."""
        found = re.search(
            r"(?m)^(\d+\.\d+\.\d+\S*) \((.+)\)\n-+$", self.read("CHANGES.rst")
        )
        return found.groups() if found else (None, None)


def compare(where, found, expected):
    """Yield a fault if something is not what it should be."""
    if found != expected:
        yield f"{where}: {found!r} should be {expected!r}"


def check_descriptions(project):
    """Yield where CITATION.cff, codemeta.json and setup.cfg contradict each other."""
    citation, codemeta, metadata = project.citation, project.codemeta, project.metadata
    yield from compare("CITATION.cff version", citation["version"], project.version)
    yield from compare("codemeta.json version", codemeta["version"], project.version)
    yield from compare(
        "CHANGES.rst", project.heading()[0], project.version.split(".dev")[0]
    )
    yield from compare("CITATION.cff license", citation["license"], metadata["license"])
    licence = "https://spdx.org/licenses/" + metadata["license"]
    yield from compare("codemeta.json license", codemeta["license"], licence)
    summary = metadata["description"]
    yield from compare("codemeta.json description", codemeta["description"], summary)
    yield from compare(
        "CITATION.cff title", citation["title"], f"mvpa_kfda: {_title(summary)}"
    )
    keywords = [word.strip() for word in metadata["keywords"].split(",")]
    yield from compare("CITATION.cff keywords", citation["keywords"], keywords)
    yield from compare("codemeta.json keywords", codemeta["keywords"], keywords)
    names = [_name(author) for author in citation["authors"]]
    yield from compare("setup.cfg author", metadata["author"], ", ".join(names))
    found = [_name(author) for author in codemeta["author"]]
    yield from compare("codemeta.json author", found, names)
    (status,) = [
        line.partition(" :: ")[2]
        for line in project.lines("classifiers")
        if line.startswith("Development Status")
    ]
    found = codemeta["developmentStatus"]
    yield from compare("codemeta.json developmentStatus", found, STATUS[status])


def _title(summary):
    """Return the description without its field of use, as the title of a work."""
    first = summary.partition(",")[0].removesuffix(".")
    return first[0].lower() + first[1:]


def _name(author):
    """Return the name of a person, or of a group, in one of the two formats."""
    names = [author.get(key) for key in ("given-names", "givenName")]
    names += [author.get(key) for key in ("family-names", "familyName", "name")]
    return " ".join(filter(None, names))


def check_addresses(project):
    """Yield which addresses of CITATION.cff are missing elsewhere, or only there."""
    citation, codemeta = project.citation, project.codemeta
    source, home, doi = (citation.get(key) for key in ("repository-code", "url", "doi"))
    urls = dict(
        re.split(r" *= *", line, maxsplit=1) for line in project.lines("project_urls")
    )
    issues = f"{source}/issues" if source else None
    yield from compare("setup.cfg Source", urls.get("Source"), source)
    yield from compare("setup.cfg Documentation", urls.get("Documentation"), home)
    yield from compare("setup.cfg Issues", urls.get("Issues"), issues)
    yield from compare(
        "codemeta.json codeRepository", codemeta.get("codeRepository"), source
    )
    yield from compare("codemeta.json url", codemeta.get("url"), home)
    yield from compare(
        "codemeta.json issueTracker", codemeta.get("issueTracker"), issues
    )
    date = citation.get("date-released")
    found = codemeta.get("datePublished")
    yield from compare("codemeta.json datePublished", found, date and str(date))
    identifier = f"https://doi.org/{doi}" if doi else "mvpa-kfda"
    yield from compare("codemeta.json identifier", codemeta["identifier"], identifier)
    if doi and doi not in project.read("README.rst"):
        yield f"README.rst: the DOI {doi} is missing"
    for address in filter(None, (source, home)):
        if not re.fullmatch(r"https://[\w.-]+\.[a-z]+(/[\w./-]*[\w-])?/?", address):
            yield f"CITATION.cff: {address} is no address"
    if doi and not re.fullmatch(r"10\.\d{4,}/\S+", doi):
        yield f"CITATION.cff: {doi} is no DOI"


def check_pythons(project):
    """Yield where versions of Python are not the declared ones, without gaps."""
    declared = project.pythons()
    minors = [int(version.partition(".")[2]) for version in declared]
    if any(after != before + 1 for before, after in pairwise(minors)):
        yield f"setup.cfg: Python {', '.join(declared)} has gaps"
    oldest = project.config["options"]["python_requires"]
    yield from compare("setup.cfg python_requires", oldest, f">={declared[0]}")
    found = project.codemeta["runtimePlatform"]
    yield from compare("codemeta.json runtimePlatform", found, f"Python {oldest}")
    target = re.search(
        r'(?m)^target-version = "(.+)"$', project.read("pyproject.toml")
    )[1]
    yield from compare("pyproject.toml target-version", target, f"py3{minors[0]}")
    jobs = yaml.safe_load(project.read(".github/workflows/tests.yml"))["jobs"]
    matrix = jobs["systems"]["strategy"]["matrix"]
    yield from compare("tests.yml", matrix["python"], declared)
    systems = {*matrix["os"], *(row["os"] for row in matrix["include"])}
    systems = {name.partition("-")[0] for name in systems}
    yield from compare("tests.yml", systems, {"ubuntu", "macos", "windows"})


def check_pins(project):
    """Yield the actions that are not pinned to one commit, with its version."""
    seen = {}
    for path in sorted((project.root / ".github" / "workflows").glob("*.yml")):
        for action, comment in USES.findall(path.read_text(encoding="utf-8")):
            pin = PIN.fullmatch(action)
            version = re.fullmatch(r" # (v\d+\.\d+\.\d+)", comment)
            if not (pin and version):
                yield f"{path.name}: {action} is not pinned to a commit and version"
            elif seen.setdefault(pin[1], (pin[2], version[1])) != (pin[2], version[1]):
                yield f"{path.name}: {pin[1]} has two versions"


def check_paper(project):
    """Yield what an article in the Journal of Open Source Software may not have."""
    text = project.read("doc/paper/paper.md")
    _, front, body = text.split("---\n", 2)
    front = yaml.safe_load(front)
    yield from compare("paper.md title", front["title"], project.citation["title"])
    known = {"Python", *project.citation["keywords"]}
    if unknown := sorted({*front["tags"]} - known):
        yield f"paper.md: the tags {unknown} are no keywords of CITATION.cff"
    names = [author["name"] for author in front["authors"]]
    found = [_name(author) for author in project.citation["authors"]]
    yield from compare("paper.md authors", names, found)
    yield from compare("paper.md", re.findall(r"(?m)^# (.+)$", body), SECTIONS)
    n_words = len(body.partition("# References")[0].split())
    if n_words not in WORDS:
        yield f"paper.md: {n_words} words, not {WORDS.start} to {WORDS.stop - 1}"
    listed = re.findall(r"(?m)^@\w+\{([^,]+),$", project.read("doc/paper/paper.bib"))
    if sorted({*listed}) != sorted(listed):
        yield "paper.bib: entries are listed twice"
    cited = {*re.findall(r"(?<!\w)@([A-Za-z]\w*)", body)}
    for name in sorted(cited ^ {*listed}):
        yield f"paper: {name} is {'not in paper.bib' if name in cited else 'not cited'}"
    for figure in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", body):
        if not (project.root / "doc" / "paper" / figure).is_file():
            yield f"paper.md: there is no figure {figure}"


def check_tag(project, tag, today):
    """Yield what keeps a tag from being a release."""
    yield from compare("tag", tag, f"v{project.version}")
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", project.version):
        yield f"version: {project.version} is none of a release"
    for name in FILLED_IN:
        if name not in project.citation:
            yield f"CITATION.cff: fill in {name}"
    date = project.citation.get("date-released")
    yield from compare("CHANGES.rst date", project.heading()[1], str(date))
    if date and not 0 <= (today - date).days <= 7:
        yield f"CITATION.cff: date-released {date} is not of the last seven days"
    for name in STATED:
        for number, line in enumerate(project.read(name).splitlines(), 1):
            if found := PLACEHOLDER.search(line):
                yield f"{name}, line {number}: {found[0]!r} is a placeholder"
    for name in ("README.rst", "doc/install.rst"):
        if "pip install mvpa-kfda" not in project.read(name):
            yield f"{name}: does not say pip install mvpa-kfda"
    if (project.root / ".git").exists():
        if _git(project.root, "status", "--porcelain"):
            yield "git: there are changes that are not committed"
        if tag not in _git(project.root, "tag", "--points-at", "HEAD").split():
            yield f"git: the commit is not tagged {tag}"


def _git(root, *command):
    """Return what git says."""
    command = ["git", "-C", str(root), *command]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_files(project, paths):
    """Yield what the files to upload say of themselves that is not so."""
    kinds = sorted(path.suffix for path in paths)
    yield from compare("files", kinds, [".gz", ".whl"])
    for path in paths:
        found = Parser().parsestr(_read_metadata(path))
        yield from compare(f"{path.name} Version", found["Version"], project.version)
        oldest = project.config["options"]["python_requires"]
        yield from compare(f"{path.name} Python", found["Requires-Python"], oldest)
        classifiers = found.get_all("Classifier")
        expected = project.lines("classifiers")
        yield from compare(f"{path.name} Classifier", classifiers, expected)
        urls = [line.replace(" = ", ", ") for line in project.lines("project_urls")]
        yield from compare(
            f"{path.name} Project-URL", found.get_all("Project-URL", []), urls
        )


def _read_metadata(path):
    """Return the metadata in a wheel or a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            (name,) = (
                n for n in archive.namelist() if n.endswith(".dist-info/METADATA")
            )
            return archive.read(name).decode("utf-8")
    with tarfile.open(path) as archive:
        name = path.name.removesuffix(".tar.gz") + "/PKG-INFO"
        return archive.extractfile(name).read().decode("utf-8")


#: What has to hold at any time.
ALWAYS = {
    "The files that describe the project agree": check_descriptions,
    "Addresses are those of CITATION.cff": check_addresses,
    "Versions of Python are those that are tested": check_pythons,
    "Actions are pinned": check_pins,
    "The paper has the form that the journal asks for": check_paper,
}
#: What no machine can see.
PEOPLE = (
    "The weekly workflow is green, or you know why not.",
    "The environment pypi has a second person who approves, and the index trusts it.",
    "After the upload: archive the release, and enter its DOI in CITATION.cff.",
    "Before the paper is submitted: its authors are persons with affiliations, and it "
    "names the funding, the AI tools with versions, and who reviewed their output.",
)


def main(arguments=None):
    """Print the list with what is wrong; return the status of the process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", help="of the release, such as v0.1.0")
    parser.add_argument("files", nargs="*", type=Path, help="what will be uploaded")
    options = parser.parse_args(arguments)
    project = Project(ROOT)
    parts = {words: list(check(project)) for words, check in ALWAYS.items()}
    if options.tag:
        today = datetime.datetime.now(datetime.timezone.utc).date()
        parts["The tag is a release"] = list(check_tag(project, options.tag, today))
    if options.files:
        words = "The files to upload say what the project says"
        parts[words] = list(check_files(project, options.files))
    for words, faults in parts.items():
        print(f"[{' ' if faults else 'x'}] {words}", *faults, sep="\n      ")
    if options.tag:
        print(*(f"[ ] {words}" for words in PEOPLE), sep="\n")
    return int(any(parts.values()))


if __name__ == "__main__":
    sys.exit(main())
