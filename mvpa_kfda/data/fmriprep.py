"""Regressors of no interest that fMRIPrep writes beside its runs, read by nilearn."""

from nilearn.interfaces.fmriprep import load_confounds

from ..utils.checks import check_count, check_positive, quoted

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
        # nilearn looks at the name alone, and knows that of compressed files.
        name = str(path) + (".gz" if str(path).endswith("_bold.nii") else "")
        try:
            table, scans = load_confounds(name, with_drifts(strategy), **tuned)
        except KeyError as error:
            raise ValueError(
                f"{path.name}: the confounds of fMRIPrep have no column {error}, which "
                f"{flag} {' '.join(strategy)} needs."
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
        confounds.append(table if table is not None and table.shape[1] else None)
        kept.append(scans)
    return confounds, kept
