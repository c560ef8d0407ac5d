"""Small data, images, results and subjects: the one place where tests make them.

Data are features (n, p) or trials (n, p, n_times) with class codes 0, 1, ...; whatever
else holds data (epochs, power, images) is made of such arrays.
"""

import re
import tracemalloc
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
from scipy.signal import lfilter
from scipy.spatial import ConvexHull
from sklearn.model_selection import (
    GroupKFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
)

from mvpa_kfda import (
    Tuned,
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
from mvpa_kfda.kfda.direct import Predictions
from mvpa_kfda.kfda.folds import make_folds
from mvpa_kfda.results.epochs import (
    GeneralizationResult,
    SensorTimeResult,
    TimeFrequencyResult,
    TimeRegressionResult,
    TimeResult,
)
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


def spread(n, *axes, seed=0):
    """Return n rows of a product, drawn so that values of an axis are about as often.

    For what depends on one value or two: of far more options than every pair of them.
    """
    rng, columns = np.random.default_rng(seed), []
    for axis in axes:
        values = list(axis)
        times = np.concatenate([rng.permutation(len(values)) for _ in range(n)])[:n]
        columns.append([values[i] for i in times])
    return list(zip(*columns, strict=True))


def balanced(n, n_classes):
    """Return class sizes that differ by one at most and sum to n."""
    return [(n + k) // n_classes for k in reversed(range(n_classes))]


def codes_of(counts, seed=0):
    """Return class codes (n,) in random order, so many of each class."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))


def mixed(n_groups=6, n=20, n_classes=2, seed=0):
    """Return class codes (n_groups * n,), in random order in every group."""
    rng = np.random.default_rng(seed)
    codes = np.tile(np.arange(n) % n_classes, (n_groups, 1))
    return rng.permuted(codes, axis=1).ravel()


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


def peak_bytes(function, *args, **options):
    """Return what a function allocates at its peak."""
    tracemalloc.start()
    try:
        function(*args, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def permuted(codes, n_permutations, cv, groups=None, seed=0, permute="auto"):
    """Return the label vectors of an analysis (P + 1, n), observed first.

    `cv` None stands for a test on other trials.
    """
    folds = None if cv is None else make_folds(cv, codes, groups)
    if folds is not None and folds.sees_labels and permute != "within_folds":
        folds = None  # these labels have folds of their own
    options = {"groups": groups, "permute": permute, "random_state": seed}
    return permute_labels(codes, n_permutations, folds=folds, **options).labels


#: Twelve test sets: four of 5 rows and eight of 6, from models of so many trials.
SETS = ((4, 5, 63), (8, 6, 62))


def sets_of(shapes):
    """Return (rows, n_train) of every test set of some `shapes`."""
    sizes = [(m, n_train) for k, m, n_train in shapes for _ in range(k)]
    ends = np.cumsum([m for m, _ in sizes])
    return [
        (slice(end - m, end), n_train)
        for end, (m, n_train) in zip(ends, sizes, strict=True)
    ]


def predictions(n_classes, seed=0, digits=12, n=68, n_labels=7):
    """Return predictions (n, ..., n_labels) for label vectors, better than chance."""
    rng, p = np.random.default_rng(seed), np.arange(1, n_classes + 1)
    true = rng.choice(n_classes, size=(n, n_labels), p=p / p.sum())
    scores = 0.03 * rng.standard_normal((n, n_classes, n_labels))
    scores += 0.02 * (np.arange(n_classes)[:, None] == true[:, None])
    scores = scores.round(digits)
    return Predictions(true, scores.argmax(axis=1), scores)


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


def saved_in(folder, results):
    """Return the files of subjects, each in a folder of its own."""
    files = []
    for number, each in enumerate(results, start=1):
        files.append(folder / f"sub-{number:02d}" / "result.h5")
        files[-1].parent.mkdir()
        each.save(files[-1])
    return files


# ------------------------------------------------------------ results with clusters

#: Times and frequencies of these results, and their sensors.
TIMES, FREQS = np.arange(-5, 20) / 100, np.array([4.0, 8.0, 16.0, 32.0])
SENSORS = np.array(["Fz", "Cz", "Pz", "Oz", "O1", "O2"])


def smooth_maps(n_maps, shape, seed=0):
    """Return maps (n_maps, positions...) whose neighbours resemble each other."""
    maps = np.random.default_rng(seed).normal(size=(n_maps, *shape))
    for axis in range(1, maps.ndim):
        maps = maps + np.roll(maps, 1, axis)
    return maps


def with_clusters(shape, seed=0, n_permutations=59):
    """Return scores and null of such maps; the observed one has more to it."""
    maps = smooth_maps(n_permutations + 1, shape, seed)
    maps[0] += np.linspace(-1.5, 2.0, maps[0].size).reshape(shape)
    maps = 0.5 + 0.02 * maps
    return maps[0], maps[1:]


def _clustered_map(seed=0, mode="plain"):
    second = with_clusters((9, 11), [seed, 1])[1] + 0.01
    return made(
        GeneralizationResult,
        *with_clusters((9, 11), seed),
        train_times=TIMES[:9],
        test_times=TIMES[:11],
        y_test=np.arange(12) % 2,
        second_nulls={"accuracy": second},
        parameters={"mode": mode},
    )


def _clustered_brain(space, seed):
    scores, null = with_clusters((space.n_positions,), seed)
    scores[::17] = np.nan
    return made_of_images(space, scores, null, space.edges)


def clustered(kind, seed=0):
    """Return a made result that has clusters, one of CLUSTERED."""
    numbers = {"classes": np.empty(0), "predicted": np.zeros((25, 12))}
    linked = np.array([[0, 1, 2, 3, 3, 4], [1, 2, 3, 4, 5, 5]])
    of_sensors = {"adjacency": linked, "info_fif": np.empty(0, np.uint8)}
    of_sensors |= {"ch_names": SENSORS, "times": TIMES}
    course = partial(with_clusters, (25,), seed)
    return {
        "times": lambda: made(TimeResult, *course(), times=TIMES),
        "values": lambda: made(TimeRegressionResult, *course(), times=TIMES, **numbers),
        "power": lambda: made(
            TimeFrequencyResult,
            *with_clusters((4, 25), seed),
            freqs=FREQS,
            times=TIMES,
        ),
        "sensors": lambda: made(
            SensorTimeResult, *with_clusters((6, 25), seed), **of_sensors
        ),
        "map": lambda: _clustered_map(seed),
        "map of others": lambda: _clustered_map(seed, "same_trials"),
        "voxels": lambda: _clustered_brain(volume_space((5, 6, 4)), seed),
        "vertices": lambda: _clustered_brain(surface_space(), seed),
        "regions": lambda: _clustered_brain(region_space(30), seed),
    }[kind]()


CLUSTERED = (
    *("times", "values", "power", "sensors", "map", "map of others"),
    *("voxels", "vertices", "regions"),
)
clustered_maps = pytest.mark.parametrize("kind", CLUSTERED)


def near_in(result):
    """Return a function that tells whether positions, tuples, are neighbours."""
    pairs = getattr(result, "adjacency", None)
    near = set() if pairs is None else {tuple(pair) for pair in pairs.T.tolist()}
    near |= {(j, i) for i, j in near}

    def are_neighbours(one, other):
        apart = np.abs(np.subtract(one, other))
        if pairs is None:
            return apart.sum() == 1
        linked = (one[0], other[0]) in near and one[1:] == other[1:]
        return linked or (one[0] == other[0] and apart.sum() == 1)

    return are_neighbours


def connected_sets(inside, are_neighbours):
    """Return the connected sets of positions, each a list of tuples, by a walk."""
    waiting, found = set(map(tuple, np.argwhere(inside).tolist())), []
    while waiting:
        members = [waiting.pop()]
        for one in members:  # which grows on the way
            near = [other for other in waiting if are_neighbours(one, other)]
            waiting -= set(near)
            members += near
        found.append(members)
    return found


# ------------------------------------------------------- noise, and p-values of it


def _noise(rng, groups=None):
    """Return noise; trials of a group share an offset if there are groups."""
    if groups is None:
        return rng.normal(size=(40, 20))
    offsets = 2.0 * rng.normal(size=(groups.max() + 1, 8))
    return offsets[groups] + rng.normal(size=(len(groups), 8))


def _stratified(rng, **options):
    return _noise(rng), np.arange(40) % 2, {"cv": StratifiedKFold(10), **options}


def _unbalanced(rng):
    y = rng.permutation(np.repeat(["a", "b", "c"], [20, 12, 8]))
    return _noise(rng), y, {"cv": StratifiedKFold(4, shuffle=True, random_state=0)}


def _runs(rng, cv):
    # Runs differ in level and in how many trials of each class they hold.
    groups = np.repeat(np.arange(5), 8)
    y = (np.arange(40) % 8 < groups + 2).astype(int)
    return _noise(rng, groups), y, {"cv": cv, "groups": groups}


def _between_subjects(rng):
    groups = np.repeat(np.arange(12), rng.integers(3, 7, 12))
    y = rng.permutation(np.arange(12) % 2)[groups]
    return _noise(rng, groups), y, {"cv": GroupKFold(4), "groups": groups}


def _stepped(rng, **options):
    X = _noise(rng) * rng.uniform(0.1, 10, 20) + 5
    return X, np.arange(40) % 2, {"cv": StratifiedKFold(4), **options}


def _confounded(rng):
    # A confound that is related to the classes, and that the features depend on.
    confound = np.arange(40) % 2 + rng.normal(size=40)
    X, y, options = _stepped(rng, confounds=confound)
    return X + 2 * np.outer(confound, rng.normal(size=20)), y, options


def _lasting(rng, cv):
    # Noise that lasts from trial to trial, under labels in random order.
    X = lfilter([1], [1, -0.7], rng.normal(size=(40, 20)), axis=0)
    return X, rng.permutation(np.arange(40) % 2), {"cv": cv}


def _crossed(rng, **options):
    # Train on half of the trials, which tell nothing; test on the others, which do.
    groups, trained = np.repeat(np.arange(5), 8), np.arange(40) % 8 < 4
    y = np.concatenate([rng.permutation([0, 0, 1, 1]) for _ in range(10)])
    X = _noise(rng, groups) + 0.7 * np.outer(y * ~trained, rng.normal(size=8))
    return X, y, {"groups": groups, "train_on": trained, **options}


_ZSCORE, _WITHIN = {"preprocess": "zscore"}, {"permute": "within_folds"}
_HALVES = ShuffleSplit(5, train_size=0.5, random_state=0)
#: Makers of data without an effect and options, and the scheme that is chosen.
PROBLEMS = {
    "stratified": (_stratified, "free"),
    "stratified, unbalanced": (_unbalanced, "free"),
    "stratified, within folds": (partial(_stratified, **_WITHIN), "within_folds"),
    "leave one out": (partial(_stratified, cv=LeaveOneOut()), "free"),
    "leave one run out": (partial(_runs, cv=LeaveOneGroupOut()), "within_groups"),
    "runs across folds": (partial(_runs, cv=LeaveOneOut()), "within_groups"),
    "between subjects": (_between_subjects, "groups"),
    "z-scores": (partial(_stepped, **_ZSCORE), "free"),
    "z-scores, within folds": (
        partial(_stepped, **_ZSCORE, **_WITHIN),
        "within_folds",
    ),
    "components": (partial(_stepped, preprocess="pca"), "free"),
    "whitening": (partial(_stepped, preprocess="whiten"), "free"),
    "z-scores, tuned": (partial(_stepped, **_ZSCORE, reg=Tuned()), "free"),
    "confounds": (_confounded, "free"),
    "overlapping": (
        partial(_lasting, cv=StratifiedShuffleSplit(10, random_state=0)),
        "free",
    ),
    "time series": (partial(_lasting, cv=TimeSeriesSplit(4)), "free"),
    "few training trials": (partial(_lasting, cv=_HALVES), "free"),
    "cross-decoding": (_crossed, "within_groups"),
    "cross-decoding, z-scores": (partial(_crossed, **_ZSCORE), "within_groups"),
}


def simulate(problem, n_data, n_permutations, **options):
    """Decode many data sets of noise; return the results."""
    results = []
    for seed in range(n_data):
        X, y, given = problem(np.random.default_rng(seed))
        given = {**given, "n_permutations": n_permutations, "random_state": seed}
        results.append(cross_validate(X, y, **given, **options))
    return results


def p_without_ties(results):
    """Return p-values with ties broken at random: uniform if the test is right.

    Accuracies of few trials are coarse, so the p-values themselves are not uniform but
    a little too large.
    """
    rng = np.random.default_rng(0)
    p = []
    for result in results:
        larger = (result.null > result.scores + 1e-9).sum()
        tied = (abs(result.null - result.scores) <= 1e-9).sum()
        p.append((larger + rng.uniform() * (1 + tied)) / (1 + len(result.null)))
    return np.array(p)


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


def bars(ax):
    """Return the start and the end of each bar of significance, in seconds."""
    boxes = [path.get_extents() for path in artist(ax, "p ≤").get_paths()]
    return np.array([[box.x0, box.x1] for box in boxes])
