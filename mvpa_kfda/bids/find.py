"""What there is in a BIDS dataset: the recordings of every subject, task by task.

Names of files are taken apart here, and not by nilearn or MNE-BIDS: the former misses
subjects without sessions where others have some, the latter refuses derivatives.

The files that a result is made of are found here, too, and known by their content.
Readers open the files that they are given and look for none themselves, so that none is
read without its content being on record. What is beside a file follows BIDS' rule of
inheritance: from its folder up to the dataset, names without an entity that differs.
"""

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path

import nibabel

from ..utils.checks import counted, enumerated, quoted, some_of
from ..utils.fingerprints import file_checksum

#: What can be decoded -> the folders it is in, the ends of its names, and entities that
#: a name must have. The first kind of which there is anything in a folder is taken.
_EPOCHS = ("_epo.fif", "_epo.fif.gz")
_RAW = (
    *(".vhdr", ".edf", ".bdf", ".set", ".fif", ".ds", ".con", ".sqd", ".kdf", ".mff"),
    *(".mefd", ".nwb"),
)
HEAD = ("eeg", "meg", "ieeg")
#: Endings of preprocessed runs, and how fMRIPrep describes them.
_BOLD, PREPROCESSED = ("_bold.nii.gz", "_bold.nii"), "preproc"
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
#: Options that are files; of those of trials, images of trials are made.
OF_TRIALS, OF_RESULTS = ("mask_img",), ("labels_img", "lut")
#: What MNE-BIDS reads beside a recording, by the last part of the name.
_BESIDE = (
    *("events.tsv", "events.json", "channels.tsv", "electrodes.tsv"),
    *("coordsystem.json", "scans.tsv", "participants.tsv"),
)
#: Entities by which parts of one recording, or what comes with it, may differ.
_OF_PARTS = ("split", "space")
#: Entities that say where the voxels of an image are.
_OF_SPACE = ("space", "cohort", "res", "den")
_MASKS = ("mask.nii.gz", "mask.nii")
_CONFOUNDS = ("timeseries.tsv", "regressors.tsv")


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
        several = [each.entities for each in self.recordings]
        telling = [n for n in _OF_RUNS if len({x.get(n) for x in several}) > 1]
        if telling in ([], ["run"]):
            return [x.get("run") or "1" for x in several]
        return [
            "_".join(f"{n}-{x[n]}" for n in telling if x.get(n)) or "first"
            for x in several
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
    numbers = [x for x in map(str, (value, other)) if x.isdecimal()]
    both = entity in INDICES and len(numbers) == 2
    return value == other or (both and int(numbers[0]) == int(numbers[1]))


def check_dataset(folder, what):
    """Refuse a folder that is no dataset."""
    if not folder.is_dir():
        raise ValueError(f"{what} {folder}: there is no such folder.")
    if not (folder / "dataset_description.json").is_file():
        mend = "Use the folder that contains the sub-* folders."
        if any(folder.glob("sub-*/")):
            name = json.dumps(folder.name)
            mend = f'Add one: {{"Name": {name}, "BIDSVersion": "1.10.0"}} will do.'
        raise ValueError(
            f"{what} {folder} is no BIDS dataset: it holds no "
            f"dataset_description.json. {mend}"
        )


def find_units(options):
    """The units to decode, and what is missing: names of units -> reasons."""
    root = options["derivatives"] or options["bids_dir"]
    datatype, kind, found = _choose_kind(_recordings(root, options), root, options)
    if options["derivatives"]:
        found = _with_raw_names(found, options["bids_dir"])
    for flag, entity in (("session", "ses"), ("task", "task"), ("run", "run")):
        wanted = options["run_label" if flag == "run" else flag]
        found = _select(found, flag, entity, wanted, root)
    subjects, space = subjects_of(root, options["participant_label"]), None
    if kind in ("bold", "images"):
        found, space = _choose_space(found, options["space"], root)
    units, missing = [], {}
    every = {r.entities.get("task", "") for r in found}
    for subject in subjects:
        own = [r for r in found if r.entities["sub"] == subject]
        for task in sorted(every):
            runs = [r for r in own if r.entities.get("task", "") == task]
            unit = Unit(subject, task or None, datatype, kind, tuple(runs), space)
            if runs:
                _check_unit(unit)
                units.append(unit)
            elif options["task"] is not None or not own:
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

    def numbers(entities):
        """Entities that are numbers, each with what others share that are the same."""
        of_run = tuple(entities.get(name) for name in ("sub", "ses", "task"))
        for name, value in entities.items():
            if name in INDICES and value.isdecimal():
                yield name, value, (of_run, name, int(value))

    written = {}
    for subject in sorted({each.entities["sub"] for each in recordings}):
        for path in sorted((raw / f"sub-{subject}").rglob("*_*.*")):
            for _, value, shared in numbers(entities_of(path)):
                written.setdefault(shared, value)
    return [
        replace(
            each,
            entities=each.entities
            | {n: written.get(shared, x) for n, x, shared in numbers(each.entities)},
        )
        for each in recordings
    ]


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
        of_kind = {"desc": PREPROCESSED} | wanted if kind == "bold" else wanted
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
        asked = " ".join(map("-".join, wanted.items()))
        return (
            f"--entity {asked}: no recording has that in its name. Those of {root} "
            f"have: {there}."
        )
    return (
        f"{root} has BOLD runs, but none that fMRIPrep has preprocessed "
        f"(*_desc-{PREPROCESSED}_bold.nii.gz). Set --derivatives to its output, or "
        f"choose other runs with --entity; there are: {there}."
    )


def _order(recording):
    """What recordings are sorted by: runs by their numbers, else by name."""
    names = ("sub", "ses", "task", "acq", "dir", "run")
    *rest, run = (recording.entities.get(name, "") for name in names)
    number = int(run) if run.isdecimal() else 0
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


def space_of(entities):
    """The space of an image as fMRIPrep is asked for it: MNI...:res-2."""
    parts = [entities.get("space")]
    parts += [f"{n}-{entities[n]}" for n in ("cohort", "res") if n in entities]
    return ":".join(filter(None, parts)) or NO_VALUE


def _surfaces_of(root):
    """Word the spaces of runs that lie on surfaces; empty if there are none."""
    names = [path for ending in _SURFACES for path in root.glob(f"sub-*/**/*{ending}")]
    spaces = {entities_of(path).get("space", "unknown") for path in names}
    return ", ".join(sorted(spaces))


def _choose_space(found, wanted, root):
    """The recordings in one space, and that space."""
    of_space = {}
    for each in found:
        of_space.setdefault(space_of(each.entities), []).append(each)
    scanner = " (that of the scanner)"
    named = {x: x + scanner * (x == NO_VALUE) for x in sorted(of_space)}
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


# --------------------------------------------------------------- the files of a result


@dataclass(frozen=True)
class Run:
    """The files of one run, and what it is called."""

    label: str
    path: Path  #: the recording, or the images
    events: Path | None = None  #: a table of the events, or of the volumes
    sidecars: tuple = ()  #: .json files that say when scans were taken, nearest first
    mask: Path | None = None
    confounds: Path | None = None
    parts: tuple = ()  #: what the readers of others open beside these

    @property
    def files(self):
        """All of them."""
        own = () if self.path.is_dir() else (self.path,)
        single = filter(None, (self.events, self.mask, self.confounds))
        return [*own, *single, *self.sidecars, *self.parts]


@dataclass(frozen=True)
class Inputs:
    """The files of what is decoded together, with what they held when found."""

    subject: str
    kind: str  #: "epochs", "raw", "bold" or "images"
    runs: tuple
    given: dict  #: options that are files -> all files that they stand for
    states: dict = field(default_factory=dict)  #: file -> (checksum, state on disk)

    def record(self, places, options=OF_TRIALS + OF_RESULTS):
        """What a record holds: names of files -> their checksums."""
        files = {path for run in self.runs for path in run.files}
        files.update(*(self.given.get(name, ()) for name in options))
        return {uri(path, places): self.states[path][0] for path in sorted(files)}

    def check_unchanged(self):
        """Refuse files that were written while they were read."""
        for path, (known, state) in self.states.items():
            if _state_of(path) != state and _checksum_for(path, self.subject) != known:
                raise ValueError(
                    f"{path} changed while it was read. Run the command again once "
                    "nobody writes into the dataset."
                )


def find_inputs(unit, options):
    """The `Inputs` of a unit; reads every file to know its content."""
    find = _FINDERS[unit.kind]
    runs = tuple(
        find(label, each, options)
        for label, each in zip(unit.runs, unit.recordings, strict=True)
    )
    given = {
        name: _files_of_image(options[name])
        for name in OF_TRIALS + OF_RESULTS
        if options[name] is not None
    }
    files = {path for run in runs for path in run.files}.union(*given.values())
    states = {path: _read_state(path, unit.subject) for path in sorted(files)}
    return Inputs(unit.subject, unit.kind, runs, given, states)


# ---------------------------------------------------------------------------- contents


def _read_state(path, subject):
    """The checksum of a file for a subject, and its state on disk."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is no file. Put one in its place, or move it away.")
    try:
        state = _state_of(path)  # before it is read
        return _checksum_for(path, subject), state
    except OSError as error:
        hint = ""
        if path.is_symlink() and not path.exists():
            hint = " It is a link to nothing; with DataLad, get its content first."
        raise ValueError(f"{path} cannot be read ({error.strerror}).{hint}") from error


def _checksum_for(path, subject):
    """A checksum of what a file holds for a subject."""
    if path.name != "participants.tsv":
        return file_checksum(path)
    first, *others = path.read_bytes().splitlines() or [b""]
    own = [
        line for line in others if line.split(b"\t")[0] == b"sub-%s" % subject.encode()
    ]
    return sha256(b"\n".join([first, *own])).hexdigest()


def _state_of(path):
    """What tells that a file was written meanwhile."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino


def dataset_places(options):
    """The folders of the datasets by the names that links give them."""
    places = {"raw": options["bids_dir"], "preprocessed": options["derivatives"]}
    return {name: folder for name, folder in places.items() if folder}


def uri(path, places):
    """The name of a file in one of the datasets, as BIDS writes it."""
    path = Path(path)
    for name, folder in reversed(places.items()):
        if path.is_relative_to(folder):
            return f"bids:{name}:{path.relative_to(folder).as_posix()}"
    return path.absolute().as_uri()


# ------------------------------------------------------------------------------ finding


def _find_epochs(label, recording, options):
    """The `Run` of a file of epochs, which may have further parts."""
    path, stem = recording.path, recording.path.name.partition(".fif")[0]
    further = [
        each
        for each in _files_in(path.parent)
        if each.name.startswith(f"{stem}-") and ".fif" in each.name
    ]
    return Run(label, path, parts=tuple(further + _parts_of(recording)))


def _find_raw(label, recording, options):
    """The `Run` of a raw recording, with all that MNE-BIDS may read of it."""
    events = _events_of(recording, options)
    path, own = recording.path, recording.entities
    root, datatype = recording.root, path.parent.name
    subject = root / f"sub-{own['sub']}"
    sessions = [subject / f"ses-{own.get('ses')}"]
    if own.get("ses") is None:
        sessions = [p for p in sorted(subject.iterdir()) if p.name.startswith("ses-")]
    folders = [subject, *sessions]
    parts = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else []
    for folder in (root, *folders, *(each / datatype for each in folders)):
        for each in _files_in(folder):
            if each.name.rpartition("_")[2] in (*_BESIDE, f"{datatype}.json"):
                # Of the entities that two names share none differs.
                shared = _telling(entities_of(each)).items()
                if all(same_value(k, own[k], v) for k, v in shared if k in own):
                    parts.append(each)
    parts = dict.fromkeys(parts + _parts_of(recording))
    parts.pop(events, None)
    return Run(label, path, events, parts=tuple(parts))


def _find_bold(label, recording, options):
    """The `Run` of a preprocessed BOLD run."""
    events, own = _events_of(recording, options), recording.entities
    _check_scans(recording, options["bids_dir"])
    confounds, parts = None, ()
    if options["confounds"] != ["none"]:
        # In the folder of the run, as nilearn looks for it, which refuses two of them.
        also = {"desc": "confounds"}
        for path in _named_in(recording.path.parent, recording, _CONFOUNDS, also)[:1]:
            confounds, about = path, path.with_suffix(".json")
            parts = (about,) if about.is_file() else ()
    sidecar = recording.path.with_name(f"{stem_of_file(recording.path)}.json")
    sidecars = [sidecar] if _is_there(sidecar) else []
    also = [("desc", own["desc"])]
    for level in _levels(recording, recording.root, ("bold.json",), also):
        # Beside that of this very image there may be one of another space.
        if sidecar not in level:
            sidecars.append(_only(level, recording))
    return Run(
        label,
        recording.path,
        events,
        sidecars=tuple(sidecars),
        mask=None if options["mask_img"] else _mask_of(recording),
        confounds=confounds,
        parts=parts,
    )


def _check_scans(recording, root):
    """Refuse a run of which scans were removed, so that events have other ones.

    There are more in the raw run, if it is there, or in XCP-D's table of outliers.
    """
    folder, own, n = recording.path.parent, recording.entities, _n_scans(recording.path)
    whole = _named_in(folder, recording, ("outliers.tsv",), {})
    for path in _files_in(root / folder.relative_to(recording.root)):
        names = entities_of(path)
        alike = (same_value(k, names.get(k), own.get(k)) for k in ("task", *_OF_RUNS))
        if path.name.endswith(_BOLD) and "desc" not in names and all(alike):
            whole.append(path)
    for path in whole:
        if None not in (n, expected := _n_scans(path)) and n != expected:
            raise ValueError(
                f"{recording.path.name} has {n} scans, but {path.name} {expected}: "
                "events would be taken for later or earlier ones. Use runs from which "
                "no scans were removed (XCP-D: --fd-thresh 0, no --dummy-scans), and "
                "leave scans out of the models by --confounds scrub with those of "
                "fMRIPrep. If the events are timed for the shorter runs, use a "
                "BIDS_DIR without the raw ones."
            )


def _n_scans(path):
    """The number of scans of a run, or of rows in a table; None if unknown."""
    with suppress(Exception):  # of links to nothing; damaged runs are said later
        if path.suffix == ".tsv":
            return len(path.read_bytes().splitlines()) - 1
        return nibabel.load(path).shape[3]


def _find_images(label, recording, options):
    """The `Run` of images of single trials, which have a table beside them."""
    stem = stem_of_file(recording.path)
    events = recording.path.with_name(f"{stem}.tsv")
    if not _is_there(events):
        events = beside(recording, recording.root, ("events.tsv",))
    if events is None:
        raise ValueError(
            f"{recording.path.name} has no table of its volumes: there is no "
            f"{stem}.tsv beside it."
        )
    mask = None
    if not options["mask_img"]:
        # Masks may have the names of their images, with _mask.
        own = [recording.path.with_name(f"{stem}_{ending}") for ending in _MASKS]
        mask = next(filter(_is_there, own), None) or _mask_of(recording)
    return Run(label, recording.path, events, mask=mask)


#: Kinds of recordings -> what finds the files of a run.
_FINDERS = {
    "epochs": _find_epochs,
    "raw": _find_raw,
    "bold": _find_bold,
    "images": _find_images,
}


def _events_of(recording, options):
    """The table of events of a recording, or say that there is none."""
    events = beside(recording, options["bids_dir"], ("events.tsv",))
    if events is None:
        raise ValueError(
            f"{recording.path.name} has no events: there is no events.tsv for it in "
            f"{options['bids_dir']}."
        )
    return events


def beside(recording, root, suffixes, also=()):
    """The file of a recording with another suffix, in a dataset; None for none.

    That of the nearest folder, where there must be one only. Suffixes have the ending;
    `also` are entities that the name must have, None for those that it must not have.
    """
    found = next(_levels(recording, root, suffixes, also), None)
    return found and _only(found, recording)


def _levels(recording, root, suffixes, also):
    """Yield files of a recording in every folder that has any, the nearest first."""
    where = recording.path.parent.relative_to(recording.root)
    for folder in (where, *where.parents):
        if found := _named_in(root / folder, recording, suffixes, dict(also)):
            yield found


def _named_in(folder, recording, suffixes, also):
    """The files in a folder that are of a recording, by their entities and suffix."""
    found, own = [], recording.entities
    for path in _files_in(folder):
        entities = entities_of(path)
        del entities["suffix"]
        extra = {key: entities.pop(key, None) for key in also}
        if (
            path.name.rpartition("_")[2] in suffixes
            and extra == also
            and all(same_value(k, own.get(k), v) for k, v in entities.items())
        ):
            found.append(path)
    return found


def _only(found, recording):
    """The only file that is found; BIDS allows no more in one folder."""
    if len(found) > 1:
        raise ValueError(
            f"{quoted([path.name for path in found], 4)} are both for "
            f"{recording.path.name}, by their names, and BIDS allows one in a folder. "
            f"Keep that of the run, in {found[0].parent}."
        )
    return found[0]


def _mask_of(recording):
    """The brain mask in the space of a run; None for none."""
    space = [(name, recording.entities.get(name)) for name in _OF_SPACE]
    return beside(recording, recording.root, _MASKS, [("desc", "brain"), *space])


def _parts_of(recording):
    """Files beside a recording that have its name: data, marks, more parts."""
    own = _telling(recording.entities)
    return [
        path
        for path in _files_in(recording.path.parent)
        if path != recording.path and _telling(entities_of(path)) == own
    ]


def _telling(entities):
    """The entities that tell a recording from others, not parts of it."""
    return {k: v for k, v in entities.items() if k not in ("suffix", *_OF_PARTS)}


def _files_in(folder):
    """The files in a folder by name; also links whose files are missing."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.is_dir())


def _is_there(path):
    """Whether there is a file, or a link whose file is missing."""
    return path.is_file() or path.is_symlink()


def _files_of_image(path):
    """The files of an image or table: headers may be files of their own."""
    path = Path(path)
    try:
        parts = nibabel.load(path).file_map.values()
    except Exception:  # a table, or damaged, which its reader says
        return (path,)
    files = [Path(part.filename) for part in parts if part.filename is not None]
    return tuple(dict.fromkeys([path, *(each for each in files if each.is_file())]))
