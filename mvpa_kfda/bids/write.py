"""The derivative dataset: names of files, what is in them, and what is said beside.

Every file has a JSON file of the same name that says how it came about.
"""

import json
import os
import re
from pathlib import Path

from .. import __version__
from ..reports.methods import methods_text
from ..utils.axes import BY_COLUMN
from ..utils.checks import quoted
from ..utils.files import write_json, write_text, write_whole
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
    """What a JSON file says about a column of a table, or about a map."""
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
    """A name as the value of a BIDS entity, which has letters and digits."""
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
        makers = read_json(described).get("GeneratedBy")
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


def describe_dataset(folder, links):
    """Write what the derivative dataset is, and link it to those it comes from."""
    folder.mkdir(parents=True, exist_ok=True)
    links = {name: relative(path, folder) for name, path in links.items() if path}
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
    write_json(folder / "dataset_description.json", content, follow=False)
    lines = "".join(f"{line}\n" for line in _IGNORED)
    write_text(folder / ".bidsignore", lines, follow=False)
    if not (readme := folder / "README.md").exists():  # others may have said more
        text = Path(__file__).with_name("readme.txt").read_text(encoding="utf-8")
        write_text(readme, text.format(version=__version__), follow=False)


def relative(path, folder):
    """Where something is, as seen from a folder."""
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return Path(os.path.relpath(path, folder)).as_posix()


def read_json(path):
    """What a JSON file holds by name; nothing if there is none, or it has no names."""
    try:
        if not path.is_file():  # a pipe would have no end
            return {}
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return {}
    return content if isinstance(content, dict) else {}


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
    write_text(path, f"{text}\n", follow=False)


def write_about(path, collect, word):
    """Write a text about what lies in a folder, again if more came in meanwhile.

    Several processes may do so at once: whoever is the last to write has looked again
    since, so that nothing is missing.
    """
    written = None
    while (found := collect()) != written:
        written, text = found, word(found)
        write_text(path, text, follow=False)


def write_table(table, path):
    """Write a table as BIDS has them."""

    def write(draft):
        plain_cells(table).to_csv(
            draft, sep="\t", index=False, na_rep="n/a", lineterminator="\n"
        )

    write_whole(path, write, follow=False)


def about_files(sources):
    """What JSON files say of who made something, and from which files."""
    return {"Sources": sources, "GeneratedBy": {"Name": NAME, "Version": __version__}}
