"""Check what a wheel and a source distribution hold.

Run ``python .ci/contents.py dist/*``.
"""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

#: In a wheel there are the package and its metadata, nothing else.
WHEEL = re.compile(
    r"mvpa_kfda/(__init__\.pyi|py\.typed|([a-z]+/){0,2}[a-z_]+\.(py|txt|bib|html|css|js|jinja))"
    r"|mvpa_kfda-[^/]+\.dist-info/(licenses/)?[\w.]+"
)
NEEDED = {
    ".whl": (
        *("mvpa_kfda/__init__.py", "mvpa_kfda/__init__.pyi", "mvpa_kfda/py.typed"),
        "mvpa_kfda/bids/overview.jinja",
        "mvpa_kfda/bids/readme.txt",
        "mvpa_kfda/decoding/problems.txt",
        *("mvpa_kfda/inference/corrections.txt", "mvpa_kfda/inference/null.txt"),
        "mvpa_kfda/inference/permutation.txt",
        "mvpa_kfda/reports/references.bib",
        *(
            "mvpa_kfda/reports/templates/page.html",
            "mvpa_kfda/reports/templates/page.css",
        ),
        "mvpa_kfda/reports/templates/subject.txt",
    ),
    ".gz": (
        *("LICENSE", "CHANGES.rst", "CITATION.cff", "codemeta.json"),
        *("tests/build.py", "doc/paper/paper.md", "doc/paper/paper.bib"),
    ),
}


def read_names(path):
    """Return the names of the files, in a source distribution without its folder."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.isfile()]
    return [member.name.partition("/")[2] for member in members]


def find_faults(path):
    """Return what is missing in a distribution, and what should not be there."""
    names = read_names(path)
    faults = [f"lacks {name}" for name in NEEDED[path.suffix] if name not in names]
    odd = [name for name in names if name.endswith((".pyc", ".so", ".h5", ".fif"))]
    if path.suffix == ".whl":
        odd += [name for name in names if not WHEEL.fullmatch(name)]
        if not any(name.endswith("licenses/LICENSE") for name in names):
            faults.append("lacks the licence")
    return faults + [f"has {name}, which does not belong there" for name in odd]


if __name__ == "__main__":
    faults = [
        f"{path} {fault}" for path in sys.argv[1:] for fault in find_faults(Path(path))
    ]
    sys.exit("\n".join(faults) or 0)
