"""The derivative dataset: names of files, what is in them, and what is said beside.

Every file has a JSON file of the same name that says how it came about. Of each subject
and each test of the group there is a page, and one that links all.
"""

import json
import os
import re
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment

from .. import __version__
from ..inference.corrections import CORRECTIONS
from ..reports.html import STYLE, facts_html
from ..reports.methods import methods_text
from ..utils.axes import BY_COLUMN
from ..utils.checks import counted, quoted
from ..utils.files import write_json, write_text, write_whole
from ..utils.fingerprints import file_checksum
from ..utils.text import plain_cells
from ..verification.verdict import record_path
from .events import word_runs
from .find import entities_of

NAME = "mvpa_kfda"
BIDS_VERSION = "1.10.0"
#: What BIDS has no names for, by patterns as of .gitignore.
_IGNORED = (
    *("*.h5", "*.html", "*.toml", "*.bib", "*.checkpoint*", "group", "group/**"),
    *("*_decoding.*", "*_peaks.*", "*_statmap.*", "*_betaseries*"),
)

#: Facts that the rest of the page has already.
_KNOWN = ("NumberOfTrials", "TrialsPerClass", "ValuesFromTo")
#: The page that links all others.
OVERVIEW = "index.html"
#: What a page ends with, before a checksum.
_SEAL = b"\n<!-- checksum "
#: What MNE-BIDS calls datasets that nobody has named.
_UNNAMED = "unspecified"
#: Columns of the tables -> what they are.
COLUMNS = {name: axis.about for name, axis in BY_COLUMN.items()} | {
    "region": "Name or number of the region",
    "x": "Place in the space of the image, to the right",
    "y": "Place in the space of the image, to the front",
    "z": "Place in the space of the image, upwards",
    "n_features": "Number of features that were decoded together",
    "n_voxels": "Number of voxels that were decoded together",
    "score": "Score at the peak",
    "cluster": "Number of the cluster that the peak is in",
    "cluster_size_mm3": "Size of the whole cluster",
    "cluster_size": "Number of positions in the whole cluster",
    "p": "p-value, not corrected for the number of positions",
    "p_majority": "p-value of the hypothesis that at most half of the population have "
    "an effect, not corrected for the number of positions",
    "gamma_0": "Lower bound of the prevalence of the effect in the population",
    "statistic": "Statistic of the test over subjects",
    "median": "Median score over subjects",
}
_UNITS = {name: axis.unit for name, axis in BY_COLUMN.items() if axis.unit}
_UNITS |= dict.fromkeys("xyz", "mm") | {"cluster_size_mm3": "mm^3"}


def describe_column(name, result):
    """What a JSON file says about a column of a table, or about a map."""
    if name in COLUMNS:
        units = {"Units": _UNITS[name]} if name in _UNITS else {}
        return {"Description": COLUMNS[name]} | units
    if name.startswith("p_"):
        kind = "p_majority" if name.startswith("p_majority_") else "p"
        start = COLUMNS[kind].removesuffix(
            ", not corrected for the number of positions"
        )
        correction = name.removeprefix(f"{kind}_").replace("_", "-")
        return {"Description": f"{start}, with the correction {correction!r}"}
    if name in result.chances:
        at = result.worded_chance(name, "is {:g}".format)
        what = "Mean score over subjects" if result.has_subjects else "Score"
        words = f"{what}, {name.replace('_', ' ')}{f'; {at}' if at else ''}"
        return {"Description": words}
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
        inside = target.parts[len(source.parts) :] if source in target.parents else ()
        where = "the dataset itself" if target == source else ""
        if inside and inside[0].startswith("sub-"):
            where = f"inside of {inside[0]} of the dataset"
        if where:
            raise ValueError(
                f"OUTPUT_DIR {folder} is {where}. Use a separate folder, such as "
                f"{source / 'derivatives' / NAME}."
            )
    if target.exists() and not target.is_dir():
        raise ValueError(f"OUTPUT_DIR {folder} is a file. Choose a folder.")
    described = target / "dataset_description.json"
    if described.is_file():
        makers = part_of(read_json(described), "GeneratedBy", list)
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


def part_of(record, name, kind=dict):
    """What a record, which may be edited, has by a name; empty if of no such kind."""
    value = record.get(name)
    return value if isinstance(value, kind) else kind()


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


# ------------------------------------------------------------------------------- pages


def write_page(paths, page, title):
    """Write the page of some results; return that it is done, and where it is."""
    from ..reports.page import report  # draws

    named = {_word(_entities(path)): path for path in paths}
    made = report(named, None, title, correction=_corrections_of(paths[0]))
    for name, path in named.items():
        if facts := _facts_of(path):
            heading = "How trials were made" + (f": {name}" if len(named) > 1 else "")
            html = f'<div class="mvpa">{facts_html(facts)}</div>'
            made.add_html(html, title=heading, tags=("trials",))

    def write(draft):
        made.save(draft, open_browser=False, overwrite=True, verbose="error")

    write_whole(page, write, follow=False)
    return "done", str(page)


def _corrections_of(path):
    """The corrections that were asked for, which stand beside a result."""
    options = part_of(read_json(path.with_suffix(".json")), "Options")
    asked = part_of(options, "correction", list)
    return [name for name in asked if name in list(CORRECTIONS)] or None  # or of groups


def _facts_of(path):
    """How the trials of a result were made, by names in words."""
    trials = part_of(read_json(path.with_suffix(".json")), "Trials")
    if "Events" in trials:
        events = part_of(trials, "Events").items()
        events = {name: each for name, each in events if isinstance(each, dict)}
        trials = trials | {"Events": word_runs(events)}
    facts = {}
    for key, value in trials.items():
        if key not in _KNOWN and value not in (None, {}, []):
            # SliceTimeRef -> Slice time ref
            first, *words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).split(" ")
            words = [word if word.isupper() else word.lower() for word in words]
            facts[" ".join([first, *words])] = value
    return facts


def seal_page(page, paths):
    """Say at the end of a page of which results it is."""
    if page.is_file():
        text = page.read_bytes()
        text += _seal(text, paths)
        write_whole(page, lambda draft: draft.write_bytes(text), follow=False)


def is_of(page, paths):
    """Whether a page is there as it was written, of these very results."""
    if not page.is_file():
        return False
    text, _, last = page.read_bytes().rpartition(_SEAL)
    return _SEAL + last == _seal(text, paths)


def _seal(text, paths):
    """A comment with a checksum of a page and of results and their records."""
    found = sha256(text)
    for path in sorted(paths):
        for file in (path, path.with_suffix(".json"), record_path(path)):
            if file.is_file():
                found.update(file_checksum(file).encode())
    return _SEAL + found.hexdigest().encode() + b" -->\n"


def write_overview(folder, dataset):
    """Write the page of all results in the output; `dataset` is what they are of.

    Subjects are in rows, and their analyses side by side.
    """
    name = read_json(dataset / "dataset_description.json").get("Name")
    named = isinstance(name, str) and name.strip("[]").lower() not in ("", _UNNAMED)
    template = Path(__file__).with_name("overview.jinja").read_text(encoding="utf-8")
    page = Environment(autoescape=True).from_string(template)
    constants = {
        "title": f"Decoding of {name if named else dataset.resolve().name}",
        "style": STYLE,
        "folder": folder,
        "counted": counted,
        "none_word": "\N{EN DASH}",
    }

    def collect():
        """What is known of every result that is finished."""
        records = []
        for path in sorted(folder.glob("*/**/*_decoding.json")):
            summary, entities = read_json(path).get("Summary"), _entities(path)
            if isinstance(summary, dict):
                about = {"stem": path.name.rpartition("_")[0], "name": _word(entities)}
                about["subject"] = entities_of(path).get("sub")
                about["desc"] = entities.pop("desc", "")
                records.append(summary | about | {"data": _word(entities)})
        return records

    def word(records):
        return page.render(records=records, **constants)

    write_about(folder / OVERVIEW, collect, word)


def _entities(path):
    """What tells a result from others of a subject or group."""
    entities = entities_of(path)
    return {k: v for k, v in entities.items() if k not in ("sub", "suffix")}


def _word(entities):
    """Word entities: task-faces desc-time."""
    return " ".join(map("-".join, entities.items()))
