"""Regressors of no interest that fMRIPrep writes beside its runs, read by nilearn."""

import inspect
import re

import nibabel
import numpy as np
from nilearn.interfaces.fmriprep import load_confounds

from ..utils.checks import check_count, check_positive, counted, quoted

#: The strategy that takes fMRIPrep's cosines, and the one that needs them: components
#: are computed from data without drifts, so that they do not span the drifts.
DRIFTS, _COMPONENTS = "high_pass", "compcor"
#: What tunes a strategy -> that strategy.
TUNES = {
    "fd_threshold": "scrub",
    "std_dvars_threshold": "scrub",
    "n_compcor": _COMPONENTS,
}


def with_drifts(strategy):
    """Return a strategy with all that it takes to be complete."""
    if _COMPONENTS in strategy and DRIFTS not in strategy:
        return (*strategy, DRIFTS)
    return tuple(strategy)


def models_drifts(strategy):
    """Tell whether a strategy models drifts, so that no other model of them is due."""
    return DRIFTS in with_drifts(strategy)


def tuning_of(strategy, given):
    """Return what tunes the parts of a strategy, as given or by default."""
    defaults = inspect.signature(load_confounds).parameters
    return {
        name: defaults[name].default if given[name] is None else given[name]
        for name, part in TUNES.items()
        if part in strategy
    }


def check_tuned(strategy, tuned, flag):
    """Refuse to tune what is not in a strategy, which the option `flag` gives."""
    for name, value in tuned.items():
        if value is None:
            continue
        if TUNES[name] not in strategy:
            raise ValueError(
                f"{name}={value!r} is for {flag} {TUNES[name]}. Add that, or leave it "
                "out."
            )
        if name == "n_compcor":
            check_count(name, value, 1)
        else:
            check_positive(name, value)


def read_fmriprep(paths, strategy, tuned, flag):
    """Return regressors and the scans to keep (None: all) for each run.

    `tuned` are arguments of `load_confounds`, None for its defaults, and `flag` is the
    option by which the strategy was given.
    """
    check_tuned(strategy, tuned, flag)
    tuned = {name: value for name, value in tuned.items() if value is not None}
    confounds, kept = [], []
    for path in paths:
        # nilearn looks at the name alone, and knows that of compressed files that
        # fMRIPrep wrote. The same confounds are of what others made of these.
        name = str(path) + (".gz" if str(path).endswith("_bold.nii") else "")
        name = re.sub(r"_desc-[a-zA-Z0-9]+(?=_bold\.nii)", "_desc-preproc", name)
        try:
            table, scans = load_confounds(name, with_drifts(strategy), **tuned)
        except KeyError as error:
            raise ValueError(
                f"{path.name}: the confounds of fMRIPrep have no column {error}, which "
                f"{flag} {' '.join(strategy)} needs."
            ) from error
        except TypeError as error:  # of arithmetic with texts
            raise ValueError(
                f"{path.name}: the confounds of fMRIPrep hold a text where there must "
                f"be a number ({error}). Correct the table beside it, or choose others "
                f"with {flag}."
            ) from error
        except (ValueError, OSError) as error:
            raise ValueError(
                f"{path.name}: nilearn finds no confounds {quoted(strategy)} of "
                f"fMRIPrep ({' '.join(str(error).split())}). Choose others with {flag}."
            ) from error
        if scans is not None and len(scans) == 0:
            raise ValueError(
                f"{path.name}: {flag} {' '.join(strategy)} leaves no scan. Raise "
                "fd_threshold and std_dvars_threshold, or leave the run out."
            )
        table = table if table is not None and table.shape[1] else None
        _check_table(table, path, flag)
        confounds.append(table)
        kept.append(scans)
    return confounds, kept


def _check_table(table, path, flag):
    """Refuse confounds that are not of the scans of a run, by its name."""
    if table is None:
        return
    image = nibabel.load(path)
    n_scans = image.shape[0 if isinstance(image, nibabel.Cifti2Image) else -1]
    if len(table) != n_scans:
        raise ValueError(
            f"{path.name}: the confounds of fMRIPrep have "
            f"{counted(len(table), 'row')}, but the run has {n_scans} scans. One of "
            "the two was cut short."
        )
    broken = table.columns[~np.isfinite(table).all()]
    if len(broken):
        raise ValueError(
            f"{path.name}: the confounds of fMRIPrep hold n/a or infinite values in "
            f"{quoted(broken, 5)}. Correct the table beside it, or choose others with "
            f"{flag}."
        )
