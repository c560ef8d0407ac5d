"""Sentences on recordings: what the BIDS command did before it decoded trials."""

import re

import numpy as np

from ..utils.checks import counted
from .citations import name, outside_names
from .words import enumerated, number, ranged

#: What groups of trials are called where they are not runs.
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


def recordings_of(parameters):
    """Say how trials were made, as far as a record tells; numbers may be of many."""
    prefix = "recordings."
    nested = parameters.get("recordings") or {}
    of_group = {k.removeprefix(prefix): v for k, v in parameters.items() if prefix in k}
    record = nested | of_group
    kind = record.get("kind")
    if kind is None:
        return []
    of_scans = kind in ("bold", "images")
    sentences = (_of_scans if of_scans else _of_epochs)(record, kind)
    return [*sentences, *_chosen(record)]


def of_runs(text):
    """Return a text with runs in the place of groups, but not in names."""
    return outside_names(text, lambda part: _GROUP.sub("run", part))


def _chosen(record):
    """Say which events were decoded, and what made their classes."""
    parts = []
    if record.get("by"):
        parts.append(f"Classes were those of {name(record['by'])} in the events files")
    if record.get("where"):
        lead = ", for events with " if parts else "Events were those with "
        parts.append(f"{lead}{name(record['where'])}")
    return [f"{''.join(parts)}."] if parts else []


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
        sentences.append(f"{ESTIMATE_WORDS[record['estimate']]}{_of_model(record)}.")
    if kind == "bold":
        sentences += [_scans(record), *_taken_out(record), *_left_out(record)]
        if "smoothing_fwhm" in record:
            fwhm = record["smoothing_fwhm"]
            how = "not smoothed"
            if fwhm:
                how = f"smoothed with a Gaussian kernel of {number(fwhm)} mm (FWHM)"
            sentences.append(f"Scans were {how}.")
    return sentences + _voxels(record)


def _of_model(record):
    """Word the response of a model, or the scans of a block."""
    if record.get("hrf_model"):
        return f", with the haemodynamic response “{name(record['hrf_model'])}”"
    if record.get("estimate") == "blocks" and "delay" in record:
        gap = record.get("block_gap")
        joined = ""
        if gap is not None:
            joined = f"; events of a class up to {number(gap)} s apart made a block"
        return f", {number(record['delay'])} s later{joined}"
    return ""


def _scans(record):
    """Say how many runs there were, and when their scans were taken."""
    timing = f" (TR {number(record['t_r'])} s)" if "t_r" in record else ""
    words = f"There were {_runs(record)} of scans{timing}"
    if "slice_time_ref" in record:
        share = number(100 * record["slice_time_ref"])
        words += f", whose slices refer to {share} % of the TR"
    return f"{words}."


def _taken_out(record):
    """Say which drifts and confounds were modelled."""
    which = [each for each in record.get("confounds") or () if each != "none"]
    sentences = []
    if record.get("high_pass"):
        sentences.append(
            f"Drifts slower than {number(record['high_pass'])} Hz were modelled by "
            "cosines."
        )
    elif "high_pass" in record:
        sentences.append("Drifts were modelled by the cosines of fMRIPrep.")
    if which:
        n = record.get("n_confound_regressors")
        many = np.atleast_1d(0 if n is None else n).tolist()
        of = f": {ranged(many, 'regressor')}" if max(many) else ""
        sentences.append(
            "Confounds of fMRIPrep [@Esteban2019] were regressed out "
            f"({enumerated(map(name, which))}{of}{_components(record)})."
        )
    elif "confounds" in record:
        sentences.append("No confounds of scans were regressed out.")
    return sentences


def _components(record):
    """Word how many components of noise were asked for."""
    n = record.get("n_compcor")
    return "" if n is None else f", at most {counted(n, 'component')} of each kind"


def _left_out(record):
    """Say how many scans were left out, and by what."""
    n = record.get("n_scans_left_out")
    if n is None or not np.any(n) or "scrub" not in (record.get("confounds") or ()):
        return []
    limits = {
        "framewise displacement above {} mm": record.get("fd_threshold"),
        "standardised DVARS above {}": record.get("std_dvars_threshold"),
    }
    by = [text.format(number(x)) for text, x in limits.items() if x is not None]
    which = f" ({' or '.join(by)})" if by else ""
    were = "scans were" if np.max(n) > 1 else "scan was"
    low, high = np.min(n), np.max(n)
    many = f"{low}" if low == high else f"{low} to {high}"
    return [f"{many} {were} excluded because of motion{which}."]


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
            "--mask": "the voxels were those of a given mask",
            "brain masks of the runs": "the voxels were those in the brain in all runs",
        }
        which = masks.get(record["mask"], "the voxels were those of a computed mask")
        parts.append(f"{which}{of}")
    words = "; ".join(parts)
    return [f"{words[:1].upper()}{words[1:]}."] if words else []
