"""Small data, images, results and subjects: the one place where tests make them.

Data are features (n, p) or trials (n, p, n_times) with class codes 0, 1, ...; whatever
else holds data (epochs, power, images) is made of such arrays.
"""

import re
from functools import partial
from itertools import combinations

import mne
import numpy as np
import pandas as pd
import pytest
from mne.time_frequency import EpochsTFRArray
from nibabel import Nifti1Image
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, LabelAxis, ScalarAxis
from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage
from scipy.spatial import ConvexHull

from mvpa_kfda import (
    bootstrap_latency,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    decode_sources,
    generalize_arrays,
    group_inference,
    regress,
    searchlight,
)
from mvpa_kfda.data.space import RegionSpace, SurfaceSpace, VolumeSpace
from mvpa_kfda.decoding import analysis
from mvpa_kfda.inference.permutation import permute_labels
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.results.images import VolumeResult

#: Names of classes, in sorted order.
NAMES = np.array(
    ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
)
AFFINE = np.array([[3.0, 0, 0, -9], [0, 3.0, 0, -30], [0, 0, 4.0, 10], [0, 0, 0, 1]])
#: What one unit of data is in the unit of a channel type.
UNITS = {"eeg": 1e-6, "mag": 1e-13, "grad": 1e-12, "eog": 1e-4}


# ------------------------------------------------------------------------------ arrays


def words(value):
    """Name a parameter of a test, without the address that functions have in memory."""
    return re.sub(r" at 0x\w+", "", str(value))


def every_pair(rows):
    """Return some of the rows in which all pairs of values meet that meet in any row.

    Of a product, that is each value of an axis with each of another one: far fewer
    tests, which see whatever two options together can break.
    """
    pairs = [set(combinations(enumerate(row), 2)) for row in rows]
    missing, chosen = set().union(*pairs), set()
    while missing:
        most = max(range(len(rows)), key=lambda i: len(pairs[i] & missing))
        chosen.add(most)
        missing -= pairs[most]
    return [rows[i] for i in sorted(chosen)]


def by_turns(first, second, share=2):
    """Return one in so many of the pairs of two lists, as evenly as in a Latin square.

    For what is tested elsewhere pair by pair, or does not depend on the other one.
    """
    return [
        (a, b)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if (i + j) % share == 0
    ]


def balanced(n, n_classes):
    """Return class sizes that differ by one at most and sum to n."""
    return [(n + k) // n_classes for k in reversed(range(n_classes))]


def codes_of(counts, seed=0):
    """Return class codes (n,) in random order, so many of each class."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))


def features(counts=(12, 12, 12), p=5, seed=0, separation=0.6, offset=1.0):
    """Return Gaussian classes (n, p) away from the origin, and their codes."""
    # A single time is its own mean, which `trials` adds.
    X, codes = trials(counts, p, 1, seed, separation / 2, offset)
    return X[:, :, 0], codes


def with_new(counts, p, seed=0, separation=0.7, n_new=25):
    """Return Gaussian classes (n, p), their codes, and new trials (n_new, p)."""
    X, codes = features(counts, p, seed, separation, offset=2.0)
    X_new = np.random.default_rng([seed, 2]).standard_normal((n_new, p))
    return X, codes, 2.0 + separation * X_new


def trials(counts=(12, 12, 12), p=5, n_times=3, seed=0, separation=0.7, offset=1.0):
    """Return trials (n, p, n_times) and codes; classes differ anew at every time."""
    codes, rng = codes_of(counts, seed), np.random.default_rng([seed, 1])
    means = separation * rng.standard_normal((len(counts), p, n_times))
    means += means.mean(axis=2, keepdims=True)
    return offset + means[codes] + rng.standard_normal((len(codes), p, n_times)), codes


def values_of(X, seed=0, noise=1.0):
    """Return numbers (n,) that X predicts, in a unit of their own."""
    signal = X.reshape(len(X), -1)[:, 0]
    noise = noise * np.random.default_rng(seed).standard_normal(len(X))
    return 7.0 + 3.0 * (signal + noise)


def groups_of(n, n_groups=4):
    """Return groups of neighbouring trials (n,), such as runs."""
    return np.arange(n) * n_groups // n


def chain(n):
    """Return which of n features in a row are neighbours, (n, n) of bool."""
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1


def in_batches(size, monkeypatch):
    """Have all analyses process so many permutations at a time."""
    for name in ("Task", "RegressionTask"):
        kind = getattr(analysis, name)
        kind = getattr(kind, "func", kind)
        monkeypatch.setattr(analysis, name, partial(kind, batch_size=size))


def permuted(codes, n_permutations, cv, groups=None, seed=0, permute="auto"):
    """Return the label vectors of an analysis (P + 1, n), observed first.

    `cv` None stands for a test on other trials.
    """
    folds = None if cv is None else make_folds(cv, codes, groups)
    if folds is not None and folds.sees_labels and permute != "within_folds":
        folds = None  # these labels have folds of their own
    options = {"groups": groups, "permute": permute, "random_state": seed}
    return permute_labels(codes, n_permutations, folds=folds, **options).labels


# ------------------------------------------------------------------------------ epochs


def info_of(types, sfreq=100.0):
    """Return an Info of channels named by type and number: EEG0, EEG1, ..."""
    names = [f"{kind.upper()}{i}" for i, kind in enumerate(types)]
    return mne.create_info(names, sfreq, list(types))


def about(codes, **metadata):
    """Return events, names of events and metadata of epochs."""
    n = len(codes)
    samples = 1000 * np.arange(n)
    return {
        "events": np.column_stack([samples, np.zeros(n, int), codes + 1]),
        "event_id": {NAMES[k]: int(k) + 1 for k in np.unique(codes)},
        "metadata": pd.DataFrame(
            {"word": NAMES[codes], "run": groups_of(n), **metadata}
        ),
    }


def epochs(X, codes=None, types="eeg", sfreq=100.0, tmin=0.0, units=UNITS, **metadata):
    """Return epochs of trials (n, p, n_times), in the units of their channel types."""
    types = [types] * X.shape[1] if isinstance(types, str) else types
    codes = np.zeros(len(X), int) if codes is None else codes
    scale = np.array([units.get(kind, 1.0) for kind in types])[:, np.newaxis]
    return mne.EpochsArray(
        X * scale,
        info_of(types, sfreq),
        tmin=tmin,
        verbose=False,
        **about(codes, **metadata),
    )


def power(X, codes=None, freqs=(8.0, 16.0), sfreq=100.0, **metadata):
    """Return power (n, p, n_freqs, n_times) of trials, another at each frequency."""
    codes = np.zeros(len(X), int) if codes is None else codes
    shifted = np.arange(len(freqs))[:, np.newaxis]
    return EpochsTFRArray(
        info_of(["eeg"] * X.shape[1], sfreq),
        (X[:, :, np.newaxis] + shifted) ** 2,
        np.arange(X.shape[2]) / sfreq,
        np.array(freqs),
        **about(codes, **metadata),
    )


# ------------------------------------------------------------------------------ images


def volume(X, affine=AFFINE):
    """Return an image of data (n, x, y, z), or of a single one (x, y, z)."""
    data = np.moveaxis(X, 0, -1) if X.ndim == 4 else X
    kind = data.dtype if data.dtype.kind == "c" else np.float64
    return Nifti1Image(np.asarray(data, dtype=kind), affine)


def mask(where, affine=AFFINE):
    """Return an image of where something is True, or of the numbers of regions."""
    return Nifti1Image(np.asarray(where, dtype=np.uint8), affine)


def surface(left, right):
    """Return maps (n_maps, n_vertices), or one (n_vertices,), on strips of triangles.

    Vertices are neighbours of the next two.
    """
    meshes, data = {}, {"left": np.asarray(left).T, "right": np.asarray(right).T}
    for part, values in data.items():
        i = np.arange(len(values))
        faces = np.stack([i[:-2], i[1:-1], i[2:]], axis=1)
        meshes[part] = InMemoryMesh(np.stack([i * 3.0, i % 2, 0 * i], axis=1), faces)
    return SurfaceImage(PolyMesh(**meshes), data)


def cifti(X):
    """Return data (n, p, 3) as CIFTI rows: left and right cortex, and the thalamus.

    The cortex has the meshes of `surface`, the thalamus is a row of voxels 3 mm wide.
    """
    p = X.shape[1]
    axis = BrainModelAxis.from_surface(np.arange(p), p, "CortexLeft")
    axis += BrainModelAxis.from_surface(np.arange(p), p, "CortexRight")
    axis += BrainModelAxis.from_mask(np.ones((p, 1, 1)), "thalamus_left", AFFINE)
    return cifti_of(np.concatenate(np.moveaxis(X, 2, 0), axis=1), axis)


def cifti_of(rows, axis):
    """Return a CIFTI image of rows (n, n_columns) of scalars."""
    names = ScalarAxis([f"row {i}" for i in range(len(rows))])
    return Cifti2Image(np.asarray(rows), (names, axis))


def dlabel(labels, axis, names=()):
    """Return a CIFTI atlas of labels (n_columns,) with the names of 0, 1, ..."""
    table = {i: (name, (1.0, 0.0, 0.0, 1.0)) for i, name in enumerate(names)}
    labels = np.asarray(labels, np.float32)[np.newaxis]
    return Cifti2Image(labels, (LabelAxis(["atlas"], [table]), axis))


#: Brain-like grids of large voxels are where the template of nilearn is.
MNI = np.array([[8.0, 0, 0, -40], [0, 8.0, 0, -80], [0, 0, 8.0, -16], [0, 0, 0, 1]])


def volume_space(shape=(11, 12, 8), affine=MNI):
    """Return the space of a box of voxels without one of its edges."""
    inside = np.ones(shape, bool)
    inside[0, 0] = False
    return VolumeSpace(inside, affine)


def region_space(n=6):
    """Return the space of regions of neighbouring voxels: Area 0, Area 1, ..."""
    base = volume_space()
    labels = 1 + np.arange(base.n_positions) * n // base.n_positions
    names = [f"Area {i}" for i in range(n)]
    return RegionSpace(names, np.arange(1, n + 1), base, labels)


def surface_space():
    """Return the space of two bumpy sheets of vertices, the first row left out."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(9), np.arange(8), indexing="ij"))
    corner = np.flatnonzero((x < 8) & (y < 7))
    first = np.stack([corner, corner + 8, corner + 1], axis=1)
    second = np.stack([corner + 1, corner + 8, corner + 9], axis=1)
    faces = np.concatenate([first, second])
    sheet, parts = np.stack([np.sin(x), x * 4.0, y * 4.0], axis=1), ("left", "right")
    places = {part: sheet + i * 50 for i, part in enumerate(parts)}
    return SurfaceSpace(
        places, dict.fromkeys(parts, faces), dict.fromkeys(parts, x > 0)
    )


# ------------------------------------------------------------------ sources of MNE


def sheet(n, side=-1, step=3, subject="sample"):
    """Return half a source space: a bumpy ball of n points, each `step`-th in use."""
    i = np.arange(n)
    z = 1 - (2 * i + 1) / n
    angle = np.pi * (1 + 5**0.5) * i
    ring = np.sqrt(1 - z**2)
    ball = np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)
    used = np.arange(0, n, step)
    return {
        "type": "surf",
        "id": 101 if side < 0 else 102,
        "np": n,
        "rr": 0.015 * ball * (1 + 0.1 * np.sin(i))[:, None] + [0.02 * side, 0, 0],
        "nn": ball,
        "tris": ConvexHull(ball).simplices,
        "ntri": len(ConvexHull(ball).simplices),
        "use_tris": used[ConvexHull(ball[used]).simplices],
        "nuse_tri": len(ConvexHull(ball[used]).simplices),
        "vertno": used,
        "nuse": len(used),
        "inuse": np.isin(i, used).astype(int),
        "coord_frame": 5,
        **dict.fromkeys(("nearest", "nearest_dist", "pinfo", "patch_inds")),
        **dict.fromkeys(("dist", "dist_limit")),
        "subject_his_id": subject,
    }


def points(places, subject=None):
    """Return a source space of points (n, 3) in mm."""
    places = np.asarray(places, float) / 1e3
    pos = {"rr": places, "nn": np.tile([0.0, 0.0, 1.0], (len(places), 1))}
    src = mne.setup_volume_source_space(subject, pos=pos, verbose=False)
    src[0]["subject_his_id"] = subject
    return src


def grid(shape=(3, 4, 2), spacing=10.0, name=None, subject="sample"):
    """Return a volume source space: a grid whose first point is not in use."""
    z, y, x = np.meshgrid(*map(np.arange, shape[::-1]), indexing="ij")
    places = spacing * np.stack([x, y, z], axis=-1).reshape(-1, 3)
    (space,) = points(places - places.mean(axis=0), subject)
    used = np.arange(1, len(places))
    inuse = (np.arange(len(places)) > 0).astype(int)
    space |= {"type": "vol", "shape": shape, "vertno": used, "nuse": len(used)}
    space |= {"inuse": inuse, "seg_name": name} if name else {"inuse": inuse}
    return space


def source_space(kind="surface"):
    """Return a small source space: "surface", "volume" or "mixed"."""
    hemispheres = [sheet(60), sheet(48, side=1)]
    volumes = [grid(name="Left-Amygdala"), grid((2, 2, 2), name="Brain-Stem")]
    spaces = {"surface": hemispheres, "volume": [grid()]}
    return mne.SourceSpaces(spaces.get(kind, hemispheres + volumes))


def estimates(X, src, vector=False, tmin=-0.1, sfreq=100.0, subject="sample"):
    """Return source estimates of trials (n, n_vertices, [3,] n_times)."""
    kinds = {"surf": "", "vol": "Vol", "discrete": "Vol"}
    kinds = {kinds[space["type"]] for space in src}
    name = "Mixed" if len(kinds) > 1 else kinds.pop()
    cls = getattr(mne, f"{name}{'Vector' * vector}SourceEstimate")
    vertices = [np.array(space["vertno"]) for space in src]
    return [cls(each, vertices, tmin, 1 / sfreq, subject) for each in X]


# ---------------------------------------------------------------- results and subjects


def keep(null, decode, *args, **options):
    """Decode, and keep this of the null; "stream": what "auto" keeps of a large map."""
    with pytest.MonkeyPatch.context() as patch:
        if null == "stream":
            patch.setattr("mvpa_kfda.decoding.run.FULL_NULL_BYTES", 0)
            null = "auto"
        return decode(*args, null=null, **options)


def result(kind="TimeResult", seed=0, n_permutations=9, **options):
    """Return a small result of a kind, by the name of its class; "regions" too."""
    if options.get("null") == "stream":
        return keep(options.pop("null"), result, kind, seed, n_permutations, **options)
    X, codes = trials((8, 8), 4, 3, seed)
    y, values = NAMES[codes], values_of(X, seed)
    cube = np.moveaxis(X, 2, 1).reshape(16, 3, 2, 2)
    options |= {"cv": 4, "n_permutations": n_permutations, "random_state": 0}
    row = points(10.0 * np.eye(4)[:, :3].cumsum(axis=0))
    in_mask = {"mask_img": mask(np.ones((3, 2, 2))), "null": "full"} | options
    return {
        "DecodingResult": lambda: cross_validate(X[:, :, 0], y, **options),
        "RegressionResult": lambda: regress(X[:, :, 0], values, **options),
        "TimeResult": lambda: decode_epochs(epochs(X, codes), y, **options),
        "TimeRegressionResult": lambda: decode_arrays(
            X, values, task="regression", **options
        ),
        "TimeFrequencyResult": lambda: decode_epochs(power(X, codes), y, **options),
        "SensorTimeResult": lambda: decode_epochs(
            epochs(X, codes), y, sensors=chain(4), **options
        ),
        "SourceResult": lambda: decode_sources(estimates(X, row), y, **options),
        "SourceTimeResult": lambda: decode_sources(
            estimates(X, row), y, src=row, radius=10.0, **options
        ),
        "GeneralizationResult": lambda: generalize_arrays(X, y, **options),
        "VolumeResult": lambda: searchlight(volume(cube), y, radius=4.0, **in_mask),
        "regions": lambda: decode_regions(
            volume(cube),
            y,
            labels_img=mask(np.arange(12).reshape(3, 2, 2) // 4 + 1),
            **in_mask,
        ),
    }[kind]()


def made(kind, scores, null=None, chance=0.5, n=12, **fields):
    """Return a result of a class with scores (positions...) and null (P, positions...).

    Nothing was decoded for it; `fields` has what else the class needs.
    """
    shared = {
        "metrics": {"accuracy": scores},
        "nulls": {} if null is None or len(null) == 0 else {"accuracy": null},
        "chances": {"accuracy": chance},
        "classes": np.array(["face", "house"]),
        "y": np.arange(n) % 2,
        "groups": None,
        "predicted": np.zeros((*np.shape(scores), n), dtype=int),
        "tests": tuple(np.arange(n).reshape(4, -1)),
        "parameters": {},
        "versions": {},
    }
    return kind(**shared | fields)


def made_of_images(space, scores, null=None, adjacency=((), ()), **fields):
    """Return a made result of an image; where scores are NaN nothing was decoded."""
    decoded = np.isfinite(scores)
    if null is not None:
        null[:, ~decoded] = np.nan
    fields = {
        "positions": np.arange(len(scores)),
        "space": space.pack(),
        "adjacency": np.array(adjacency, dtype=int),
        "n_features": np.where(decoded, 9, 0),
    } | fields
    return made(VolumeResult, scores, null, **fields)


def brain_map(space, good, undecoded=(1,), n_permutations=99, chance=0.5, height=0.3):
    """Return a made result in which the good positions are significant, no others."""
    rng, n = np.random.default_rng(0), space.n_positions
    scores = rng.uniform(chance - 0.05, chance + 0.05, n)
    scores[list(good)] = chance + height + 0.01 * np.arange(len(good))
    null = rng.uniform(chance - 0.1, chance + 0.1, (n_permutations, n))
    scores[list(undecoded)] = np.nan
    edges = ((), ()) if space.kind == "features" else space.edges
    return made_of_images(space, scores, null, edges, chance=chance)


def subjects(kind="TimeResult", n=6, **options):
    """Return the results of several subjects."""
    return [result(kind, seed, **options) for seed in range(n)]


def group(kind="TimeResult", n=6, method="sign-flip", **options):
    """Return the second-level result of several subjects."""
    return group_inference(subjects(kind, n), method, random_state=0, **options)


def comparison(kind="TimeResult", **options):
    """Return the comparison of two results of the same trials."""
    one, other = (result(kind, n_permutations=39, reg=reg) for reg in (0.3, 30.0))
    return compare(one, other, **options)


def latency(n=6, **options):
    """Return the latency of the peak of several subjects."""
    options = {"n_bootstraps": 100, "min_duration": 0.01, "random_state": 0} | options
    return bootstrap_latency(subjects(n=n), **options)


# ------------------------------------------------------------------ irregular epochs


def jittered(epochs, seed=0):
    """Return the epochs at irregular distances, at other times with another seed."""
    distances = np.random.default_rng([seed, 7]).integers(900, 1100, len(epochs))
    epochs.events[:, 0] = 10**6 * seed + np.cumsum(distances)
    return epochs


# ----------------------------------------------------------------------------- figures


def legend(drawn):
    """Return the words of the legend of Axes, or of a figure."""
    owner = drawn.get_legend() if hasattr(drawn, "get_legend") else drawn.legends[0]
    return [text.get_text() for text in owner.get_texts()]


def artist(ax, words):
    """Return the one artist whose label has these words."""
    handles, labels = ax.get_legend_handles_labels()
    (found,) = (h for h, text in zip(handles, labels, strict=True) if words in text)
    return found
