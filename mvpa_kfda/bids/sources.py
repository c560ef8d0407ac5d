"""The files that a result is made of: found here, and known by their content.

Readers open the files that they are given and look for none themselves, so that none is
read without its content being on record. What is beside a file follows BIDS' rule of
inheritance: from its folder up to the dataset, names without an entity that differs.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import nibabel

from ..utils.checks import quoted
from ..utils.fingerprints import file_checksum
from .find import entities_of, same_value, stem_of_file

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
    places = {"raw": options["bids_dir"]}
    if options["derivatives"]:
        places["preprocessed"] = options["derivatives"]
    return places


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
    confounds, parts = None, ()
    if options["confounds"] != ["none"]:
        # In the folder of the run, as nilearn looks for it, which refuses two of them.
        for path in _files_in(recording.path.parent):
            named = path.name.rpartition("_")[2] in _CONFOUNDS
            if named and _is_of(entities_of(path), own, {"desc": "confounds"}):
                confounds = path
                about = path.with_suffix(".json")
                parts = (about,) if about.is_file() else ()
                break
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
        found = [
            path
            for path in _files_in(root / folder)
            if path.name.rpartition("_")[2] in suffixes
            and _is_of(entities_of(path), recording.entities, dict(also))
        ]
        if found:
            yield found


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


def _is_of(entities, own, also):
    """Whether the entities in a name say that a file is of a recording."""
    entities = {k: v for k, v in entities.items() if k != "suffix"}
    extra = {key: entities.pop(key, None) for key in also}
    return extra == also and all(
        same_value(key, own.get(key), value) for key, value in entities.items()
    )


def _files_of_image(path):
    """The files of an image or table: headers may be files of their own."""
    path = Path(path)
    try:
        parts = nibabel.load(path).file_map.values()
    except Exception:  # a table, or damaged, which its reader says
        return (path,)
    files = [Path(part.filename) for part in parts if part.filename is not None]
    return tuple(dict.fromkeys([path, *(each for each in files if each.is_file())]))
