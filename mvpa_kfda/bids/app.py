"""The two levels of the analysis: every participant, and the group."""

import json
import time
import warnings
from dataclasses import dataclass
from itertools import groupby

import mne
import numpy as np

from ..group.second_level import group_inference
from ..group.subjects import leave_out_small
from ..results.fields import keeps_warnings
from ..results.finding import Finding
from ..results.load import load_result
from ..utils.checks import counted, quoted, warn
from ..utils.fingerprints import file_checksum
from ..utils.progress import word_seconds
from ..utils.rounding import p_words
from .analyses import (
    ANALYSES,
    check_readers,
    read_trials,
    unused_options,
    with_recordings,
)
from .bold import check_denoised, check_estimate
from .config import word_config
from .events import RUN
from .find import (
    HEAD,
    NO_VALUE,
    OF_TRIALS,
    check_dataset,
    dataset_places,
    entities_of,
    find_inputs,
    find_units,
    subjects_of,
    uri,
)
from .preview import preview
from .store import KeptTrials, Output, is_whole, options_of_results
from .write import (
    about_files,
    add_citations,
    check_output,
    describe_dataset,
    entity_value,
    is_of,
    read_json,
    seal_page,
    space_entities,
    stem_of,
    write_about,
    write_overview,
    write_page,
)

#: Spaces in which the brains of subjects have nothing in common.
_OWN_SPACES = ("T1w", "T2w", "individual", "fsnative", "orig", "scanner")


@dataclass(frozen=True)
class Step:
    """What became of a subject, or of a test of the group.

    Parameters
    ----------
    name : str
        The subject and task, or what was tested.
    state : {"done", "there", "failed"}
        Whether it was done, was there already, or failed.
    words : str
        What came out, or why it failed.
    warnings : tuple of str
        What was warned of.
    subject : str or None
        The subject, if it is of one.
    """

    name: str
    state: str
    words: str
    warnings: tuple = ()
    subject: str | None = None


def participants(options, method, config):
    """Decode every subject; yield a `Step` for each.

    Parameters
    ----------
    options : dict
        What was given on the command line, all options by their names.
    method : dict
        Of these the arguments of the functions that decode.
    config : dict
        Of what is written to the file that repeats the run: the key and the value of
        every option, and whether it was given.

    Yields
    ------
    step : Step
        Of one subject and task.

    Raises
    ------
    ValueError
        If nothing can be done for any subject.
    """
    check_dataset(options["bids_dir"], "BIDS_DIR")
    if options["derivatives"]:
        check_dataset(options["derivatives"], "--derivatives")
    check_output(options["output_dir"], options["bids_dir"], options["derivatives"])
    most = options["max_dropped"]
    if not 0 <= most <= 100:
        raise ValueError(f"--max-dropped {most:g} is not a percentage from 0 to 100.")
    units, missing = find_units(options)
    check_readers(units)
    for unit_name, reason in missing.items():
        subject = unit_name.partition(" ")[0].removeprefix("sub-")
        yield Step(unit_name, "failed", reason, subject=subject)
    if not units:
        return
    name = options["analysis"]
    if name is None:
        name = "time" if units[0].datatype in HEAD else "searchlight"
    ANALYSES[name].check(name, units[0], config)
    if ANALYSES[name].images:
        given = {name: key for name, (key, _, explicit) in config.items() if explicit}
        check_estimate(options, given)
        if units[0].kind == "bold":
            check_denoised(units, options)
    by_sensors = name == "time" and options["sensors"]
    desc = entity_value(options["desc"] or ("sensors" if by_sensors else name))
    options = options | {"analysis": name, "desc": desc}
    if options["dry_run"]:
        yield from _preview_units(units, options, method, config)
        return
    folder, dataset = options["output_dir"], options["bids_dir"]
    describe_dataset(folder, dataset_places(options))
    unused = unused_options(options)
    used = {key: value for key, value in config.items() if key not in unused}
    used["analysis"] = "analysis", name, True
    _write_config("participant", used, options)
    for subject, of_subject in groupby(units, lambda unit: unit.subject):
        for unit in of_subject:
            given = unit, options, method, config
            yield _attempt(unit.name, subject, _decode_unit, *given)
        pattern = f"sub-{subject}_*desc-{desc}_decoding.h5"
        paths = sorted((folder / f"sub-{subject}").rglob(pattern))
        paths = [path for path in paths if is_whole(path)]
        page, title = _page_of(subject, options), f"Subject {subject}"
        yield from _failed_page(paths, page, f"sub-{subject} page", title, subject)
        write_overview(folder, dataset)
    _write_config("participant", used, options)


def _preview_units(units, options, method, config):
    """Yield what would be done with every unit, and how long all of it takes."""
    total = 0.0

    def of_unit(unit):
        nonlocal total
        inputs = find_inputs(unit, options)
        output, _ = outputs_of(unit, inputs, options)
        output.check()
        if output.is_complete:
            return "there", "there already"
        changes = output.changes(config)
        words, seconds = preview(inputs, options, method)
        total += seconds
        if changes:
            words.append(f"replaces an earlier result, as these changed: {changes}")
        return "done", "; ".join(words)

    for unit in units:
        yield _attempt(unit.name, unit.subject, of_unit, unit)
    yield Step("all", "done", f"about {word_seconds(total)}")


def _page_of(subject, options):
    """The page of the results of a subject."""
    return options["output_dir"] / f"sub-{subject}_desc-{options['desc']}_report.html"


def _failed_page(paths, page, name, title, subject=None):
    """Write the page of results, unless it is there of them; yield why that failed."""
    if not paths or is_of(page, paths):
        return
    step = _attempt(name, subject, write_page, paths, page, title)
    if step.state == "done":
        seal_page(page, paths)
    else:
        yield step


def _attempt(name, subject, function, *arguments):
    """What became of a function, also if it fails."""
    with warnings.catch_warnings(record=True) as given, mne.use_log_level("error"):
        try:
            state, words = function(*arguments)
        except Exception as error:  # the other subjects go on
            kind = "" if type(error) in (ValueError, OSError) else type(error).__name__
            state, words = "failed", f"{kind}{': ' if kind else ''}{error}"
    said = [" ".join(str(each.message).split()) for each in given]
    words = " ".join(words.split())
    return Step(name, state, words, tuple(dict.fromkeys(said)), subject)


def _decode_unit(unit, options, method, config):
    """Decode one subject in one task, or see that it is done."""
    start = time.perf_counter()
    inputs = find_inputs(unit, options)
    output, kept = outputs_of(unit, inputs, options)
    output.check()
    to_keep = options["keep_betas"] and unit.kind == "bold" and kept.trials is None
    trials = None

    @keeps_warnings
    def decode():
        nonlocal trials
        trials = kept.trials if unit.kind == "bold" else None
        trials = read_trials(inputs, options) if trials is None else trials
        analysis = ANALYSES[options["analysis"]]
        result = analysis.decode(trials, options, method, output.checkpoint)
        inputs.check_unchanged()  # atlases are read only now
        return with_recordings(result, inputs, trials, options)

    def make():
        result = decode()
        return result, _sources(inputs, trials, options), trials.about, trials.notes

    def summarize(result):
        summary, correction = {}, options["correction"][0]
        if not result.scalar_metrics:
            return {"Found": "a table, which has no highest value"}
        found = Finding(result, correction)
        if not found.untested:
            summary["SmallestP"] = f"{p_words(found.smallest_p)} ({correction})"
        return {"Found": found.headline} | summary

    state, words = "there", "there already"
    if not output.is_complete:
        words = _finish(output, options, config, make, summarize, start)
        state = "done"
    if to_keep:
        trials = read_trials(inputs, options) if trials is None else trials
        kept.write(trials, about_files(_sources(inputs, trials, options)))
        if state == "there":
            state, words = "done", f"{words}, images of trials kept"
    return state, words


def _finish(output, options, config, make, summarize, start, flag="--desc"):
    """Make a result unless it is there, and all files about it; what came out.

    `make` returns the result, the files that it is of, how trials were made, and notes.
    """
    changes, notes = output.changes(config), ()
    if output.result_is_there:
        result = load_result(output.result_path)
    else:
        output.folder.mkdir(parents=True, exist_ok=True)
        result, sources, trials, notes = make()
        output.clear()  # not before: what was there stays if this fails
        output.save(result, sources, trials)
    add_citations(options["output_dir"], result, options["correction"])
    summary = summarize(result) | {"Warnings": len(result.warnings)}
    output.finish(result, options["correction"], summary)
    words = [summary["Found"], *notes]
    if n := len(result.warnings):
        words.append(counted(n, "warning"))
    if changes:
        words.append(f"replaces an earlier result, as these changed: {changes}")
        if "--" in changes:
            words.append(f"another {flag} would have kept both")
    return "; ".join([*words, f"{time.perf_counter() - start:.1f} s"])


def _sources(inputs, trials, options):
    """The names of the recordings that trials are of."""
    labels, places = set(trials.table[RUN].astype(str)), dataset_places(options)
    single = len(inputs.runs) == 1  # whose trials may have other runs in their table
    runs = [run for run in inputs.runs if single or run.label in labels]
    return [uri(run.path, places) for run in runs]


def outputs_of(unit, inputs, options):
    """The files of the result of a unit, and those of its trials."""
    folder = options["output_dir"] / f"sub-{unit.subject}"
    if unit.session is not None:
        folder /= f"ses-{unit.session}"
    folder /= unit.datatype
    entities = {"ses": unit.session, "task": unit.task} | space_entities(unit.space)
    stem = stem_of(f"sub-{unit.subject}", entities | {"desc": options["desc"]})
    places, page = dataset_places(options), _page_of(unit.subject, options)
    return (
        Output(folder, stem, inputs.record(places), page, options),
        KeptTrials(folder, stem, inputs.record(places, OF_TRIALS), options),
    )


def _write_config(level, config, options):
    """Write the file that repeats a run, and other runs that differ in subjects alone.

    Those are the jobs of an array, one for each subject, whose `options` are alike.
    """
    heading = [
        f"mvpa-kfda bids BIDS_DIR OUTPUT_DIR {level} --config THIS_FILE",
        "repeats the run that wrote this file, for the subjects of all runs with the "
        "same options.",
    ]
    values = {key: value for key, value, _ in config.values()}
    label, chosen, _ = config["participant_label"]

    def collect():
        if chosen is None or level == "group":
            return values
        asked = {each.removeprefix("sub-") for each in chosen}
        return values | {label: sorted(asked | _done_alike(options))}

    path = options["output_dir"] / f"{level}_desc-{options['desc']}_config.toml"
    write_about(path, collect, lambda values: word_config(level, values, heading))


def _done_alike(options):
    """The subjects with a result of the same options."""
    of_results, sessions = options_of_results(options), options["session"]
    if sessions is not None and len(sessions) > 1:
        sessions = None  # names have none if a subject has several
    chosen, subjects = options | {"session": sessions}, set()
    pattern = f"sub-*/**/*_desc-{options['desc']}_decoding.json"
    for path in options["output_dir"].glob(pattern):
        entities, of_path = entities_of(path), read_json(path).get("Options")
        if of_path == of_results and is_chosen(entities, chosen):
            subjects.add(entities["sub"])
    return subjects


# ------------------------------------------------------------------------------- group


def group(options, method, config):
    """Test the results of all subjects; yield a `Step` for each kind of result.

    Parameters
    ----------
    options : dict
        What was given on the command line, all options by their names.
    method : dict
        Of these the arguments of `group_inference`.
    config : dict
        Of what is written to the file that repeats the run: the key and the value of
        every option, and whether it was given.

    Yields
    ------
    step : Step
        Of one task and analysis.

    Raises
    ------
    ValueError
        If there are no results to test.
    """
    check_dataset(options["bids_dir"], "BIDS_DIR")
    folder = options["output_dir"]
    check_output(folder, options["bids_dir"], options["derivatives"])
    tests = gather_results(folder, options)
    if options["name"] is not None:  # behind that of the analysis
        for each in tests:
            desc = f"{each.entities['desc']} {options['name']}"
            each.entities["desc"] = entity_value(desc)
    if options["dry_run"]:
        for gathered in tests:
            asked = gathered, options
            yield _attempt(_name_of(gathered), None, _preview_test, *asked)
        return
    for desc in sorted({each.entities.get("desc") for each in tests}):
        _write_config("group", config, options | {"desc": desc})
    for gathered in tests:
        entities, name = gathered.entities, _name_of(gathered)
        step = _attempt(name, None, _test, gathered, options, method, config)
        yield step
        if step.state == "failed":
            continue
        stem = stem_of("group", entities)
        page = folder / f"{stem}_report.html"
        paths = [folder / "group" / f"{stem}_decoding.h5"]
        yield from _failed_page(paths, page, f"{name} page", name)
        write_overview(folder, options["bids_dir"])


def _name_of(gathered):
    """What the test of a kind of results is called."""
    return " ".join(["group", *map("-".join, gathered.entities.items())])


def _preview_test(gathered, options):
    """Word who would be in a test."""
    gathered.check()
    names, notes = _with_enough_trials(gathered, options)
    return "done", "; ".join(
        [f"{counted(len(names), 'subject')} ({', '.join(names)})", *notes]
    )


def _with_enough_trials(gathered, options):
    """The names of the subjects in a test, and what to say of the others."""
    files, least, notes = gathered.files, options["min_trials"], gathered.notes
    if least is None:
        return [*files], notes
    _, _, names, gone = leave_out_small([*files.values()], len(files), [*files], least)
    text = ", ".join(f"sub-{each}" for each in gone["left_out"])
    words = f"left out: {text}, with fewer trials than --min-trials {least}"
    return names, [*notes, words] if text else notes


def _test(gathered, options, method, config):
    """Test the results of all subjects of one kind, or see that it is done."""
    start, space = time.perf_counter(), gathered.entities.get("space")
    gathered.check()
    files, folder = gathered.files, options["output_dir"]
    names, notes = _with_enough_trials(gathered, options)
    inputs = {uri(p, {"": folder}): file_checksum(p) for p in files.values()}
    stem = stem_of("group", gathered.entities)
    page = folder / f"{stem}_report.html"
    output = Output(folder / "group", stem, inputs, page, options)
    output.check()
    if output.is_complete:
        return "there", "; ".join(["there already", *notes])

    def make():
        result = group_inference(
            list(files.values()),
            subjects=list(files),
            resample=space is not None,
            **method,
        )
        used = [uri(files[name], {"": folder}) for name in names]
        return result, used, None, ()

    def summarize(result):
        n = int((np.asarray(result.pvalues()) <= result.alpha).sum())
        of_all = f"{n} of {int(result.counted.sum())} positions"
        found = f"{result.method}, {of_all} with p <= {result.alpha:g}"
        return {"Found": "; ".join([f"{len(names)} subjects", found, *notes])}

    return "done", _finish(output, options, config, make, summarize, start, "--name")


# ------------------------------------------------------------- who is in it, and not


@dataclass(frozen=True)
class Gathered:
    """Results of one kind, one of each subject."""

    entities: dict  #: what the names of the results have in common
    files: dict  #: subject -> result
    notes: list  #: what to say of those who are not in the group

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
                f"the results of {_word_subjects(broken)} are not finished, or not as "
                "they were written. Run the level participant again, which mends them."
            )
        records = {
            subject: read_json(path.with_suffix(".json"))["Options"]
            for subject, path in self.files.items()
        }
        space, words = self.entities.get("space"), []
        of_regions = {own.get("analysis") for own in records.values()} == {"regions"}
        if space in _OWN_SPACES and not of_regions:
            raise ValueError(
                f"maps are in the space {space} of each subject's own brain and cannot "
                "be put together. Decode images in a space of templates (--space), or "
                "regions, or warp the maps: see the recipes in the documentation."
            )
        for name in sorted(set().union(*records.values())):
            texts = {s: json.dumps(own.get(name)) for s, own in records.items()}
            several = sorted(set(texts.values()))
            if len(several) > 1:
                rarest = min(several, key=[*texts.values()].count)
                those = [s for s, text in texts.items() if text == rarest]
                words.append(f"{name} ({rarest} of {_word_subjects(those)})")
        if words:
            warn(
                "The results of the subjects were made with different options, by "
                f"'Options' in their .json files: {', '.join(words)}. Run the level "
                "participant for all of them with the same."
            )


def _word_subjects(subjects):
    """Name subjects, the first of many."""
    names = [f"sub-{subject}" for subject in subjects]
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def gather_results(folder, options):
    """The `Gathered` of every kind of results."""
    root = options["derivatives"] or options["bids_dir"]
    subjects, tests = subjects_of(root, options["participant_label"]), {}
    for path in sorted(folder.glob("sub-*/**/*_decoding.h5")):
        entities = entities_of(path)
        if is_chosen(entities, options):
            subject = entities.pop("sub")
            del entities["suffix"]
            tests.setdefault(tuple(entities.items()), {})[subject] = path
    everybody, found = subjects_of(root), []
    alone = _with_single_sessions(tests)
    for key, files in tests.items():
        chosen = {name: path for name, path in files.items() if name in subjects}
        if chosen:
            gone = [name for name in files if name not in everybody]
            missing = [name for name in subjects if name not in files]
            single = [name for name in alone.get(key, ()) if name in chosen]
            notes = {
                f"left out: {_word_subjects(gone)}, not in the dataset": gone,
                f"without a result: {_word_subjects(missing)}": missing,
                f"of a single session: {_word_subjects(single)}": single,
            }
            notes = [words for words, those in notes.items() if those]
            found.append(Gathered(dict(key), chosen, notes))
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
            for key in keys:
                tests[rest] |= tests.pop(key)
            tests[rest] = dict(sorted(tests[rest].items()))
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
