"""The two levels of the analysis: every participant, and the group."""

import time
import warnings
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import mne
import numpy as np

from ..group.second_level import group_inference
from ..inference.corrections import CORRECTIONS
from ..results.load import load_result
from ..utils.checks import quoted
from .analyses import ANALYSES
from .config import word_config
from .find import HEAD, check_dataset, entities_of, find_units
from .read import files_of, read_trials
from .write import (
    Output,
    add_citations,
    check_output,
    describe_dataset,
    entity_value,
    in_place,
    read_json,
    space_entities,
    stem_of,
)

#: Options on which no number depends; what they choose is in the names of files.
_NOT_OF_RESULTS = (
    *("bids_dir", "output_dir", "derivatives", "participant_label", "session"),
    *("task", "run_label", "space", "datatype", "desc", "n_jobs", "config"),
)
#: Options that are files: their content counts, not where they are.
_FILES = ("mask_img", "labels_img", "lut")
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
    """

    name: str
    state: str
    words: str
    warnings: tuple = ()


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
    units, missing = find_units(options)
    for unit_name, reason in missing.items():
        yield Step(unit_name, "failed", reason)
    if not units:
        return
    name = options["analysis"]
    if name is None:
        name = "time" if units[0].datatype in HEAD else "searchlight"
    options = options | {"analysis": name}
    ANALYSES[name].check(name, units[0], config)
    unused = ANALYSES[name].unused()
    desc = entity_value(options["desc"] or name)
    links = {"raw": options["bids_dir"], "preprocessed": options["derivatives"]}
    describe_dataset(options["output_dir"], links)
    keys = {name: key for name, (key, *_) in config.items()}
    used = {key: value for key, value in config.items() if key not in unused}
    used["analysis"] = "analysis", name, True
    _write_config(options["output_dir"], "participant", desc, used)
    for subject, of_subject in groupby(units, lambda unit: unit.subject):
        states = []
        for unit in of_subject:
            step = _attempt(unit.name, _decode_unit, unit, options, method, desc, keys)
            states.append(step.state)
            yield step
        page = options["output_dir"] / f"sub-{subject}_desc-{desc}_report.html"
        if "done" in states or ("there" in states and not page.exists()):
            title = f"Subject {subject}"
            paths = sorted(
                (options["output_dir"] / f"sub-{subject}").rglob(
                    f"sub-{subject}_*desc-{desc}_decoding.h5"
                )
            )
            step = _attempt(f"sub-{subject} page", _write_page, paths, page, title)
            if step.state == "failed":
                yield step


def _attempt(name, function, *arguments):
    """Return what became of a function, also if it fails."""
    with warnings.catch_warnings(record=True) as given, mne.use_log_level("error"):
        try:
            state, words = function(*arguments)
        except Exception as error:  # the other subjects go on
            kind = "" if type(error) in (ValueError, OSError) else type(error).__name__
            state, words = "failed", f"{kind}{': ' if kind else ''}{error}"
    said = [" ".join(str(each.message).split()) for each in given]
    return Step(name, state, " ".join(words.split()), tuple(dict.fromkeys(said)))


def _decode_unit(unit, options, method, desc, keys):
    """Decode one subject in one task, or see that it is done."""
    start = time.perf_counter()
    analysis = ANALYSES[options["analysis"]]
    entities = {"ses": unit.session, "task": unit.task}
    stem = stem_of(
        f"sub-{unit.subject}", entities | space_entities(unit.space) | {"desc": desc}
    )
    folder = options["output_dir"] / f"sub-{unit.subject}"
    if unit.session is not None:
        folder /= f"ses-{unit.session}"
    folder /= unit.datatype
    files = files_of(unit, options)
    places = {"raw": options["bids_dir"]}
    if options["derivatives"]:
        places["preprocessed"] = options["derivatives"]
    given = [options[n] for n in _FILES if options[n] is not None]
    inputs = {_uri(path, places): _state_of(path) for path in (*files, *given)}
    output = Output(folder, stem, inputs, _of_results(options, analysis.unused()))
    output.check()
    if output.is_complete:
        return "there", "there already"
    sources = [_uri(each.path, places) for each in unit.recordings]
    changes = output.changes(keys)
    if output.result_is_there:
        result = output.load()
    else:
        folder.mkdir(parents=True, exist_ok=True)
        trials = read_trials(unit, options)
        result = analysis.decode(trials, options, method, output.checkpoint)
        output.clear()  # not before: what was there stays if this fails
        output.save(result, sources)
    add_citations(options["output_dir"], result, options["correction"])
    output.finish(result, sources, options["correction"], analysis.maps)
    return "done", _word_done(result, changes, start)


def _word_done(result, changes, start):
    """Word what came out, and how long it took."""
    words = f"{result.scoring[0]} {result._worded_peak(result.scoring[0])}"
    if changes:
        words += f"; replaces an earlier result, as these changed: {changes}"
    return f"{words}; {time.perf_counter() - start:.1f} s"


def _of_results(options, unused=()):
    """Return the options on which results depend."""
    left_out = (*_NOT_OF_RESULTS, *_FILES, *unused)
    return {name: value for name, value in options.items() if name not in left_out}


def _state_of(path):
    """Return what tells whether a file has changed: its size and time."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


def _uri(path, places):
    """Return the name of a file in one of the datasets, as BIDS writes it."""
    path = Path(path)
    for name, folder in reversed(places.items()):
        if path.is_relative_to(folder):
            return f"bids:{name}:{path.relative_to(folder).as_posix()}"
    return path.absolute().as_uri()


def _write_config(folder, level, desc, config):
    """Write the file that repeats a run."""
    heading = [
        f"mvpa-kfda bids BIDS_DIR OUTPUT_DIR {level} --config THIS_FILE",
        "repeats the run that wrote this file.",
    ]
    path = folder / f"{level}_desc-{desc}_config.toml"
    values = {key: value for key, value, _ in config.values()}
    text = word_config(level, values, heading)
    in_place(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def _corrections_of(path):
    """Return the corrections that were asked for, which stand beside a result."""
    record = read_json(path.with_suffix(".json")) or {}
    asked = record.get("Options", {}).get("correction", ())
    return [name for name in asked if name in CORRECTIONS] or None  # or of the group


def _write_page(paths, page, title):
    """Write the page of some results."""
    from ..reports.page import report  # draws

    named = {_word_entities(path): load_result(path) for path in paths}
    correction = _corrections_of(paths[0])
    in_place(page, lambda draft: report(named, draft, title, correction=correction))
    return "done", str(page)


def _word_entities(path):
    """Return what a result is called among those of a subject or group."""
    entities = entities_of(path)
    del entities["suffix"]
    words = [f"{key}-{value}" for key, value in entities.items() if key != "sub"]
    return " ".join(words)


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
    tests = _find_results(folder, options)
    keys = {name: key for name, (key, *_) in config.items()}
    descs = {dict(key).get("desc") for key in tests}
    for desc in sorted(descs):
        _write_config(folder, "group", desc, config)
    for key, files in tests.items():
        entities = dict(key)
        name = " ".join(["group", *(f"{k}-{v}" for k, v in entities.items())])
        step = _attempt(name, _test, entities, files, options, method, keys)
        yield step
        if step.state == "failed":
            continue
        stem = stem_of("group", entities)
        page = folder / f"{stem}_report.html"
        if step.state == "done" or not page.exists():
            paths = [folder / "group" / f"{stem}_decoding.h5"]
            step = _attempt(f"{name} page", _write_page, paths, page, name)
            if step.state == "failed":
                yield step


def _find_results(folder, options):
    """Return the files of subjects by the entities that they have in common."""
    wanted = {
        "task": options["task"],
        "ses": options["session"],
        "sub": options["participant_label"],
        "desc": None if options["desc"] is None else [entity_value(options["desc"])],
    }
    space, tests = space_entities(options["space"]), {}
    for path in sorted(folder.glob("sub-*/**/*_decoding.h5")):
        entities = entities_of(path)
        chosen = all(
            labels is None
            or entities.get(key) in [each.removeprefix(f"{key}-") for each in labels]
            for key, labels in wanted.items()
        )
        if not chosen or any(entities.get(k) != v for k, v in space.items()):
            continue
        subject = entities.pop("sub")
        del entities["suffix"]
        tests.setdefault(tuple(entities.items()), {})[subject] = path
    if not tests:
        raise ValueError(
            f"OUTPUT_DIR {folder} has no results of subjects that match. Run the level "
            "participant first, or see --task, --session, --space and --desc."
        )
    return tests


def _test(entities, files, options, method, keys):
    """Test the results of all subjects of one kind, or see that it is done."""
    start = time.perf_counter()
    space = entities.get("space")
    if space in _OWN_SPACES:
        raise ValueError(
            f"maps are in the space {space} of each subject's own brain, and cannot be "
            "put together. Decode images in a space of templates, see --space."
        )
    if len(files) < 2:
        raise ValueError(
            f"only subject {quoted(files)} has a result; a group needs two or more."
        )
    folder = options["output_dir"] / "group"
    places = {"": options["output_dir"]}
    inputs = {_uri(path, places): _state_of(path) for path in files.values()}
    output = Output(folder, stem_of("group", entities), inputs, _of_results(options))
    output.check()
    if output.is_complete:
        return "there", "there already"
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
    output.finish(result, sources, options["correction"], maps)
    words = [f"{len(files)} subjects", *_word_group(result)]
    return "done", _with_changes(words, changes, start)


def _with_changes(words, changes, start):
    """Join words to a line."""
    if changes:
        words.append(f"replaces an earlier result, as these changed: {changes}")
    return "; ".join([*words, f"{time.perf_counter() - start:.1f} s"])


def _word_group(result):
    """Word what was tested and found."""
    p = np.asarray(result.pvalues())
    n, total = int((p <= result.alpha).sum()), int(result.counted.sum())
    yield f"{result.method}, {n} of {total} positions with p <= {result.alpha:g}"
