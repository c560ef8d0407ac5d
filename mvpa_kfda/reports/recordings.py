"""Sentences on recordings: what the BIDS command did before it decoded trials."""

import re

import numpy as np

from ..utils.checks import capital, counted, enumerated, plural, ranged
from ..utils.record import as_call
from ..utils.rounding import number
from .citations import name, outside_names

#: What groups of trials are called where they are neither runs nor sessions.
_GROUP = re.compile(r"\bgroup(?=s?\b)")

#: How images of trials were made of scans -> words.
ESTIMATE_WORDS = {
    "lss": (
        "One beta per trial was estimated in a separate general linear model for each "
        "trial, with a single regressor for all other trials (least squares, separate; "
        "LSS) [@Mumford2012]"
    ),
    "lsa": (
        "One beta per trial was estimated in a general linear model of each run with "
        "one regressor per trial (least squares, all; LSA) [@Mumford2012]"
    ),
    "blocks": "Each trial was the mean of the scans of a block",
    "images": "There was one image for each trial",
}


#: Model of drifts -> words, of the record; that of fMRIPrep is among the confounds.
_DRIFT_WORDS = {
    "cosine": "Drifts slower than {high_pass} Hz were modelled by cosines.",
    "polynomial": "Drifts were modelled by polynomials up to order {drift_order}.",
    "fMRIPrep": "Drifts were modelled by the cosines of fMRIPrep.",
    "filter": (
        "Linear trends and what is slower than {high_pass} Hz were removed, the latter "
        "by a Butterworth filter."
    ),
    None: "No drifts were modelled.",
}
#: What is computed from confounds is called, up to so many of them.
_NAMED = 12


def _record(parameters):
    """Return what is recorded of recordings, of one subject or of what many share."""
    prefix = "recordings."
    nested = parameters.get("recordings") or {}
    of_group = {k.removeprefix(prefix): v for k, v in parameters.items() if prefix in k}
    return nested | of_group


def recordings_of(parameters):
    """Say how trials were made, as far as a record tells; numbers may be of many."""
    record = _record(parameters)
    kind = record.get("kind")
    if kind is None:
        return []
    of_scans = kind in ("bold", "images")
    sentences = (_of_scans if of_scans else _of_epochs)(record, kind)
    return [*sentences, *_chosen(record)]


def named_groups(texts, parameters):
    """Return texts with runs or sessions in the place of groups, but not in names."""
    record = _record(parameters)
    noun = record.get("group", "run") if record else None
    if noun is None:
        return texts
    return [outside_names(x, lambda part: _GROUP.sub(noun, part)) for x in texts]


def _chosen(record):
    """Say which files and events were decoded, and what made their classes."""
    sentences, parts = [], []
    if record.get("echo"):
        sentences.append(f"Scans were those of echo {name(record['echo'])} only.")
    if record.get("entity"):
        files = enumerated(map(name, record["entity"]))
        sentences.append(f"Files were those with {files} in their names.")
    if record.get("by"):
        parts.append(f"Classes were those of {name(record['by'])} in the events files")
    if record.get("where"):
        lead = ", for events with " if parts else "Events were those with "
        parts.append(f"{lead}{name(record['where'])}")
    return [*sentences, f"{''.join(parts)}."] if parts else sentences


def _runs(record):
    """Word how many runs there were."""
    n = record.get("n_runs")
    return "runs" if n is None else ranged(np.atleast_1d(n).tolist(), "run")


# -------------------------------------------------------------------------- EEG, MEG


def _of_epochs(record, kind):
    """Say how epochs were made of a recording."""
    if kind == "epochs":
        sentences = [f"Epochs of {_runs(record)} were taken from the derivatives."]
    else:
        window = [number(record[x]) for x in ("tmin", "tmax") if x in record]
        between = f" from {window[0]} to {window[1]} s" if len(window) == 2 else ""
        sentences = [
            f"Raw recordings of {_runs(record)}{_filtered(record)} were cut into epochs"
            f"{between} around events{_baseline(record)}.",
            *_rejected(record),
        ]
    if record.get("resample"):
        rate = number(record["resample"])
        sentences.append(f"Epochs were resampled to {rate} Hz.")
    return sentences


def _filtered(record):
    """Word the filters."""
    passes = {"high-pass": record.get("high_pass"), "low-pass": record.get("low_pass")}
    parts = [f"{which} {number(hz)} Hz" for which, hz in passes.items() if hz]
    return f", filtered ({enumerated(parts)})," if parts else ""


def _baseline(record):
    """Word the baseline that epochs were corrected by."""
    if "baseline" not in record:
        return ""
    given = [str(x) for x in record["baseline"] or ("none", "0")]
    if given == ["none"]:
        return ", without baseline correction"
    first, last = given
    start = "the first sample" if first == "none" else f"{name(first)} s"
    end = "the last sample" if last == "none" else f"{name(last)} s"
    return f", with baseline correction from {start} to {end}"


def _rejected(record):
    """Say which epochs were left out for their size."""
    limits = [name(each.replace("=", " ")) for each in record.get("reject") or ()]
    if not limits:
        return []
    return [
        "Epochs with larger peak-to-peak amplitudes were rejected (in V, T or T/m: "
        f"{enumerated(limits)})."
    ]


# -------------------------------------------------------------------------------- fMRI


def _of_scans(record, kind):
    """Say how images of trials were made of scans, and which voxels they have."""
    sentences = []
    if "estimate" in record:
        estimate = f"{ESTIMATE_WORDS[record['estimate']]}{_of_model(record)}"
        sentences.append(f"{estimate}.")
    if kind == "bold":
        sentences += [_scans(record), *_taken_out(record), *_left_out(record)]
        sentences += _of_values(record)
    return sentences + _voxels(record)


def _of_model(record):
    """Word the response of a model, or the scans of a block."""
    if "hrf_model" in record:
        return f", with {_response(record['hrf_model'])}"
    if record.get("estimate") == "blocks" and "delay" in record:
        gap = record.get("block_gap")
        joined = ""
        if gap is not None:
            joined = f"; events of a class up to {number(gap)} s apart made a block"
        return f", {number(record['delay'])} s later{joined}"
    return ""


def _response(model):
    """Word a haemodynamic response, or several."""
    if model is None or model == "None":
        return "regressors that were not convolved with a haemodynamic response"
    if isinstance(model, str):
        return f"the haemodynamic response “{name(model)}”"
    several = model if isinstance(model, list | tuple) else [model]
    which = enumerated(f"“{name(as_call(each))}”" for each in several)
    return f"the custom haemodynamic {plural('response', len(several))} {which}"


def _of_values(record):
    """Say in which unit values are, how noise was modelled, and what was smoothed."""
    sentences = []
    if "smoothing_fwhm" in record:
        fwhm = record["smoothing_fwhm"]
        how = "not smoothed"
        if fwhm:
            how = f"smoothed with a Gaussian kernel of {number(fwhm)} mm (FWHM)"
        sentences.append(f"Scans were {how}.")
    if record.get("noise_model") == "ar1":
        sentences.append("Noise was modelled as autoregressive, of first order.")
    elif "noise_model" in record:
        sentences.append("Models were fitted by ordinary least squares.")
    if "signal_scaling" in record:
        unit = "percent of each voxel's mean over its run"
        if record["signal_scaling"] == "none":
            unit = "the unit of the scans"
        sentences.append(f"Betas were in {unit}.")
    return sentences


def _scans(record):
    """Say how many runs there were, and when their scans were taken."""
    n = ""
    if "n_scans" in record:  # of every run, also of several subjects
        n = f"{ranged(np.hstack(record['n_scans']).tolist(), 'scan')}"
    timing = f" (TR {number(record['t_r'])} s)" if "t_r" in record else ""
    each = ", one in each session," if record.get("group") == "session" else ""
    words = f"There were {_runs(record)}{each} of {n or 'scans'}{timing}"
    if "slice_time_ref" in record:
        share = number(100 * record["slice_time_ref"])
        words += f", whose slices refer to {share} % of the TR"
    return f"{words}."


def _taken_out(record):
    """Say which drifts and confounds were modelled."""
    which = [each for each in record.get("confounds") or () if each != "none"]
    sentences = []
    if "drift_model" in record:
        numbers = {
            key: number(record[key])
            for key in ("high_pass", "drift_order")
            if record.get(key) is not None
        }
        sentences.append(_DRIFT_WORDS[_drifts(record)].format(**numbers))
    n = record.get("n_confound_regressors")
    many = np.atleast_1d(0 if n is None else n).tolist()
    of = ranged(many, "regressor") if max(many) else ""
    if which:
        of = of and f": {of}"
        sentences.append(
            "Confounds of fMRIPrep [@Esteban2019] were regressed out "
            f"({enumerated(map(name, which))}{of}{_components(record)})."
        )
    elif of:
        names = record.get("regressors") or ()
        called = ""
        if 0 < len(names) <= _NAMED:
            called = f": {enumerated(map(name, names))}"
        sentences.append(f"Confounds of scans were in the model ({of}{called}).")
    elif "n_confound_regressors" in record or "confounds" in record:
        sentences.append("No confounds of scans were regressed out.")
    return sentences


def _drifts(record):
    """Return the model of drifts, which may be among the confounds."""
    model = record["drift_model"]
    cosines = [x for x in record.get("regressors") or () if x.startswith("cosine")]
    return "fMRIPrep" if model is None and cosines else model


def _components(record):
    """Word how many components of noise were asked for."""
    n = record.get("n_compcor")
    if n is None:
        return ""
    if n == "all":
        return ", all components"
    return f", at most {counted(n, 'component')} of each kind"


def _left_out(record):
    """Say how many scans were left out, and by what."""
    n = record.get("n_scans_left_out")
    if n is None or not np.any(n):
        return []
    limits = {
        "framewise displacement above {} mm": record.get("fd_threshold"),
        "standardised DVARS above {}": record.get("std_dvars_threshold"),
    }
    by = [text.format(number(x)) for text, x in limits.items() if x is not None]
    which = f" ({' or '.join(by)})" if by else ""
    were = "were" if np.max(n) > 1 else "was"
    low, high = np.min(n), np.max(n)
    many = f"{low}" if low == high else f"{low} to {high}"
    scrubbed = "scrub" in (record.get("confounds") or ())
    why = " because of motion" if scrubbed else ""
    return [f"Of the scans, {many} {were} left out{why}{which}."]


def _voxels(record):
    """Say which voxels were decoded, and in which space."""
    parts = []
    if record.get("space"):
        parts.append(f"Images were in the space {name(record['space'])}")
    if record.get("mask"):
        n = record.get("n_mask_voxels")
        many = np.atleast_1d(0 if n is None else n).tolist()
        of = f" ({ranged(many, 'voxel')})" if max(many) else ""
        masks = {
            "--mask-img": "the voxels were those of a given mask",
            "brain masks of the runs": "the voxels were those in the brain in all runs",
        }
        which = masks.get(record["mask"], "the voxels were those of a computed mask")
        parts.append(f"{which}{of}")
    words = "; ".join(parts)
    return [f"{capital(words)}."] if words else []
