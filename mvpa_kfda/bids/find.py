"""What there is in a BIDS dataset: the recordings of every subject, task by task.

Names of files are taken apart here, and not by nilearn or MNE-BIDS: the former misses
subjects without sessions where others have some, the latter refuses derivatives.
"""

from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from ..utils.checks import counted, enumerated, quoted, some_of

#: What can be decoded -> the folders it is in, the ends of its names, and entities that
#: a name must have. The first kind of which there is anything in a folder is taken.
_EPOCHS = ("_epo.fif", "_epo.fif.gz")
_RAW = (
    *(".vhdr", ".edf", ".bdf", ".set", ".fif", ".ds", ".con", ".sqd", ".kdf", ".mff"),
    *(".mefd", ".nwb"),
)
HEAD = ("eeg", "meg", "ieeg")
#: Endings of preprocessed runs, and how fMRIPrep describes them.
_BOLD, _PREPROCESSED = ("_bold.nii.gz", "_bold.nii"), "preproc"
#: Endings of the same on surfaces.
_SURFACES = (".func.gii", ".dtseries.nii")
#: Names of images that hold one volume per trial, for ``--estimate images``; the first
#: of which there are any are taken, lest maps of results count as trials.
_SERIES = ("betaseries", "betas", "statmap")

#: The subject of MEG recordings without anybody.
_NOBODY = "emptyroom"
#: Entities that tell runs apart.
_OF_RUNS = ("ses", "acq", "ce", "rec", "dir", "run")
#: Values of the entity part of images without magnitudes, which cannot be decoded.
_NO_MAGNITUDE = ("phase", "real", "imag")
#: What stands for an entity, or a space, that a name does not have.
NO_VALUE = "none"
#: Entities whose values are numbers, so that 1 and 01 are the same; others are labels.
INDICES = ("chunk", "echo", "flip", "inv", "run", "split")


@dataclass(frozen=True)
class Recording:
    """A file of one run, and what its name says."""

    path: Path
    root: Path  #: the dataset it is in
    entities: dict


@dataclass(frozen=True)
class Unit:
    """What is decoded together: the runs of one subject and task."""

    subject: str
    task: str | None
    datatype: str  #: the folder: "eeg", "meg", "ieeg" or "func"
    kind: str  #: "epochs", "raw", "bold" or "images"
    recordings: tuple
    space: str | None = None

    @property
    def session(self):
        """The session, if all runs are of one."""
        sessions = {each.entities.get("ses") for each in self.recordings}
        return sessions.pop() if len(sessions) == 1 else None

    @property
    def runs(self):
        """What tells each run from the others, in their order."""
        values = [
            {name: each.entities.get(name) for name in _OF_RUNS}
            for each in self.recordings
        ]
        telling = [n for n in _OF_RUNS if len({v[n] for v in values}) > 1]
        if telling == ["run"] or not telling:
            return [v["run"] or "1" for v in values]
        return [
            "_".join(f"{name}-{v[name]}" for name in telling if v[name]) or "first"
            for v in values
        ]

    @property
    def name(self):
        """What the unit is called: sub-01 task-faces."""
        task = "" if self.task is None else f" task-{self.task}"
        return f"sub-{self.subject}{task}"


def entities_of(path):
    """The entities in the name of a file: sub, task, ..., and the suffix."""
    *parts, last = path.name.split("_")
    pairs = [part.partition("-") for part in parts]
    return {key: value for key, dash, value in pairs if dash} | {
        "suffix": last.partition(".")[0]
    }


def stem_of_file(path):
    """The name of a file without its endings, such as .nii.gz."""
    return path.name.partition(".")[0]


def same_value(entity, value, other):
    """Whether two values of an entity are the same: run-1 is run-01."""
    if value == other:
        return True
    numbers = [str(each) for each in (value, other)]
    return (
        entity in INDICES
        and all(map(str.isdecimal, numbers))
        and (int(numbers[0]) == int(numbers[1]))
    )


def check_dataset(folder, what):
    """Refuse a folder that is no dataset."""
    if not folder.is_dir():
        raise ValueError(f"{what} {folder}: there is no such folder.")
    if not (folder / "dataset_description.json").is_file():
        raise ValueError(
            f"{what} {folder} is no BIDS dataset: it holds no "
            "dataset_description.json. Use the folder that contains the sub-* folders."
        )


def find_units(options):
    """The units to decode, and what is missing: names of units -> reasons."""
    root = options["derivatives"] or options["bids_dir"]
    datatype, kind, found = _choose_kind(_recordings(root, options), root, options)
    if options["derivatives"]:
        found = _with_raw_names(found, options["bids_dir"])
    tasks = options["task"]
    found = _select(found, "session", "ses", options["session"], root)
    found = _select(found, "task", "task", tasks, root)
    found = _select(found, "run", "run", options["run_label"], root)
    subjects, space = subjects_of(root, options["participant_label"]), None
    if kind in ("bold", "images"):
        found, space = _choose_space(found, options["space"], root)
    units, missing = [], {}
    all_tasks = sorted({r.entities.get("task") or "" for r in found})
    for subject in subjects:
        own = [r for r in found if r.entities["sub"] == subject]
        for task in all_tasks:
            runs = [r for r in own if (r.entities.get("task") or "") == task]
            unit = Unit(subject, task or None, datatype, kind, tuple(runs), space)
            if runs:
                _check_unit(unit)
                units.append(unit)
            elif tasks is not None or not own:
                of_task = f" of task {task!r}" if task else ""
                missing[unit.name] = (
                    f"there are no runs{of_task} in {root / f'sub-{subject}'}. Leave "
                    "the subject out with --participant-label, or see where its files "
                    "are."
                )
    return units, missing


# ---------------------------------------------------------------------- the recordings


def _with_raw_names(recordings, raw):
    """Recordings with runs numbered as in the raw dataset: 01, not 1."""

    def places(entities):
        """Entities that are numbers -> what others share that are named like them."""
        of_run = tuple(entities.get(name) for name in ("sub", "ses", "task"))
        numbers = {n: v for n, v in entities.items() if n in INDICES and v.isdecimal()}
        return {name: (of_run, name, int(value)) for name, value in numbers.items()}

    written, renamed = {}, []
    for subject in sorted({each.entities["sub"] for each in recordings}):
        for path in sorted((raw / f"sub-{subject}").rglob("*_*.*")):
            entities = entities_of(path)
            for name, place in places(entities).items():
                written.setdefault(place, entities[name])
    for each in recordings:
        own = each.entities
        names = {n: written.get(place, own[n]) for n, place in places(own).items()}
        renamed.append(replace(each, entities=own | names))
    return renamed


def _recordings(root, options):
    """Recordings by (datatype, kind), in the order of their names."""
    found, others, wanted = {}, {}, {}
    for item in options.get("entity") or ():
        name, dash, value = item.partition("-")
        if not (name and dash and value):
            raise ValueError(
                f"--entity {item}: write NAME-VALUE as in the names of files, e.g. "
                f"desc-denoised or echo-2, or echo-{NO_VALUE} for files without it."
            )
        wanted[name] = value
    for path in sorted(root.glob("sub-*/**/*")):
        folder = path.parent.name
        kind = _kind_of(path, folder, options["estimate"])
        if kind is None:
            continue
        entities = entities_of(path)
        later_part = entities.get("split", "1").lstrip("0") != "1"
        no_magnitude = folder == "func" and entities.get("part") in _NO_MAGNITUDE
        if entities.get("sub", _NOBODY) == _NOBODY or later_part or no_magnitude:
            continue
        recording = Recording(path, root, entities)
        of_kind = {"desc": _PREPROCESSED} | wanted if kind == "bold" else wanted
        chosen = all(
            same_value(name, entities.get(name, NO_VALUE), value)
            for name, value in of_kind.items()
        )
        (found if chosen else others).setdefault((folder, kind), []).append(recording)
    if not found and others:
        raise ValueError(_word_others(root, wanted, chain(*others.values())))
    choose = {"epochs": _cleaned, "images": _series}
    for key, recordings in found.items():
        found[key] = sorted(choose.get(key[1], list)(recordings), key=_order)
    return found


def _word_others(root, wanted, others):
    """Say that no recording has the entities that are wanted, and which there are."""
    names = list(wanted) or ["desc"]
    pairs = {f"{n}-{x.entities.get(n, NO_VALUE)}" for x in others for n in names}
    there = ", ".join(sorted(pairs))
    if wanted:
        asked = " ".join("-".join(pair) for pair in wanted.items())
        return (
            f"--entity {asked}: no recording has that in its name. Those of {root} "
            f"have: {there}."
        )
    return (
        f"{root} has BOLD runs, but none that fMRIPrep has preprocessed "
        f"(*_desc-{_PREPROCESSED}_bold.nii.gz). Set --derivatives to its output, or "
        f"choose other runs with --entity; there are: {there}."
    )


def _order(recording):
    """What recordings are sorted by: runs by their numbers, else by name."""
    entities = recording.entities
    run = entities.get("run") or ""
    number = int(run) if run.isdecimal() else 0
    rest = [entities.get(n) or "" for n in ("sub", "ses", "task", "acq", "dir")]
    return (*rest, number, run, recording.path.name)


def _kind_of(path, folder, estimate):
    """What kind of recording a file is, or None."""
    name = path.name
    if folder in HEAD:
        if name.endswith(_EPOCHS):
            return "epochs"
        stem, dot, ending = name.rpartition(".")
        is_raw = stem.endswith(f"_{folder}") and dot + ending in _RAW
        return "raw" if is_raw and "_task-" in name else None
    if folder == "func":
        if estimate == "images":
            is_series = entities_of(path)["suffix"] in _SERIES
            is_image = name.endswith((".nii", ".nii.gz"))
            return "images" if is_series and is_image else None
        return "bold" if name.endswith(_BOLD) and "_desc-" in name else None
    return None


def _series(recordings):
    """Images of the first name for single trials that is there."""
    suffixes = [each.entities["suffix"] for each in recordings]
    first = next(name for name in _SERIES if name in suffixes)
    return [each for each in recordings if each.entities["suffix"] == first]


def _cleaned(recordings):
    """The final epochs of MNE-BIDS-Pipeline; others are on the way to them."""
    by_run, final = {}, set()
    for each in recordings:
        own, proc = each.entities, each.entities.get("proc")
        key = tuple(
            sorted((k, v) for k, v in own.items() if k not in ("proc", "split"))
        )
        by_run.setdefault(key, {})[proc] = each
        if proc == "clean":
            final.add((own["sub"], own.get("task")))
    chosen = []
    for versions in by_run.values():
        best = [name for name in ("clean", None) if name in versions]
        each = versions[(best or sorted(versions))[0]]
        own = each.entities
        # The pipeline joins runs in the end: single ones are not taken beside that.
        if own.get("proc") == "clean" or (own["sub"], own.get("task")) not in final:
            chosen.append(each)
    return chosen


# ------------------------------------------------------------------- what is chosen


def _choose_kind(found, root, options):
    """The datatype and kind to decode, and its recordings."""
    datatypes = sorted({datatype for datatype, _ in found})
    wanted = options["datatype"]
    if wanted is None and len(datatypes) > 1:
        raise ValueError(
            f"{root} holds recordings of several kinds: {quoted(datatypes)}. Choose "
            "one with --datatype."
        )
    datatype = wanted or (datatypes[0] if datatypes else None)
    kinds = [kind for of_type, kind in found if of_type == datatype]
    for kind in ("epochs", "bold", "images", "raw"):
        if kind in kinds:
            return datatype, kind, found[datatype, kind]
    raise ValueError(_word_nothing(root, wanted, options["estimate"]))


def _word_nothing(root, datatype, estimate):
    """Word that there is nothing to decode, and what is there instead."""
    old = next(root.glob("sub-*/**/func/*_preproc.nii.gz"), None)
    if old is not None:
        return (
            f"{root} has images named as fMRIPrep did before its version 1.2, such as "
            f"{old.name}. Run a version of today; its names end in "
            "_desc-preproc_bold.nii.gz."
        )
    if estimate == "images" and datatype in (None, "func"):
        return (
            f"{root} has no images of single trials. Their names end in "
            f"{', '.join(f'_{name}.nii.gz' for name in _SERIES)}."
        )
    if datatype in (None, "func") and (spaces := _surfaces_of(root)):
        return (
            f"{root} has runs on surfaces ({spaces}), but mvpa-kfda bids reads volumes "
            "(*_bold.nii.gz). Let fMRIPrep write a volume too (--output-spaces), or "
            "estimate single trials of .dtseries.nii files with mvpa-kfda betas."
        )
    if next(root.glob("sub-*/**/func/*_bold.nii*"), None) is not None:
        return (
            f"{root} has BOLD runs, but none that fMRIPrep has preprocessed "
            "(*_desc-preproc_bold.nii.gz or .nii). Set --derivatives to its output."
        )
    of_type = "" if datatype is None else f" of datatype {datatype!r}"
    return (
        f"{root} has nothing to decode{of_type}: neither recordings nor epochs of EEG "
        "or MEG, nor preprocessed BOLD runs. Set --derivatives to the folder of "
        "preprocessed data."
    )


def _select(found, flag, entity, wanted, root):
    """The recordings with one of the labels of an entity, all for None."""
    wanted = _plain(wanted, entity)
    if wanted is None:
        return found
    values = [each.entities.get(entity) for each in found]
    there = [w for w in wanted if any(same_value(entity, v, w) for v in values)]
    # One of several runs may be missing, as of subjects with fewer of them.
    if not there or (there != wanted and entity != "run"):
        missing = next(label for label in wanted if label not in there)
        _refuse(flag, missing, set(values), root)
    return [
        each
        for each, value in zip(found, values, strict=True)
        if any(same_value(entity, value, label) for label in wanted)
    ]


def _plain(labels, prefix):
    """Labels without the entity that users may write before them."""
    labels = None if labels is None else [*labels]
    return labels and [each.removeprefix(f"{prefix}-") for each in labels]


def _refuse(flag, label, known, root):
    """Say that no recording has a label, and which there are."""
    names = sorted(label for label in known if label is not None)
    there = f"Those of {root} are: {quoted(names, 20)}." if names else "There are none."
    raise ValueError(f"--{flag} {label}: no recording is of that {flag}. {there}")


def subjects_of(root, wanted=None):
    """The labels of the subjects of a dataset, all or those that are wanted."""
    folders = sorted(
        p.name.removeprefix("sub-") for p in root.glob("sub-*") if p.is_dir()
    )
    wanted = _plain(wanted, "sub")
    if wanted is None:
        return [name for name in folders if name != _NOBODY]
    for label in wanted:
        if label not in folders:
            _refuse("participant-label", label, set(folders), root)
    return sorted(set(wanted))


def _space_of(recording):
    """The space of an image as fMRIPrep is asked for it: MNI...:res-2."""
    entities = recording.entities
    parts = [entities.get("space")]
    parts += [f"{n}-{entities[n]}" for n in ("cohort", "res") if n in entities]
    return ":".join(filter(None, parts)) or None


def _surfaces_of(root):
    """Word the spaces of runs that lie on surfaces; empty if there are none."""
    names = [path for ending in _SURFACES for path in root.glob(f"sub-*/**/*{ending}")]
    spaces = {entities_of(path).get("space", "unknown") for path in names}
    return ", ".join(sorted(spaces))


def _choose_space(found, wanted, root):
    """The recordings in one space, and that space."""
    of_space = {}
    for each in found:
        of_space.setdefault(_space_of(each) or NO_VALUE, []).append(each)
    named = {
        x: x + " (that of the scanner)" * (x == NO_VALUE) for x in sorted(of_space)
    }
    chosen = [*named]
    if wanted is not None:
        chosen = [x for x in named if wanted in (x, x.split(":")[0])]
        if not chosen:
            surfaces = _surfaces_of(root)
            also = f" Surfaces are there in {surfaces}, but bids reads volumes."
            raise ValueError(
                f"--space {wanted}: no image is in that space. The spaces of {root} "
                f"are: {', '.join(named.values())}.{also * bool(surfaces)}"
            )
        chosen = [wanted] if wanted in chosen else chosen
    if len(chosen) > 1:
        raise ValueError(
            f"Images are in {counted(len(chosen), 'space')}: "
            f"{', '.join(named[x] for x in chosen)}. Choose one, e.g. --space "
            f"{chosen[0]}."
        )
    (space,) = chosen
    return of_space[space], None if space == NO_VALUE else space


def _check_unit(unit):
    """Refuse several files for one run, and runs of which each is another echo."""
    by_run = {}
    for label, each in zip(unit.runs, unit.recordings, strict=True):
        by_run.setdefault(label, []).append(each)
    for label, several in by_run.items():
        if len(several) > 1:
            files = some_of([each.path.name for each in several])
            where = f"{unit.name}: {counted(len(several), 'file')} are of run {label}"
            raise ValueError(f"{where}: {files}. {_word_choice(several, unit.kind)}")
    echoes = {each.entities.get("echo", NO_VALUE) for each in unit.recordings}
    if len(echoes) > 1:
        raise ValueError(
            f"{unit.name}: runs are of different echoes ({', '.join(sorted(echoes))}). "
            f"Choose one with --entity, e.g. --entity echo-{min(echoes)}."
        )


def _word_choice(several, kind):
    """Word how to choose among files of one run, by the entities that differ."""
    told = []
    for name in sorted({name for each in several for name in each.entities}):
        values = sorted({each.entities.get(name, NO_VALUE) for each in several})
        told += [f"--entity {name}-{value}" for value in values if len(values) > 1]
    if not told:
        return "Move one of them away."
    conditions = (
        " If each holds the trials of one condition, as NiBetaSeries writes them, join "
        "them to one file for each run, with a table of the trials beside it."
    )
    return f"Choose one with {enumerated(told, 'or')}.{conditions * (kind == 'images')}"
