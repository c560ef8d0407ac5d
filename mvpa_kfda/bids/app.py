"""The two levels of the analysis: every participant, and the group."""

import time
import warnings
from dataclasses import dataclass, replace
from itertools import groupby

import mne
import numpy as np

from ..group.second_level import group_inference
from ..results.fields import keeps_warnings
from ..results.finding import Finding
from ..utils.checks import counted
from ..utils.fingerprints import file_checksum
from ..utils.plain import recorded
from ..utils.rounding import p_words
from .analyses import ANALYSES
from .bold import check_estimate, unused_by
from .config import word_config
from .events import RUN
from .find import HEAD, check_dataset, entities_of, find_units
from .group_inputs import gather_results, is_chosen
from .pages import is_of, seal_page, write_overview, write_page
from .provenance import with_recordings
from .read import check_readers, read_trials
from .sources import OF_RESULTS, OF_TRIALS, dataset_places, find_inputs, uri
from .store import KeptTrials, Output, is_whole, verify_command
from .write import (
    about_files,
    add_citations,
    check_output,
    describe_dataset,
    entity_value,
    read_json,
    space_entities,
    stem_of,
    write_about,
)

#: Options on which no number depends; what they choose is in the names of files.
NOT_OF_RESULTS = (
    *("bids_dir", "output_dir", "derivatives", "participant_label", "session"),
    *("task", "run_label", "space", "datatype", "desc", "n_jobs", "config"),
    *("name", "keep_betas"),
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
    images : bool
        Whether images were decoded, else epochs.
    """

    name: str
    state: str
    words: str
    warnings: tuple = ()
    subject: str | None = None
    images: bool = False


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
    analysis = ANALYSES[name]
    analysis.check(name, units[0], config)
    if analysis.images:
        given = {name: key for name, (key, _, explicit) in config.items() if explicit}
        check_estimate(options, given)
    options = options | {"analysis": name}
    by_sensors = name == "time" and options["sensors"]
    desc = entity_value(options["desc"] or ("sensors" if by_sensors else name))
    folder, dataset = options["output_dir"], options["bids_dir"]
    describe_dataset(folder, {"raw": dataset, "preprocessed": options["derivatives"]})
    keys = {name: key for name, (key, *_) in config.items()}
    unused = _unused(options)
    used = {key: value for key, value in config.items() if key not in unused}
    used["analysis"] = "analysis", name, True
    _write_config(folder, "participant", desc, used, options)
    for subject, of_subject in groupby(units, lambda unit: unit.subject):
        for unit in of_subject:
            given = unit, options, method, desc, keys
            step = _attempt(unit.name, subject, _decode_unit, *given)
            yield replace(step, images=unit.datatype not in HEAD)
        pattern = f"sub-{subject}_*desc-{desc}_decoding.h5"
        paths = sorted((folder / f"sub-{subject}").rglob(pattern))
        paths = [path for path in paths if is_whole(path)]
        page = folder / f"sub-{subject}_desc-{desc}_report.html"
        page_name, title = f"sub-{subject} page", f"Subject {subject}"
        yield from _failed_page(paths, page, page_name, title, subject)
        write_overview(folder, dataset)
    _write_config(folder, "participant", desc, used, options)


def _unused(options):
    """The options that the analysis has no use for."""
    analysis = ANALYSES[options["analysis"]]
    more = unused_by(options["estimate"]) if analysis.images else set()
    return analysis.unused() | more


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


def _decode_unit(unit, options, method, desc, keys):
    """Decode one subject in one task, or see that it is done."""
    start = time.perf_counter()
    analysis, corrections = ANALYSES[options["analysis"]], options["correction"]
    inputs = find_inputs(unit, options)
    output, kept = outputs_of(unit, inputs, options, desc)
    output.check()
    to_keep = options["keep_betas"] and unit.kind == "bold" and kept.trials is None
    if output.result_is_there and to_keep:
        trials = read_trials(inputs, options)
        kept.write(trials, about_files(_sources(inputs, trials, options)))
    if output.is_complete:
        if to_keep:
            return "done", "there already, images of trials kept"
        return "there", "there already"
    changes, notes, sources = output.changes(keys), (), output.sources
    if output.result_is_there:
        result = output.load()
    else:
        output.folder.mkdir(parents=True, exist_ok=True)
        checkpoint = output.checkpoint
        result, trials = _decode_trials(inputs, options, method, kept, checkpoint)
        notes, sources = trials.notes, _sources(inputs, trials, options)
        output.clear()  # not before: what was there stays if this fails
        output.save(result, sources, trials.about)
        if to_keep:
            kept.write(trials, about_files(sources))
    add_citations(options["output_dir"], result, corrections)
    summary = _summarize(result, corrections[0])
    output.finish(result, sources, corrections, analysis.maps, summary)
    words = [summary["Found"], *notes]
    return "done", _with_changes(words, result, changes, start)


def _sources(inputs, trials, options):
    """The names of the recordings that trials are of."""
    labels, places = set(trials.table[RUN].astype(str)), dataset_places(options)
    single = len(inputs.runs) == 1  # whose trials may have other runs in their table
    runs = [run for run in inputs.runs if single or run.label in labels]
    return [uri(run.path, places) for run in runs]


def outputs_of(unit, inputs, options, desc):
    """The files of the result of a unit, and those of its trials."""
    folder = options["output_dir"] / f"sub-{unit.subject}"
    page = options["output_dir"] / f"sub-{unit.subject}_desc-{desc}_report.html"
    if unit.session is not None:
        folder /= f"ses-{unit.session}"
    folder /= unit.datatype
    entities = {"ses": unit.session, "task": unit.task} | space_entities(unit.space)
    stem = stem_of(f"sub-{unit.subject}", entities | {"desc": desc})
    places, of_results = dataset_places(options), _of_results(options, _unused(options))
    line = verify_command(folder / f"{stem}_decoding.h5", options)
    return (
        Output(folder, stem, inputs.record(places), of_results, page, line),
        KeptTrials(folder, stem, inputs.record(places, OF_TRIALS), of_results),
    )


def _decode_trials(inputs, options, method, kept, checkpoint):
    """The result of a unit, which keeps all warnings, and its trials."""
    found = []

    @keeps_warnings
    def decode():
        trials = kept.trials if inputs.kind == "bold" else None
        trials = read_trials(inputs, options) if trials is None else trials
        found.append(trials)
        analysis = ANALYSES[options["analysis"]]
        result = analysis.decode(trials, options, method, checkpoint)
        inputs.check_unchanged()  # atlases are read only now
        parameters = with_recordings(result.parameters, inputs, trials, options)
        return replace(result, parameters=parameters)

    return decode(), found[0]


def _summarize(result, correction):
    """What the overview says of a result of a subject."""
    summary = {"Found": "a table, which has no highest value"}
    if result.scalar_metrics:
        found = Finding(result, correction)
        summary["Found"] = found.headline
        if not found.untested:
            summary["SmallestP"] = f"{p_words(found.smallest_p)} ({correction})"
    return summary | {"Warnings": len(result.warnings)}


def _with_changes(words, result, changes, start, flag="--desc"):
    """Join words to a line, with what changed and the number of warnings."""
    if n := len(result.warnings):
        words.append(counted(n, "warning"))
    if changes:
        words.append(f"replaces an earlier result, as these changed: {changes}")
        if "--" in changes:
            words.append(f"another {flag} would have kept both")
    return "; ".join([*words, f"{time.perf_counter() - start:.1f} s"])


def _of_results(options, unused=()):
    """The options on which results depend."""
    left_out = (*NOT_OF_RESULTS, *OF_TRIALS, *OF_RESULTS, *unused)
    return {name: value for name, value in options.items() if name not in left_out}


def _write_config(folder, level, desc, config, options=None):
    """Write the file that repeats a run, and other runs that differ in subjects alone.

    Those are the jobs of an array, one for each subject, whose `options` are alike.
    """
    heading = [
        f"mvpa-kfda bids BIDS_DIR OUTPUT_DIR {level} --config THIS_FILE",
        "repeats the run that wrote this file, for the subjects of all runs with the "
        "same options.",
    ]
    values = {key: value for key, value, _ in config.values()}
    label, *_ = config.get("participant_label", (None,))
    chosen = None if options is None else values.get(label)

    def collect():
        if chosen is None:
            return values
        asked = {each.removeprefix("sub-") for each in chosen}
        return values | {label: sorted(asked | _done_alike(folder, desc, options))}

    path = folder / f"{level}_desc-{desc}_config.toml"
    write_about(path, collect, lambda values: word_config(level, values, heading))


def _done_alike(folder, desc, options):
    """The subjects with a result of the same options."""
    of_results = _of_results(options, _unused(options))
    of_results = recorded({k: v for k, v in of_results.items() if v is not None})
    sessions = options["session"]
    if sessions is not None and len(sessions) > 1:
        sessions = None  # names have none if a subject has several
    chosen, subjects = options | {"desc": desc, "session": sessions}, set()
    for path in folder.glob(f"sub-*/**/*_desc-{desc}_decoding.json"):
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
    keys = {name: key for name, (key, *_) in config.items()}
    if options["name"] is not None:  # behind that of the analysis
        named = {}
        for key, each in tests.items():
            desc = f"{dict(key)['desc']} {options['name']}"
            named[tuple((dict(key) | {"desc": entity_value(desc)}).items())] = each
        tests = named
    descs = {dict(key).get("desc") for key in tests}
    for desc in sorted(descs):
        _write_config(folder, "group", desc, config)
    for key, gathered in tests.items():
        entities = dict(key)
        name = " ".join(["group", *(f"{k}-{v}" for k, v in entities.items())])
        step = _attempt(name, None, _test, entities, gathered, options, method, keys)
        yield step
        if step.state == "failed":
            continue
        stem = stem_of("group", entities)
        page = folder / f"{stem}_report.html"
        paths = [folder / "group" / f"{stem}_decoding.h5"]
        yield from _failed_page(paths, page, f"{name} page", name)
        write_overview(folder, options["bids_dir"])


def _test(entities, gathered, options, method, keys):
    """Test the results of all subjects of one kind, or see that it is done."""
    start = time.perf_counter()
    space = entities.get("space")
    if space in _OWN_SPACES:
        raise ValueError(
            f"maps are in the space {space} of each subject's own brain, and cannot be "
            "put together. Decode images in a space of templates, see --space."
        )
    gathered.check()
    files = gathered.files
    folder = options["output_dir"] / "group"
    places = {"": options["output_dir"]}
    inputs = {uri(path, places): file_checksum(path) for path in files.values()}
    stem = stem_of("group", entities)
    page = options["output_dir"] / f"{stem}_report.html"
    line = verify_command(folder / f"{stem}_decoding.h5", options, of_group=True)
    output = Output(folder, stem, inputs, _of_results(options), page, line)
    output.check()
    if output.is_complete:
        return "there", "; ".join(["there already", *gathered.notes])
    changes, sources = output.changes(keys), list(inputs)
    if output.result_is_there:
        result = output.load()
    else:
        result = group_inference(
            list(files.values()),
            subjects=list(files),
            resample=space is not None,
            **method,
        )
        folder.mkdir(parents=True, exist_ok=True)
        output.clear()
        output.save(result, sources)
    maps = result.geometry is not None and result.geometry.kind == "volume"
    add_citations(options["output_dir"], result, options["correction"])
    n = int((np.asarray(result.pvalues()) <= result.alpha).sum())
    of_all = f"{n} of {int(result.counted.sum())} positions"
    found = f"{result.method}, {of_all} with p <= {result.alpha:g}"
    words = [f"{len(files)} subjects", found, *gathered.notes]
    summary = {"Found": "; ".join(words), "Warnings": len(result.warnings)}
    output.finish(result, sources, options["correction"], maps, summary)
    return "done", _with_changes(words, result, changes, start, "--name")
