"""The results of subjects that a group is made of: who is in it, and who is not."""

import json
from dataclasses import dataclass

from ..utils.checks import quoted, warn
from .find import NO_VALUE, entities_of, subjects_of
from .store import is_whole
from .write import entity_value, read_json, space_entities


@dataclass(frozen=True)
class Gathered:
    """Results of one kind, one of each subject."""

    files: dict  #: subject -> result
    gone: tuple = ()  #: subjects with a result that the dataset does not have
    missing: tuple = ()  #: subjects of the dataset without a result
    alone: tuple = ()  #: subjects whose result is of a single session

    @property
    def notes(self):
        """What to say of those who are not in the group."""
        notes = {
            f"left out: {_word(self.gone)}, not in the dataset": self.gone,
            f"without a result: {_word(self.missing)}": self.missing,
            f"of a single session: {_word(self.alone)}": self.alone,
        }
        return [words for words, subjects in notes.items() if subjects]

    def check(self):
        """Refuse results that are not whole, and warn of those that differ in kind."""
        if len(self.files) < 2:
            more = f" ({'; '.join(self.notes)})" if self.notes else ""
            raise ValueError(
                f"only subject {quoted(self.files)} has a result{more}; a group needs "
                "two or more."
            )
        broken = [name for name, path in self.files.items() if not is_whole(path)]
        if broken:
            raise ValueError(
                f"the results of {_word(broken)} are not finished, or not as they were "
                "written. Run the level participant again, which mends them."
            )
        records = {
            subject: read_json(path.with_suffix(".json"))["Options"]
            for subject, path in self.files.items()
        }
        words = []
        for name in sorted(set().union(*records.values())):
            texts = {s: json.dumps(own.get(name)) for s, own in records.items()}
            several = sorted(set(texts.values()))
            if len(several) > 1:
                rarest = min(several, key=[*texts.values()].count)
                those = [s for s, text in texts.items() if text == rarest]
                words.append(f"{name} ({rarest} of {_word(those)})")
        if words:
            warn(
                "The results of the subjects were made with different options, by "
                f"'Options' in their .json files: {', '.join(words)}. Run the level "
                "participant for all of them with the same."
            )


def _word(subjects):
    """Name subjects, the first of many."""
    names = [f"sub-{subject}" for subject in subjects]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def gather_results(folder, options):
    """The `Gathered` of every kind, by the entities that its files have."""
    root = options["derivatives"] or options["bids_dir"]
    subjects, tests = subjects_of(root, options["participant_label"]), {}
    for path in sorted(folder.glob("sub-*/**/*_decoding.h5")):
        entities = entities_of(path)
        if is_chosen(entities, options):
            subject = entities.pop("sub")
            del entities["suffix"]
            tests.setdefault(tuple(entities.items()), {})[subject] = path
    everybody, found = subjects_of(root), {}
    alone = _with_single_sessions(tests)
    for key, files in tests.items():
        chosen = {name: path for name, path in files.items() if name in subjects}
        if chosen:
            found[key] = Gathered(
                chosen,
                gone=[name for name in files if name not in everybody],
                missing=[name for name in subjects if name not in files],
                alone=[name for name in alone.get(key, ()) if name in chosen],
            )
    if not found:
        raise ValueError(
            f"OUTPUT_DIR {folder} has no results of subjects that match. Run the level "
            "participant first, or see --participant-label, --task, --session, --space "
            "and --desc."
        )
    return found


def _with_single_sessions(tests):
    """Put subjects of whom one session is left to those of all sessions; name them.

    Names of their results have that session. Where the same subjects have results of
    all sessions too, a session was chosen, which is another test.
    """
    by_rest, moved = {}, {}
    for key in tests:
        if "ses" in dict(key):
            rest = tuple(pair for pair in key if pair[0] != "ses")
            by_rest.setdefault(rest, []).append(key)
    for rest, keys in by_rest.items():
        names = [name for key in keys for name in tests[key]]
        every = [*names, *tests.get(rest, ())]
        if rest in tests and len({*every}) == len(every):
            files = tests[rest].items()
            for key in keys:
                files = files | tests.pop(key).items()
            tests[rest] = dict(sorted(files))
            moved[rest] = names
    return moved


def is_chosen(entities, options):
    """Whether options choose a result with some entities in its name."""
    desc, space = options["desc"], options["space"]
    wanted = {
        "task": options["task"],
        "ses": options["session"],
        "desc": None if desc is None else [entity_value(desc)],
    }
    space = {"space": None} if space == NO_VALUE else space_entities(space)
    return all(entities.get(key) == value for key, value in space.items()) and all(
        labels is None
        or entities.get(key) in [each.removeprefix(f"{key}-") for each in labels]
        for key, labels in wanted.items()
    )
