"""The command for BIDS datasets: ``mvpa-kfda bids``.

Options are defined by docstrings of classes, and by the arguments of functions. Those
that are not given are looked up in the file of --config, and last there.
"""

import re

from ..inference.listed import CLUSTER_FDR
from ..utils.text import tell
from .command import (
    Command,
    check_there,
    made,
    options_in,
    options_of,
    single,
    tell_of,
)
from .decoding import DEFAULTS, Tuning


class Selection:
    """What is decoded; both levels take these.

    Parameters
    ----------
    derivatives : path, optional
        preprocessed data: output of fMRIPrep or MNE-BIDS-Pipeline (default: BIDS_DIR)
    participant_label : list of str, optional
        subjects, with or without sub- (default: all)
    session : list of str, optional
        sessions (default: all, with their runs decoded together)
    task : list of str, optional
        tasks, decoded separately (default: all)
    space : str, optional
        space of images, e.g. MNI152NLin2009cAsym:res-2; none: that of the scanner
    desc : str, optional
        name of the analysis in file names (default: that of --analysis). Use different
        names to keep results of different settings
    dry_run : bool, default=False
        write nothing, and say what would be done: trials and lost events by class,
        folds, positions, permutations, the smallest p-value, time and memory
    correction : list of any correction, optional
        corrections for multiple testing; cluster-fdr is for groups only (default: max;
        holm for i-test)
    """


class Data:
    """What is read, and how.

    Parameters
    ----------
    run_label : list of str, optional
        runs (default: all)
    entity : list of str, optional
        of several files of a run decode those named so, e.g. desc-denoised, echo-2, or
        echo-none for those without an echo (default for fMRI: desc-preproc)
    datatype : {eeg, meg, ieeg, func}, optional
        type of data to decode if there are several; func is fMRI
    by : str, default=trial_type
        classes: a column of the events, or an expression on columns such as
        "trial_type.str.startswith('face')". Events with n/a are left out
    regression : bool, default=False
        predict the values of --by, such as ratings or reaction times, instead of
        classes; scores are r2, pearsonr or neg_mean_squared_error
    where : str, optional
        decode only events that match, e.g. "trial_type in ['face', 'house']"
    train_on : str, optional
        train on events that match, and test on the others
    max_dropped : float, default=5.0
        largest percentage of lost events: without an onset, outside the recording,
        without signal, in tables without the column. With more, the subject fails.
        Events left out by --where and --reject are not counted
    analysis : {time, generalization, searchlight, regions}, optional
        decode at each time, train at one time and test at others, decode around each
        voxel, or in regions (default: time for EEG and MEG, searchlight for fMRI)
    high_pass : float, optional
        raw EEG and MEG: lower cut-off frequency of the filter in Hz; fMRI: cut-off
        frequency of drifts (default: 0.01)
    confounds : list of str, optional
        EEG and MEG: columns of the events that are regressed out of the signals, with
        coefficients from the training trials of each fold; fMRI: confounds of the
        scans, as named by nilearn.interfaces.fmriprep.load_confounds, e.g. motion
        wm_csf scrub, or none (default: motion). compcor includes fMRIPrep's drift
        model, which replaces --high-pass
    """


class Head:
    """Options of EEG and MEG.

    Parameters
    ----------
    low_pass : float, optional
        raw recordings: upper cut-off frequency of the filter in Hz
    tmin : float, optional
        start of epochs in seconds (default: -0.2, or that of saved epochs)
    tmax : float, optional
        end of epochs in seconds (default: 0.5, or that of saved epochs)
    baseline : list of str, optional
        raw recordings: start and end of the baseline in seconds, none for the start or
        end of the epoch, or a single none for no baseline (default: none 0)
    reject : list of str, optional
        raw recordings: reject epochs with larger peak-to-peak amplitudes, TYPE=LIMIT,
        e.g. eeg=150e-6 (V; MEG: T)
    resample : float, optional
        sampling rate in Hz to which epochs are resampled (default: that of the
        recording)
    picks : list of str, optional
        channels, e.g. Cz,Pz (default: all good ones)
    sensors : bool, default=False
        searchlight: decode each sensor with its neighbours
    scale : {auto, channel, none}, default=auto
        auto: if there are several channel types, divide each type by its standard
        deviation; channel: divide each channel by its own; none: no scaling
    window : float, optional
        window length in seconds (default: single samples)
    step : float, optional
        step between windows in seconds
    window_mode : {mean, concatenate}, default=mean
        average the samples of a window, or use all of them as features
    """


class Func:
    """Options of fMRI.

    Parameters
    ----------
    estimate : {lss, lsa, blocks, images}, default=lss
        image of each trial: least squares separate (lss) or all (lsa), mean over its
        scans (blocks), or existing images (*_betaseries.nii.gz with a table)
    slice_time_ref : float, optional
        reference time of slices as a fraction of a scan, from 0 to 1 (default:
        StartTime in the .json file of each run, as written by fMRIPrep, otherwise 0)
    delay : float, default=5.0
        with --estimate blocks, haemodynamic delay in seconds
    block_gap : float, optional
        with --estimate blocks, join events of one class into a block if they begin at
        most so many seconds after the previous one ended (default: each event is a
        block)
    smoothing_fwhm : float, optional
        full width at half maximum in mm
    mask_img : path, optional
        voxels to decode (default: the intersection of the brain masks of all runs)
    radius : float, default=8.0
        radius of the spheres in mm
    labels_img : path, optional
        image with the region number of each voxel, or 4D image with a probability map
        per region; without it all voxels of the mask form one region
    lut : path, optional
        names of the regions, a table (.tsv, .csv) with columns index and name
    keep_betas : bool, default=False
        also save the single-trial images (*_betaseries.nii.gz), which other analyses of
        the same trials then reuse
    """


class Name:
    """The option that tells tests of a group apart.

    Parameters
    ----------
    name : str, optional
        name of the test, appended to that of the analysis in file names. Use different
        names to keep the results of different tests
    """


#: Arguments of the functions: of all that decode, and of `group_inference`.
DECODING = (
    *("kernel", "reg", "approx", "preprocess", "cv", "scoring", "n_permutations"),
    *("permute", "random_state", "n_jobs", "n_components", "average", "n_repeats"),
    *("equalize", "average_test", "circular", "period"),
)
TESTING = (
    *("method", "order", "hypothesis", "alternative", "metric", "n_permutations"),
    *("alpha", "threshold", "min_trials", "random_state"),
)
#: What every level takes, by the heading in the help: classes, or arguments of a
#: function with their defaults.
LEVELS = {
    "participant": {
        "data": (Selection,),
        "input": (Data,),
        "EEG and MEG": (Head,),
        "fMRI": (Tuning, Func),
        "decoding": ("decode_epochs", DEFAULTS, DECODING),
    },
    "group": {
        "data": (Selection,),
        "level group": (Name,),
        "tests": ("group_inference", {"random_state": 0}, TESTING),
    },
}
#: The page that links all others.
OVERVIEW = "index.html"


def _options(kind):
    """The options below a heading."""
    return options_of(*kind) if isinstance(kind[0], str) else options_in(*kind)


def keys_of(level):
    """The options of a level by their keys, flags without dashes."""
    every = (each for kind in LEVELS[level].values() for each in _options(kind))
    return {each.key: each for each in every}


def participant_options():
    """The options of the level participant, by what the functions call them."""
    return {option.argument: option for option in keys_of("participant").values()}


def _groups():
    """The options of both levels by heading, each of them once."""
    groups, known = {}, set()
    for level in LEVELS.values():
        for title, kind in level.items():
            new = [each for each in _options(kind) if each.key not in known]
            known |= {each.key for each in new}
            groups |= {title: new} if new else {}
    return groups


class Dataset:
    """A dataset.

    Parameters
    ----------
    BIDS_DIR : path
        the dataset
    OUTPUT_DIR : path
        the derivative dataset
    LEVEL : {participant, group}
        level of the analysis
    config : path, optional
        TOML file of options; the command line takes precedence
    """


def run_bids(given, options):
    """Decode the subjects of a BIDS dataset, then test the group.

    A derivative dataset is written: results (.h5), tables (.tsv), maps (.nii.gz) and
    reports (.html), each with a JSON file. Existing results are not computed again
    unless their input or options have changed. Runs are the groups of the
    cross-validation. The exit status is 1 if a subject failed and others did not, and 2
    if nothing could be done.
    """
    from ..bids import app

    level = given.level
    settled, config = _settle(level, given.config, options)
    settled |= {"bids_dir": given.bids_dir, "output_dir": given.output_dir}
    if level == "participant":
        check_there(settled["mask_img"], settled["labels_img"], settled["lut"])
        if CLUSTER_FDR in settled["correction"]:
            raise ValueError(
                "--correction cluster-fdr is for the level group only. Use another one "
                "here."
            )
        method = {name: made(settled[name]) for name in DECODING}
        outcomes = app.participants(settled, method, config)
    else:
        method = {name: settled[name] for name in ("correction", *TESTING)}
        outcomes = app.group(settled, method, config)
    done = []
    try:
        for outcome in outcomes:
            done.append(outcome)
            if outcome.state == "failed":
                tell_of("error: ", f"{outcome.name}: {outcome.words}")
            else:
                tell(f"{outcome.name}: {outcome.words}")
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped; run the same command to continue") from None
    finally:
        for text in _word_warnings(done):
            tell_of("warning: ", text)
    failed = sum(outcome.state == "failed" for outcome in done)
    words = f"{failed} of {len(done)} failed"
    if settled["dry_run"]:
        tell("Wrote nothing")
        return int(failed > 0)
    if failed == len(done):
        tell(f"Wrote no result: {words}")
        return 2
    overview = settled["output_dir"] / OVERVIEW
    tell(f"Wrote {settled['output_dir']}{f'; {words}' if failed else ''}")
    tell(f"See {overview}")
    return 1 if failed else 0


def _settle(level, file, given):
    """All options of the level, and what is known of them for the file."""
    options = {name: keys_of(name) for name in LEVELS}
    own = options[level]
    arguments_of = {option.argument for option in own.values()}
    for key, option in (pair for each in options.values() for pair in each.items()):
        if option.argument in given and option.argument not in arguments_of:
            raise ValueError(
                f"--{key} does not apply to the level {level}. Leave it out."
            )
    if file is not None:
        from ..bids.config import read_config

        given = read_config(file, level, options) | given
    settled = {o.argument: given.get(o.argument, o.default) for o in own.values()}
    for name in {*DECODING, *TESTING} & {*settled}:
        settled[name] = single(settled[name])
    by_default = "holm" if settled.get("method") == "i-test" else "max"
    settled["correction"] = settled["correction"] or [by_default]
    config = {
        o.argument: (key, settled[o.argument], o.argument in given)
        for key, o in own.items()
        if o.argument != "dry_run"  # which is nothing to repeat
    }
    return settled, config


def _word_warnings(outcomes):
    """Every warning once, with those whom it is about; numbers may differ."""
    subjects = {each.subject for each in outcomes if each.subject is not None}
    alike = {}
    for outcome in outcomes:
        for text in outcome.warnings:
            key = re.sub(r"'[^']*'|\S*\d\S*", "#", text)
            alike.setdefault(key, {}).setdefault(text, []).append(outcome)
    for texts in alike.values():
        text, about = next(iter(texts.items()))
        concerned = [each for several in texts.values() for each in several]
        shared = {each.subject for each in concerned}
        if len(shared) < 2:
            for text, about in texts.items():
                yield f"{', '.join(dict.fromkeys(o.name for o in about))}: {text}"
            continue
        differ = (
            f" (The numbers are those of {about[0].name}.)" if len(texts) > 1 else ""
        )
        yield f"{len(shared)} of {len(subjects)} subjects: {text}{differ}"


COMMAND = Command(run_bids, (Dataset,), groups=_groups)
