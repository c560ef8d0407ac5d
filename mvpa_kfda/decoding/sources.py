"""Decoding of MNE-Python's source estimates."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.sources import SourceReader, find_source_neighbours, rescale
from ..data.trials import Confounds
from ..results.places import sensor_time_adjacency
from ..results.sources import SourceResult, SourceTimeResult
from ..utils.checkpoint import digest, open_checkpoint
from .analysis import decode, make_analysis
from .arrays import read_array_trials
from .epochs import logged
from .positions import RaggedIndices, WindowPositions
from .procedure import (
    CheckpointOptions,
    ClassOptions,
    ClassScoreOptions,
    LoggedJobOptions,
    NullOptions,
    Procedure,
    Windowing,
    WindowOptions,
    decodes,
    taken,
)

if TYPE_CHECKING:
    from mne import MixedSourceEstimate, SourceEstimate, SourceSpaces, VolSourceEstimate
    from typing_extensions import Unpack

    Estimate = SourceEstimate | VolSourceEstimate | MixedSourceEstimate


class _Options(
    WindowOptions,
    ClassOptions,
    LoggedJobOptions,
    ClassScoreOptions,
    NullOptions,
    CheckpointOptions,
    total=False,
):
    """What `decode_sources` may be told."""


@decodes(_Options, LoggedJobOptions, data=("src",))
def decode_sources(
    stcs: Iterable[Estimate],
    y: ArrayLike,
    *,
    src: SourceSpaces | str | PathLike[str] | None = None,
    radius: float | None = None,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    **options: Unpack[_Options],
) -> SourceResult | SourceTimeResult:
    """Decode class labels from source estimates at each time, without retraining.

    All sources together are decoded at each time point, or with `src` and `radius` the
    neighbourhood of each vertex (searchlight). A kernel Fisher discriminant analysis is
    cross-validated at each position, for the observed labels and for permuted ones. All
    positions share folds and permutations.

    Parameters
    ----------
    stcs : iterable of mne.SourceEstimate, one per trial
        A list, or a generator such as :func:`mne.minimum_norm.apply_inverse_epochs`
        returns with ``return_generator=True``, which is consumed one by one. Also
        volume, mixed and vector estimates, for which each vertex has three features.
        All must have the same vertices, times and subject.
    src : mne.SourceSpaces | path | None
        The source space in which the estimates were computed, ``inverse["src"]``, or
        for morphed estimates that of the target subject; vertices are matched by
        number. For a searchlight, together with `radius`. None: all sources together.
    radius : float | None
        Radius of the neighbourhoods in mm: on the cortex, distance along the mesh; in
        volumes, radius of spheres. Hemispheres and volumes are never mixed.
    reg
        ... Each time point has its own lambda.
    n_permutations
        ... All time points share them.

    Returns
    -------
    result : SourceResult | SourceTimeResult
        ``.scores`` of the first metric at each position, ``.metrics``, ``.null`` (P,
        positions...), ``.predictions`` (positions..., n_trials), ``.chance``,
        ``.pvalues(correction=)``, ``.plot()``, ``.to_dataframe()``, ``.save()`` and
        ``.times`` (s; the centres of windows). The positions are

        * for all sources together (n_times,), a SourceResult, whose ``.patterns()`` are
          source estimates;
        * for a searchlight (n_vertices, n_times), a SourceTimeResult with
          ``.vertices``, ``.adjacency``, which clusters follow, and ``.to_stc(name)``.

    Raises
    ------
    ValueError, TypeError
        On source estimates that differ in form, are not finite, or do not match the
        number of labels, a source space of other vertices or another subject, `src`
        without `radius` or `radius` without `src`, data that are flat at some position,
        checkpoints of other data or arguments, maps too large for memory, and anything
        that :func:`cross_validate` rejects.

    See Also
    --------
    generalize_arrays : Time generalization, also of sources.

    Notes
    -----
    The data are kept once, as n_trials x n_features x n_times numbers of 8 bytes, or of
    4 if all estimates are in single precision (computations use double precision in
    both cases). Source estimates from a generator are released one by one; those in a
    list need the same memory again, since you keep them. 300 trials of 8,000 vertices
    at 100 times are 1.9 GB, or 1 GB. `average` adds the averages, 1/k of that. With
    several workers, joblib puts a copy into shared memory (or its temporary folder),
    which all of them read. A searchlight keeps, for each vertex and time, n_trials
    bytes of predictions, 8 bytes per metric and fold, and the permutations set by
    `null`.

    The unit of the estimates (about 1e-11 for currents in A m, and 1 for z-scores) does
    not matter: a relative `reg` adapts to it. For kernels with ``gamma=None``, which
    assume features of about unit variance, data are divided by their standard deviation
    over all (training) trials, vertices and times. A numeric gamma refers to the
    unscaled data.

    Depth weighting and noise normalisation scale vertices relative to each other, and
    so does ``preprocess="zscore"``: they determine the weight of each vertex.

    Examples
    --------
    When sources tell two classes apart:

    >>> import mne
    >>> import numpy as np
    >>> from mvpa_kfda import decode_sources, generalize_arrays
    >>> sphere = {"sphere": (0, 0, 0, 0.09), "verbose": False}
    >>> src = mne.setup_volume_source_space(pos=40.0, **sphere)
    >>> vertices, rng = [src[0]["vertno"]], np.random.default_rng(0)
    >>> y = rng.permutation(["face", "house"] * 20)
    >>> data = rng.normal(size=(40, len(vertices[0]), 4))  # trials, vertices, times
    >>> data[y == "house", 3, 2:] += 4
    >>> stcs = [mne.VolSourceEstimate(each, vertices, -0.1, 0.1) for each in data]
    >>> result = decode_sources(stcs, y, n_permutations=99, random_state=0)
    >>> result.times[result.pvalues("max") <= 0.05].round(2)
    array([0.1, 0.2])

    Where they are, in a searchlight:

    >>> options = {"n_permutations": 99, "random_state": 0}
    >>> where = decode_sources(stcs, y, src=src, radius=40.0, **options)
    >>> where.scores.shape == (len(vertices[0]), 4)
    True
    >>> where.pvalues("max")[3] <= 0.05
    array([False, False,  True,  True])

    Time generalization of sources:

    >>> X = np.stack([stc.data for stc in stcs])
    >>> generalize_arrays(X, y, tmin=stcs[0].tmin, sfreq=stcs[0].sfreq).scores.shape
    (4, 4)
    """
    procedure = Procedure.of(options | logged(options), keep_all=src is None)
    method, null = procedure.method, procedure.permuting.null
    if (src is None) != (radius is None):
        given, missing = ("radius", "src") if src is None else ("src", "radius")
        raise ValueError(
            f"{given} is given without {missing}. A searchlight needs both, src= for "
            "where sources are and radius= in mm; leave out both to decode all sources "
            "together."
        )
    if src is None and null != "auto":
        raise ValueError(
            f"null={null!r} is for searchlights, with src and radius. A time course "
            "keeps all of its permutations; leave null out."
        )
    reader = SourceReader(stcs, y)
    windows = taken(Windowing, options).cut(reader.times, 1 / reader.tstep)
    kind, rows, fields, recorded = _lay_out(reader, windows, src, radius)
    with open_checkpoint(procedure.running.checkpoint) as kept:
        analysis = make_analysis(
            read_array_trials(y, reader.n_trials, groups, confounds, train_on),
            procedure.resumed(kept),
            WindowPositions,
            rows.get("rows", windows.starts).shape,
            with_patterns=method.kernel.is_linear and src is None,
        )
        data = reader.read()
        recorded |= {"n_features": data.shape[2], **windows.record()}
        if method.kernel.assumes_unit_scale:
            rescale(data, analysis.trained_trials)
        data, kernel = analysis.average(data, method.kernel, axis=1)
        positions = WindowPositions(data, windows, kernel, method.reg, **rows)

        def digests():
            known = {"stcs": digest(data), "times": digest(windows.times)}
            if src is not None:
                near = positions.channels
                known["src and radius"] = digest(near.indptr, near.indices)
            return known

        return decode(
            positions,
            analysis,
            kind,
            parameters=recorded,
            checkpoint=kept,
            digests=digests,
            times=windows.times,
            **fields,
        )


def _lay_out(reader, windows, src, radius):
    """A map's class of result, its rows, its fields, and what it records."""
    tstep = windows.step * reader.tstep
    if src is None:
        return SourceResult, {}, {"sources": reader.form.pack() | {"tstep": tstep}}, {}
    form, members, pairs = find_source_neighbours(reader.form, src, radius)
    names, of_each = form.labels(), np.arange(form.n_values)
    features = members.indices[:, None] * len(of_each) + of_each
    shape = len(names), len(windows.starts)
    rows = {
        "rows": np.tile(windows.starts, (len(names), 1)),
        "names": np.char.add("vertex ", names),
        "channels": RaggedIndices(members.indptr * len(of_each), features.ravel()),
        "adjacency": partial(sensor_time_adjacency, pairs, *shape),
    }
    sources = form.pack() | {"tstep": tstep}
    fields = {"vertices": names, "adjacency": pairs, "sources": sources}
    return SourceTimeResult, rows, fields, {"radius": float(radius)}
