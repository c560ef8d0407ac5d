"""What the functions for images do beneath their arguments."""

import os
import re
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from ._analysis import make_analysis
from ._checks import check_jobs, check_option, warn
from ._images.columns import find_runs, flat_within_runs, usable_columns
from ._images.columns import standardize as z_score
from ._images.neighbours import (
    adjacency_members,
    keep_usable,
    sphere_members,
    surface_members,
)
from ._images.touching import touching, touching_from
from ._inference.clusters import adjacency_among
from ._results.space import FeatureSpace, SurfaceSpace
from ._search.checkpoint import Checkpoint, digest
from ._search.memory import NULLS, check_null, physical_memory
from ._search.parallel import one_blas_thread
from ._setup import versions
from .kernels import RBF, Linear, Polynomial
from .models import check_size, kernels_of, resolve_method
from .search import run
from .subset_source import SubsetSource
from .volume_results import VolumeResult

#: With fewer changes of the label in random order, chance may leave next to none.
_FEW_CHANGES = 10


#: Where in memory an object is, as Python writes it.
_ADDRESS = re.compile(r" at 0x\w+")
#: Kernels that are known by how they are written.
_NAMED = (Linear, RBF, Polynomial)


@dataclass(frozen=True)
class Positions:
    """What is decoded where.

    Attributes
    ----------
    space : space
        Where the positions are.
    members : csr_array of bool, shape (n_positions, n_features)
        The features of every position.
    pairs : ndarray of int, shape (2, n_pairs)
        Neighbouring positions.
    own : ndarray of int, shape (n_positions,)
        The feature that a position is the centre of, -1 for none.
    """

    space: object
    members: sparse.csr_array
    pairs: np.ndarray
    own: np.ndarray


def check_options(kernel, reg, approx, n_jobs, null, standardize, checkpoint):
    """Check what does not need the images, before they are read."""
    if not isinstance(checkpoint, str | os.PathLike | None):
        raise TypeError(
            f"Invalid value for 'checkpoint': {checkpoint!r}. Allowed: None, or the "
            "path of a file."
        )
    check_option("null", null, NULLS)
    check_option("standardize", standardize, ("zscore_sample", False, None))
    kernel, reg = resolve_method(kernel, reg, approx)
    return {
        "kernel": kernel,
        "reg": reg,
        "n_jobs": check_jobs(n_jobs),
        "null": null,
        "standardize": standardize,
    }


def name_features(space, adjacency):
    """Return the space with the names that come with an adjacency; refuse others."""
    if not isinstance(space, FeatureSpace) or not isinstance(adjacency, tuple):
        return space
    named = FeatureSpace(adjacency[1], space.n)
    if space.names is None or named.names is None:
        return space if named.names is None else named
    differ = np.flatnonzero(space.names != named.names)
    if len(differ):
        i = differ[0]
        raise ValueError(
            f"The columns of imgs and the names of adjacency differ: column {i} is "
            f"{str(space.names[i])!r} in imgs and {str(named.names[i])!r} in "
            "adjacency. Put the columns in the order of the names: imgs[list(names)]."
        )
    return space


def find_neighbours(space, centres, own, radius, adjacency, distance):
    """Return the features of every centre, and which centres touch."""
    if adjacency is not None:
        members = adjacency_members(adjacency, space.n_positions)
        if (own < 0).any():
            raise ValueError(
                f"{np.count_nonzero(own < 0)} centres of process_mask_img are outside "
                "of the mask, where adjacency knows no neighbours. Leave them out."
            )
        return members[own], touching_from(members[own][:, own])
    if isinstance(space, FeatureSpace):
        raise ValueError(
            "imgs is an array, whose features have no places. Give adjacency= to say "
            "which features are neighbours, or use decode_regions."
        )
    memory = physical_memory()
    limit = None if memory is None else memory / 4
    if isinstance(space, SurfaceSpace):
        members = surface_members(space, centres, radius, distance, max_bytes=limit)
    else:
        members = sphere_members(space, centres, radius, max_bytes=limit)
    return members, touching(centres)


def _leave_out_useless(images, positions, usable):
    """Return the members that can be used; count what is left out, and the gaps."""
    members, said = keep_usable(positions.members, usable, positions.own), []
    left_out, where = np.count_nonzero(~usable), positions.space.describe()
    gaps = np.count_nonzero(np.diff(members.indptr) == 0)
    if gaps == positions.space.n_positions:
        raise ValueError(
            f"Nothing can be decoded: none of {where} has a usable "
            f"{images.space.noun} in reach. Check radius, mask_img and the affines."
        )
    alike = gaps == left_out and positions.space == images.space
    if left_out:
        said.append(
            f"{left_out} of {images.space.describe()} hold NaN or infinite values or "
            "are constant over images or within all groups, and are left out"
            + " and NaN on the map"
            * alike
        )
    if gaps and not alike:
        said.append(f"{gaps} of {where} have nothing to decode and are NaN on the map")
    if said:
        warn("; ".join(said) + ".")
    return members


def decode_positions(
    images,
    positions,
    labels,
    *,
    parameters,
    standardize,
    kernel,
    reg,
    null,
    random_state,
    n_jobs,
    verbose,
    checkpoint,
    **options,
):
    """Standardize, run and pack. The data of the images are overwritten."""
    space = positions.space
    with nullcontext() if checkpoint is None else Checkpoint(checkpoint) as kept:
        if kept and kept.description and random_state is None:
            random_state = kept.description["random_state"]
        analysis = make_analysis(
            labels[0],
            len(images.X),
            groups=labels[1],
            kernel=kernel,
            reg=reg,
            random_state=random_state,
            **options,
        )
        size, fewer = space.describe(), "a smaller mask or process_mask_img"
        null = check_null(null, analysis, space.n_positions, size=size, fewer=fewer)
        parameters |= {"standardize": standardize, "null": null} | analysis.parameters
        check_size(kernel, images.X.shape[1])
        codes, groups = analysis.single
        X = z_score(images.X, groups, codes, standardize)
        usable = images.usable & usable_columns(X)  # now also within the groups
        members = _leave_out_useless(images, positions, usable)
        if standardize:
            _warn_of_flat_runs(X, usable, find_runs(groups, codes))
        data, kernel = analysis.average(X, kernel)
        source = SubsetSource(
            np.ascontiguousarray(data.T),
            members.indptr,
            members.indices,
            kernel,
            reg,
            partial(_word_position, space),
            analysis.folds,
        )
        _warn_of_blocks(analysis)
        if kept:
            kept.start(_describe_run(source, analysis, parameters))
        near = adjacency_among(positions.pairs, space.n_positions, source.filled)
        task = analysis.for_positions(null, near)
        outcome = run(source, task, n_jobs, verbose, kept)
    return analysis.result(
        VolumeResult,
        outcome,
        positions=np.arange(space.n_positions),
        space=space.pack(),
        adjacency=positions.pairs,
        n_features=np.diff(members.indptr),
        null_summaries={m: s.to_arrays() for m, s in outcome.summaries.items()},
        parameters=parameters,
    )


def _warn_of_flat_runs(X, usable, runs):
    """Count features without a signal in some runs, outside of its field of view."""
    n_flat = np.count_nonzero(flat_within_runs(X, usable, runs))
    if n_flat:
        warn(
            f"{n_flat} features are constant within some groups but not all: they tell "
            "nothing there, and are zero. If they are outside of the field of view of "
            "a run, leave them out of the mask."
        )


def _warn_of_blocks(analysis):
    """Warn where labels last for many images, and are yet exchanged one by one.

    Successive volumes of a block are nearly copies of each other.
    """
    permutations, (codes, groups) = analysis.permutations, analysis.single
    if permutations.n_permutations == 0 or permutations.scheme == "groups":
        return
    groups = np.zeros(len(codes)) if groups is None else groups
    expected, together = 0.0, groups[1:] == groups[:-1]
    for group in np.unique(groups):
        counts, n = np.bincount(codes[groups == group]), np.sum(groups == group)
        differ = 1 - (counts * (counts - 1)).sum() / max(1, n * (n - 1))
        expected += differ * np.count_nonzero(together & (groups[1:] == group))
    changes = np.count_nonzero(together & (codes[1:] != codes[:-1]))
    if expected >= _FEW_CHANGES and changes < expected / 3:
        warn(
            f"The label changes {changes} times from one image to the next; in random "
            f"order it would change about {expected:.0f} times. If these are volumes "
            "of a time series, they are not independent, and permuting them one by one "
            "gives p-values that are too small: decode the mean of each block, or one "
            "estimate per trial. If every image is a trial of its own, sorted by "
            "class, the p-values are right.",
            UserWarning,
        )


def _word_position(space, position):
    """Say which position something is wrong at."""
    columns = space.columns()
    if space.noun in columns:  # it has a name or number
        return f"{space.noun} {columns[space.noun][position]}"
    at = {name: values[position] for name, values in columns.items()}
    # Millimetres are rounded; hemispheres and numbers of vertices are not.
    rounded = {k: f"{v:.1f}" if isinstance(v, float) else v for k, v in at.items()}
    where = (f"{name} {value}" for name, value in rounded.items())
    return f"the {space.noun} at {', '.join(where)}"


def _describe_run(source, analysis, parameters):
    """Return all that a checkpoint's parts depend on, by the names of arguments."""
    groups = [] if analysis.groups is None else analysis.groups
    packages = {f"version of {k}": v for k, v in versions().items()}
    values = {}
    kernels = [getattr(each, "kernel", each) for each in kernels_of(source.kernel)]
    if not all(isinstance(each, _NAMED) for each in kernels):
        # What others make of some data tells them apart, not how they are called.
        first = source.indices[slice(*source.indptr[source.filled[0] :][:2])]
        X = source.data[first].T
        with one_blas_thread:  # as in the run, so that no digit depends on it
            values["the kernel's values"] = digest(
                *(each.take(first).fit(X)(X) for each in kernels)
            )
    return {
        **parameters,
        **_without_addresses(parameters),
        "imgs": digest(source.data),
        "spheres or regions": digest(source.indptr, source.indices),
        "y": digest(analysis.classes, analysis.codes),
        "groups": digest(groups),
        "cv's folds": digest(*analysis.folds.tests),
        "folds within training sets": _digest_inner(analysis.task.inner),
        "permutations": digest(analysis.task.labels),
        "averaged trials": digest(
            [] if analysis.averaging is None else analysis.averaging.members
        ),
        **values,
        **packages,
    }


def _without_addresses(parameters):
    """Return what is recorded of the method, the same in every process.

    Functions are written with their address, another one in every process.
    """
    texts = {key: parameters[key] for key in ("kernel", "reg")}
    texts = {key: _ADDRESS.sub("", text) for key, text in texts.items()}
    if "kernels" in parameters:
        texts["kernels"] = [_ADDRESS.sub("", each) for each in parameters["kernels"]]
    return texts


def _digest_inner(inner):
    """Return a digest of the folds that a tuned penalty is chosen with."""
    layouts = []
    if inner is not None and not inner.leaves_one_out:
        layouts = [inner.of_all, *(each for some in inner.of_folds for each in some)]
    # The sizes tell where one fold ends and the next begins.
    return digest(
        *(batch.take for each in layouts for batch in each.batches),
        np.array([batch.m for each in layouts for batch in each.batches], int),
    )
