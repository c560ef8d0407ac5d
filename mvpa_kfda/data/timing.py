"""When scans were taken: what callers, headers and the .json files of BIDS say of it.

What is given comes first, then the .json file beside a run, then its header. Where two
of them say different things, there is a warning.
"""

import json
import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ..utils.checks import warn

#: Times and shares that differ by less are the same.
_SAME = 0.01


@dataclass(frozen=True)
class Timing:
    """When the scans of all runs were taken."""

    t_r: float  #: seconds from scan to scan
    slice_time_ref: float  #: when in a scan its slices are, from 0 to 1
    told_by: str  #: who says the latter: "given", "StartTime" or "default"


@dataclass(frozen=True)
class Sidecar:
    """What the .json file of a run says, in seconds; None for nothing."""

    path: Path
    t_r: float | None
    start: float | None


def sidecar_beside(item):
    """Return the `Sidecar` beside the file of a run; None if there is none."""
    if not isinstance(item, str | PathLike):
        return None
    path = Path(item).expanduser()
    # Of CIFTI files both ..._bold.dtseries.json and ..._bold.json are in use.
    whole = re.sub(r"\.nii(\.gz)?$", "", path.name)
    for stem in (whole, path.name.partition(".")[0]):
        sidecar = path.with_name(f"{stem}.json")
        if sidecar.is_file():
            return read_sidecar(sidecar)
    return None


def read_sidecar(path):
    """Read a `Sidecar`, whose times have to be numbers of seconds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:  # also of bytes that are no text
        raise ValueError(f"{path} is no JSON file: {error}.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} holds no names with values, as the .json files of BIDS do."
        )
    t_r, start = (_seconds(path, content, n) for n in ("RepetitionTime", "StartTime"))
    if t_r == 0 or (t_r is not None and start is not None and start > t_r):
        raise ValueError(
            f"{path}: RepetitionTime is {t_r:g} s"
            + ("" if start is None else f" and StartTime {start:g} s")
            + ". The first is the time from scan to scan, the second the reference "
            "time of the slices within a scan; correct the file."
        )
    return Sidecar(path, t_r, start)


def _seconds(path, content, name):
    """Return a time in the content of a file, None if it is not there."""
    if name not in content:
        return None
    value = content[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < float("inf"):
        raise ValueError(
            f"{path}: {name} is {_in_json(value)}, but must be a number of seconds. "
            "Correct it, or take it out of the file."
        )
    return float(value)


def _in_json(value):
    """Word a value as the file has it: null, not None."""
    return repr(value) if isinstance(value, str) else json.dumps(value)


def find_timing(names, headers, sidecars, t_r=None, slice_time_ref=None):
    """Return the `Timing` of runs.

    `names` are those in messages, `headers` has the seconds from scan to scan and
    `sidecars` a `Sidecar` for each run, or None. What is given as `t_r` and
    `slice_time_ref` is taken in any case.
    """
    t_r = _find_t_r(names, headers, sidecars, t_r)
    starts = [None if each is None else each.start for each in sidecars]
    known = [start / t_r for start in starts if start is not None]
    if slice_time_ref is not None:
        other = [share for share in known if abs(share - slice_time_ref) > _SAME]
        if other:
            warn(
                f"slice_time_ref={slice_time_ref:g}, but by the StartTime in its .json "
                f"file a run has {other[0]:g}. The first is used."
            )
        return Timing(t_r, slice_time_ref, "given")
    if not known:
        warn(
            "slice_time_ref is not given, and no .json file of the runs has a "
            "StartTime: the start of each scan is taken as its time "
            "(slice_time_ref=0). If slice timing was corrected, pass the reference "
            "time as a fraction of a scan, by default 0.5 with fMRIPrep; if it "
            "was not, pass 0."
        )
        return Timing(t_r, 0.0, "default")
    if len(known) < len(starts) or max(known) - min(known) > _SAME or max(known) > 1:
        told = sorted({"none" if start is None else f"{start:g} s" for start in starts})
        raise ValueError(
            f"The .json files of the runs have no common reference time of "
            f"slices: with {t_r:g} s from scan to scan, StartTime is "
            f"{', '.join(told)}. Pass slice_time_ref, or use runs that agree."
        )
    return Timing(t_r, known[0], "StartTime")


def _find_t_r(names, headers, sidecars, given):
    """Return the seconds from scan to scan; warn where somebody says another number."""
    in_files = [None if each is None else each.t_r for each in sidecars]
    if given is None:
        pairs = zip(in_files, headers, strict=True)
        told = [header if value is None else value for value, header in pairs]
        if None in told:
            raise ValueError(
                "t_r is not given, and not all headers of imgs tell it in seconds, nor "
                ".json files beside them. Pass t_r, the seconds from scan to scan "
                "(RepetitionTime in the .json file of BIDS)."
            )
        if max(told) > 1.001 * min(told):
            raise ValueError(
                "The headers or .json files of imgs tell different times from scan to "
                f"scan, from {min(told):g} to {max(told):g} s. Estimate runs of one "
                "t_r at a time."
            )
        given = told[0]
    for what, values in (("the .json file", in_files), ("the header", headers)):
        for name, value in zip(names, values, strict=True):
            if value is not None and abs(value - given) > _SAME * given:
                warn(
                    f"t_r={given:g}, but {what} of {name} says {value:g} s. The first "
                    "is used."
                )
                return given
    return given
