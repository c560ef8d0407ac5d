"""The derivative dataset: names of files, what is in them, and what is said beside.

Every file has a JSON file of the same name that says how it came about.
"""

import json
import os
import re
import uuid
from pathlib import Path

import numpy as np

from .. import __version__
from ..reports.methods import methods_text
from ..utils.axes import BY_COLUMN
from ..utils.checks import quoted
from ..utils.files import check_target, move_into_place, write_text
from ..utils.text import plain_cells

NAME = "mvpa_kfda"
BIDS_VERSION = "1.10.0"
#: What BIDS has no names for, by patterns as of .gitignore.
_IGNORED = (
    *("*.h5", "*.html", "*.toml", "*.bib", "*.checkpoint*", "group", "group/**"),
    *("*_decoding.*", "*_peaks.*", "*_statmap.*", "*_betaseries*"),
)

#: Columns of the tables -> what they are.
COLUMNS = {
    **{name: (axis.about, axis.unit) for name, axis in BY_COLUMN.items() if axis.unit},
    **{name: (axis.about,) for name, axis in BY_COLUMN.items() if not axis.unit},
    "region": ("Name or number of the region",),
    "x": ("Place in the space of the image, to the right", "mm"),
    "y": ("Place in the space of the image, to the front", "mm"),
    "z": ("Place in the space of the image, upwards", "mm"),
    "n_features": ("Number of features that were decoded together",),
    "n_voxels": ("Number of voxels that were decoded together",),
    "score": ("Score at the peak",),
    "cluster": ("Number of the cluster that the peak is in",),
    "cluster_size_mm3": ("Size of the whole cluster", "mm^3"),
    "cluster_size": ("Number of positions in the whole cluster",),
    "p": ("p-value, not corrected for the number of positions",),
    "p_majority": (
        "p-value of the hypothesis that at most half of the population have an effect, "
        "not corrected for the number of positions",
    ),
    "gamma_0": ("Lower bound of the prevalence of the effect in the population",),
    "statistic": ("Statistic of the test over subjects",),
    "median": ("Median score over subjects",),
}


def describe_column(name, result):
    """Return what a JSON file says about a column of a table, or about a map."""
    if name in COLUMNS:
        description, *units = COLUMNS[name]
        return {"Description": description} | ({"Units": units[0]} if units else {})
    if name.startswith("p_"):
        majority = name.startswith("p_majority_")
        correction = name.removeprefix("p_majority_").removeprefix("p_")
        correction = correction.replace("_", "-")
        start = COLUMNS["p_majority"][0] if majority else COLUMNS["p"][0]
        start = start.removesuffix(", not corrected for the number of positions")
        return {"Description": f"{start}, with the correction {correction!r}"}
    if name in result.chances:
        at = result.worded_chance(name, "is {:g}".format)
        at = f"; {at}" if at else ""
        what = "Mean score over subjects" if result.has_subjects else "Score"
        return {"Description": f"{what}, {name.replace('_', ' ')}{at}"}
    return {"Description": name.replace("_", " ").capitalize()}


# ----------------------------------------------------------------------- names of files


def entity_value(name):
    """Return a name as the value of a BIDS entity, which has letters and digits."""
    first, *rest = re.split("[^A-Za-z0-9]+", name)
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def stem_of(first, entities):
    """Join entities to the beginning of a name: sub-01_task-faces_desc-time."""
    pairs = [f"{key}-{value}" for key, value in entities.items() if value is not None]
    return "_".join([first, *pairs])


def space_entities(space):
    """Take a space apart: MNI152Lin:res-2 has two entities."""
    if space is None:
        return {}
    first, *rest = space.split(":")
    named = {} if "-" in first else {"space": first}
    rest = rest if named else [first, *rest]
    return named | dict(part.split("-", 1) for part in rest)


# ------------------------------------------------------------------------------ dataset


def check_output(folder, *inputs):
    """Refuse folders for the output where it would do harm."""
    target = Path(os.path.realpath(folder))
    for source in filter(None, inputs):
        source = Path(os.path.realpath(source))
        if target == source:
            raise ValueError(
                f"OUTPUT_DIR {folder} is the dataset itself. Use a separate folder, "
                f"such as {source / 'derivatives' / NAME}."
            )
        inside = target.parts[len(source.parts) :] if source in target.parents else ()
        if inside and inside[0].startswith("sub-"):
            raise ValueError(
                f"OUTPUT_DIR {folder} is inside of {inside[0]} of the dataset. Use a "
                f"separate folder, such as {source / 'derivatives' / NAME}."
            )
    if target.exists() and not target.is_dir():
        raise ValueError(f"OUTPUT_DIR {folder} is a file. Choose a folder.")
    described = target / "dataset_description.json"
    if described.is_file():
        content = read_json(described)
        makers = content.get("GeneratedBy") if isinstance(content, dict) else None
        makers = makers if isinstance(makers, list) else []
        names = [each.get("Name") for each in makers if isinstance(each, dict)]
        if NAME not in names:
            raise ValueError(
                f"OUTPUT_DIR {folder} is another dataset, by its "
                f"dataset_description.json made by {quoted(names) or 'nobody named'}. "
                "Choose a new folder."
            )
    elif target.is_dir() and any(p.name[0] != "." for p in target.iterdir()):
        raise ValueError(
            f"OUTPUT_DIR {folder} holds files, but is no dataset of {NAME}: it has no "
            "dataset_description.json. Choose a new folder, or an empty one."
        )


_README = f"""# Decoding results of mvpa_kfda

Results of `mvpa-kfda bids`, version {__version__}: multivariate pattern analyses by
kernel Fisher discriminants, cross-validated exactly, with label permutations.

* `index.html`: an overview of all results, with links to a page for each subject and
  each test of the group.
* `sub-*/`: for each subject results (`*_decoding.h5`, read by
  `mvpa_kfda.load_result`), tables (`*_decoding.tsv`, `*_peaks.tsv`) and maps
  (`*_statmap.nii.gz`), with a JSON file for each that says how it was made.
* `group/`: the same for tests across subjects.
* `*_config.toml`: the options of the last run; `CITATION.bib`: what to cite.

`dataset_description.json` names the datasets that the results are of. Files that BIDS
has no names for are listed in `.bidsignore`.
"""


def describe_dataset(folder, links):
    """Write what the derivative dataset is, and link it to those it comes from."""
    folder.mkdir(parents=True, exist_ok=True)
    links = {name: _relative(path, folder) for name, path in links.items() if path}
    content = {
        "Name": "Decoding results of mvpa_kfda",
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [
            {
                "Name": NAME,
                "Version": __version__,
                "Description": "Exactly cross-validated kernel Fisher discriminant "
                "analysis with label permutations",
            }
        ],
        "SourceDatasets": [{"URL": url} for url in links.values()],
        "DatasetLinks": links,
    }
    write_json(folder / "dataset_description.json", content)
    lines = "".join(f"{line}\n" for line in _IGNORED)
    in_place(folder / ".bidsignore", lambda draft: write_text(draft, lines))
    readme = folder / "README.md"
    if not readme.exists():  # others may have said more
        in_place(readme, lambda draft: write_text(draft, _README))


def _relative(path, folder):
    """Return where a dataset is, as seen from another folder."""
    return Path(
        os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
    ).as_posix()


def read_json(path):
    """Return what a JSON file holds, None if it is none."""
    try:
        if not path.is_file():  # a pipe would have no end
            return None
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None


def as_dict(content):
    """Return what is read of a JSON file if it has names, else nothing."""
    return content if isinstance(content, dict) else {}


def write_json(path, content):
    """Write a JSON file, whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False, default=_plain)
    in_place(path, lambda draft: write_text(draft, f"{text}\n"))


def as_json(content):
    """Return what a JSON file gives back of some content."""
    return json.loads(json.dumps(content, default=_plain))


def _plain(value):
    """Return a value as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def add_citations(folder, result, corrections):
    """Add what was used for a result to the works to cite."""
    path = folder / "CITATION.bib"
    texts = [path.read_text(encoding="utf-8")] if path.is_file() else []
    names = corrections if result.has_p else [None]
    texts += [methods_text(result, "bibtex", correction=name) for name in names]
    entries = {entry.strip() for text in texts for entry in re.split(r"\n(?=@)", text)}
    # In the order of the authors, which the keys begin with.
    ordered = sorted(filter(None, entries), key=lambda entry: entry.partition("{")[2])
    text = "\n\n".join(ordered)
    in_place(path, lambda draft: write_text(draft, f"{text}\n"))


def in_place(path, write):
    """Write a file under another name first, so that there is never half of it."""
    check_target(path)
    # Other subjects may be at work on the same dataset, in other processes.
    draft = path.with_name(f".{uuid.uuid4().hex[:8]}_{path.name[-50:]}")
    try:
        write(draft)
        move_into_place(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_about(path, collect, word):
    """Write a text about what lies in a folder, again if more came in meanwhile.

    Several processes may do so at once: whoever is the last to write has looked again
    since, so that nothing is missing.
    """
    written = None
    while (found := collect()) != written:
        written, text = found, word(found)
        in_place(path, lambda draft, text=text: write_text(draft, text))


def write_table(table, path):
    """Write a table as BIDS has them."""

    def write(draft):
        plain_cells(table).to_csv(
            draft, sep="\t", index=False, na_rep="n/a", lineterminator="\n"
        )

    in_place(path, write)


def about_files(sources):
    """Return what JSON files say of who made something, and from which files."""
    return {"Sources": sources, "GeneratedBy": {"Name": NAME, "Version": __version__}}
