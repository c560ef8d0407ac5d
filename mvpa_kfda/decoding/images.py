"""Decoding of brain images: searchlights and regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..data.atlas import read_regions
from ..data.images import (
    Betas,
    Classes,
    opened,
    process_positions,
    read_images,
    read_labels,
)
from ..data.neighbours import (
    DISTANCES,
    adjacency_members,
    centre_features,
    keep_usable,
    members_within,
    touching,
    touching_from,
)
from ..data.space import FeatureSpace, GrayordinateSpace, SurfaceSpace
from ..data.trials import Confounds
from ..data.volumes import (
    deviations_within,
    find_runs,
    flat_within_runs,
    usable_columns,
)
from ..data.volumes import standardize as z_score
from ..inference.clusters import adjacency_among
from ..kfda.kernels import Adjacency
from ..results.images import VolumeResult
from ..utils.checkpoint import open_checkpoint
from ..utils.checks import check_option, warn
from ..utils.fingerprints import note_input
from .analysis import decode, make_analysis
from .positions import RunScaling, SubsetPositions
from .problems import TEXTS, find_short_runs, refusal, warn_of
from .procedure import (
    ClassOptions,
    JobOptions,
    Predicted,
    Procedure,
    RunOptions,
    TargetOptions,
    decodes,
    taken,
)

if TYPE_CHECKING:
    from nibabel.cifti2 import Cifti2Image
    from nibabel.spatialimages import SpatialImage
    from nilearn.surface import PolyMesh, SurfaceImage
    from nilearn.surface.surface import SurfaceMesh
    from pandas import DataFrame
    from sklearn.base import TransformerMixin
    from sklearn.utils import Bunch
    from typing_extensions import Unpack

    Image = SpatialImage | SurfaceImage | Cifti2Image | str | PathLike[str]
    Images = Betas | Image | Sequence[Image] | ArrayLike
    # Of surfaces, files or values of each hemisphere.
    Hemispheres = Mapping[str, ArrayLike | str | PathLike[str]]
    Mask = Image | Hemispheres | TransformerMixin  # or a fitted masker
    Atlas = Image | Hemispheres | Bunch | ArrayLike
    Hemisphere = SurfaceMesh | str | PathLike[str] | None
    Mesh = PolyMesh | Mapping[str, Hemisphere] | tuple[Hemisphere, Hemisphere]
    Table = DataFrame | str | PathLike[str]
    Labels = ArrayLike | str | tuple[Table, str]


@dataclass(frozen=True)
class Geometry:
    """Where the positions are, and what is decoded at each."""

    #: Where the positions are.
    space: object
    #: The features of every position, (n_positions, n_features).
    members: sparse.csr_array
    #: Neighbouring positions, (2, n_pairs).
    pairs: np.ndarray
    #: The feature that a position is the centre of, -1 for none, (n_positions,).
    centre_feature: np.ndarray


def _name_features(space, adjacency):
    """The space with the names that come with an adjacency; refuse others."""
    if not isinstance(space, FeatureSpace) or not isinstance(adjacency, tuple):
        return space
    named = FeatureSpace(adjacency[1], space.n)
    if space.names is None or named.names is None:
        return space if named.names is None else named
    differ = np.flatnonzero(space.names != named.names)
    if len(differ):
        i = differ[0]
        pair = {"one": str(space.names[i]), "other": str(named.names[i])}
        raise refusal("names of columns", i=i, **pair)
    return space


def _find_neighbourhoods(space, centres, radius, adjacency, distance):
    """The `Geometry` of centres in the space of the data."""
    centre_feature = centre_features(space, centres)
    if adjacency is None and isinstance(space, FeatureSpace):
        what = "an array" if space.noun == "feature" else "a CIFTI file of parcels"
        raise refusal("no neighbours", what=what, noun=space.noun)
    if adjacency is None:
        members = members_within(space, centres, radius, distance)
        return Geometry(centres, members, touching(centres), centre_feature)
    members = adjacency_members(adjacency, space.n_positions)
    n_outside = np.count_nonzero(centre_feature < 0)
    if n_outside:
        raise refusal("centres outside", n=n_outside)
    members = members[centre_feature]
    pairs = touching_from(members[:, centre_feature])
    return Geometry(_name_features(centres, adjacency), members, pairs, centre_feature)


def _leave_out_useless(images, geometry, usable):
    """The members that can be used; count what is left out, and the gaps."""
    members, said = keep_usable(geometry.members, usable, geometry.centre_feature), []
    left_out, where = np.count_nonzero(~usable), geometry.space.describe()
    gaps = np.count_nonzero(np.diff(members.indptr) == 0)
    if gaps == geometry.space.n_positions:
        raise refusal("nothing to decode", where=where, noun=images.space.noun)
    alike = gaps == left_out and geometry.space == images.space
    if left_out:
        words = {"n": left_out, "what": images.space.describe()}
        more = " and NaN on the map" if alike else ""
        said.append(TEXTS["features left out"].format(more=more, **words))
    if gaps and not alike:
        said.append(f"{gaps} of {where} have nothing to decode and are NaN on the map")
    if said:
        warn("; ".join(said) + ".")
    return members


def _decode(imgs, known, mask_img, lay_out, task, options, with_patterns=False):
    """Read the images and what is `known` of them, z-score, lay out, and decode.

    ``lay_out(imgs, mask_img, mesh)`` returns the `Images` (which are overwritten), the
    `Geometry`, and what a result records of it.
    """
    procedure, reading = Procedure.of(options), taken(_Reading, options)
    y, groups, *others = known
    predicted = taken(Predicted, options, task=task)
    if predicted.of_values and reading.classes is not None:
        raise refusal("values: options", options="classes", them="it")
    imgs, y, mask_img, record = opened(imgs, y, groups, mask_img)
    images, geometry, parameters = lay_out(imgs, mask_img, reading.mesh)
    asked = y, groups, *others, reading.classes, len(images.X)
    trials, given, kept_rows, recorded = read_labels(*asked)
    note_input("data", images.X)
    space, method = geometry.space, procedure.method
    with_patterns &= method.kernel.is_linear and not predicted.of_values
    with open_checkpoint(procedure.running.checkpoint) as kept:
        analysis = make_analysis(
            trials,
            procedure.resumed(kept),
            SubsetPositions,
            (space.n_positions,),
            predicted=predicted,
            with_patterns=with_patterns,
        )
        X, members, scaling = _standardize(
            images, geometry, given, kept_rows, reading.standardize, with_patterns
        )
        filled = np.flatnonzero(np.diff(members.indptr))
        touch = geometry.pairs, space.n_positions, filled
        positions = SubsetPositions(
            np.ascontiguousarray(X.T),
            members.indptr,
            members.indices,
            method.kernel,
            method.reg,
            name=partial(_word_position, space),
            folds=analysis.samples.folds,
            adjacency=partial(adjacency_among, *touch),
            words=space.describe(),
            scaling=scaling,
        )

        # Patterns depend on the units that z-scores had, too.
        units = [np.array(["patterns"])] if with_patterns else []
        units += [scaling.deviations, scaling.run_of] if scaling else []
        return decode(
            positions,
            analysis,
            VolumeResult,
            parameters=parameters | record | {"standardize": reading.standardize},
            record=recorded,
            checkpoint=kept,
            identity={
                "imgs": (positions.data, *units),
                "spheres or regions": (positions.indptr, positions.indices),
            },
            positions=np.arange(space.n_positions),
            space=space.pack(),
            adjacency=geometry.pairs,
            n_features=np.diff(positions.indptr),
            pattern_features=positions.indices if with_patterns else (),
        )


def _standardize(images, geometry, given, kept, standardize, with_patterns):
    """z-scores, usable members, and what undoes the scaling for patterns.

    Of the images to be decoded, by means and deviations of all images of their runs.
    """
    y, groups = given
    codes, scaling = np.unique(y, return_inverse=True)[1].reshape(-1), None
    runs = find_runs(groups, codes) if standardize else ()
    if standardize and with_patterns:
        run_of = np.empty(len(images.X), int)
        for run, rows in enumerate(runs):
            run_of[rows] = run
        scaling = RunScaling(deviations_within(images.X, runs), run_of[kept])
    scored = z_score(images.X, runs)
    X = scored[kept]
    usable = images.usable & usable_columns(X)  # now also within the groups
    members = _leave_out_useless(images, geometry, usable)
    if standardize:
        n_flat = np.count_nonzero(flat_within_runs(scored, usable, runs))
        if n_flat:  # outside of the field of view of a run
            warn(TEXTS["flat in runs"].format(n=n_flat))
        warn_of(find_short_runs(y, groups))
    return X, members, scaling


def _word_position(space, position):
    """Which position something is wrong at."""
    columns = space.columns()
    if space.noun in columns:  # it has a name or number
        return f"{space.noun} {columns[space.noun][position]}"
    at = {name: values[position] for name, values in columns.items()}
    # Millimetres are rounded; hemispheres and numbers of vertices are not.
    rounded = {k: f"{v:.1f}" if isinstance(v, float) else v for k, v in at.items()}
    where = (f"{name} {value}" for name, value in rounded.items())
    return f"the {space.noun} at {', '.join(where)}"


class _Options(ClassOptions, TargetOptions, JobOptions, RunOptions, total=False):
    """What both functions may be told."""

    classes: Classes
    mesh: Mesh | None
    standardize: Literal["zscore_sample", False] | None


@dataclass(frozen=True)
class _Reading:
    """How images are read.

    Parameters
    ----------
    imgs : Betas | 4D image | list of 3D and 4D images | path | SurfaceImage | array
        One image per trial or block, not one per volume of a time series: what
        nilearn's maskers take, volumes or surfaces (also lists of them), CIFTI files
        (``.dscalar.nii``, ``.dtseries.nii``, ``.pscalar.nii``, ``.ptseries.nii``) with
        one row per image, an array (n_images, n_features), or :class:`Betas`, with
        which the result records how they were estimated.
    y : array_like, shape (n_images,) | tuple of (table, column) | str
        ... A tuple names the column of a DataFrame or of a .tsv or .csv file, a string
        one of the table of :class:`Betas`.
    groups : None | array_like, shape (n_images,) | str | tuple of (table, column)
        ... Z-scores are within them. A string is a column of y's table.
    average
        ... Images are averaged after z-scoring.
    confounds : str | list of str | array_like, shape (n_images, ...) | None
        ... A string or list of strings: columns of the table of `y`.
    train_on : str | array_like of bool, shape (n_images,) | None
        ... A string is a query on the table of `y` as pandas understands it, for
        example ``"modality == 'seen'"``.
    classes : None | list of labels | dict of name -> label or list of labels
        The labels to decode, ``["face", "house"]``, or classes of several labels,
        ``{"animate": ["face", "cat"], "inanimate": "house"}``; None: all. Images of
        other labels take part in the z-scores of their group, and in nothing else,
        which matters most where groups hold few images of each label.
        ``result.parameters["selected"]`` has the indices of those that are decoded.
    mesh : None | PolyMesh | dict of "left", "right" | (left, right)
        Where the cortex of CIFTI files lies, for neighbours and figures: paths
        (``.surf.gii``) or meshes of the hemispheres, with as many vertices as the file
        says. A searchlight in the cortex needs them. Not for other images.
    standardize : "zscore_sample" | False
        Z-score every voxel, without labels: within each group where there are groups,
        else over all images; also over all images when every group holds one class
        only. Means and deviations are those of all images of a group, also of those
        that `classes` leaves out. No label is used. If folds leave whole groups out,
        nothing of a test set goes into training; without groups, or if folds cut
        through them, test images take part in the z-scores of the training images.
    """

    classes: Classes = None
    mesh: Mesh | None = None
    standardize: Literal["zscore_sample", False] | None = "zscore_sample"

    def __post_init__(self):
        """Check what does not need the images."""
        check_option("standardize", self.standardize, ("zscore_sample", False, None))


@decodes(_Options, _Reading, Predicted, data=("mask_img", "process_mask_img", "mesh"))
def searchlight(
    imgs: Images,
    y: Labels,
    *,
    groups: Labels | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | str | None = None,
    mask_img: Mask | None = None,
    process_mask_img: Image | None = None,
    radius: float = 8.0,
    adjacency: Adjacency | None = None,
    distance: Literal["geodesic", "edges"] = "geodesic",
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_Options],
) -> VolumeResult:
    r"""Decode class labels around each voxel or vertex, without retraining.

    A kernel Fisher discriminant analysis is cross-validated on the voxels of a sphere
    around each centre [1]_, for the observed labels and for permuted ones [2]_. All
    spheres share folds and permutations, so the permuted maps preserve the dependence
    between spheres, which is used to correct for multiple testing.

    Parameters
    ----------
    imgs
        ... Arrays, and parcels of CIFTI files, need `adjacency`.
    mask_img : None | 3D image | SurfaceImage | path | fitted masker
        The voxels to use. None uses the mask of :class:`Betas`, otherwise computes one
        like :class:`nilearn.maskers.NiftiMasker`, or uses all vertices. With a fitted
        masker, data are extracted with its ``transform``, with all its settings. For
        surfaces also the ``.gii`` files of both hemispheres, ``{"left": ..., "right":
        ...}``. For CIFTI files: a ``.dscalar.nii`` of zeros and ones.
    process_mask_img : None | 3D image | SurfaceImage | path
        The centres of spheres; None uses all voxels of the mask.
    radius : float
        Radius of the spheres in mm; on surfaces, distance along the mesh, or with
        ``distance="edges"`` the number of edges. Not used with `adjacency`. In CIFTI
        files, neighbourhoods never extend into another structure.
    adjacency : None | matrix, shape (n_features, n_features) | tuple of (matrix, names)
        Sparse or dense; each feature is decoded together with those marked in its row.
        This gives a searchlight over sensors, parcels or any other features.
    distance : "geodesic" | "edges"
        How distances on surfaces are measured: along the mesh in mm, or as the number
        of edges.
    reg
        ... Each sphere has its own lambda.
    n_permutations
        ... All spheres share them.
    n_jobs
        ... Within ``joblib.parallel_config(backend="dask")``, the workers of a Dask
        cluster are used.

    Returns
    -------
    result : VolumeResult
        ``.scores`` (n_centres,), ``.metrics``, ``.null`` (P, n_centres),
        ``.to_img(name)``, ``.pvalues(correction=)``, ``.peaks()``, ``.plot()``,
        ``.to_dataframe()``, ``.save()``.

    Raises
    ------
    ValueError, TypeError
        On masks on other grids, masks that miss the data, 3D images, labels or groups
        of the wrong length, unknown columns, groups with a single class or only
        constant voxels (with z-scores), checkpoints of other data or arguments, maps
        too large for memory, and anything that :func:`cross_validate` rejects.

    Warns
    -----
    RuntimeWarning
        If voxels contain NaN or infinite values or are constant. They are left out of
        all spheres and are NaN in the map, as are centres with no voxel in reach.
    UserWarning
        If labels repeat over many successive images, as in a block design: volumes of a
        time series are not independent trials. If their order is similar across groups.
        If groups contain two or three images, from which z-scoring removes too much.

    See Also
    --------
    decode_regions : One score per region of an atlas.

    Notes
    -----
    The memory that a run takes on top of the data (n_images x n_voxels x 8 bytes) and
    of the result does not depend on the number of permutations: 5 bytes for each voxel
    of each sphere, and per worker 64 MiB of matrices (or one sphere's, 16
    n_images\ :sup:`2` bytes, if that is more), about as much for a block of label
    vectors, and the permuted scores of up to 64 spheres, 512 P bytes. The result takes
    n_images bytes per sphere, 8 more per metric, and what `null` keeps.

    References
    ----------
    .. [1] Kriegeskorte, Goebel & Bandettini (2006). Information-based functional brain
       mapping. PNAS 103(10), 3863-3868.
    .. [2] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.

    Examples
    --------
    Two runs of ten images each, with one voxel that tells faces from houses:

    >>> import numpy as np
    >>> from nibabel import Nifti1Image
    >>> from mvpa_kfda import searchlight
    >>> rng = np.random.default_rng(0)
    >>> runs = np.repeat([1, 2, 3, 4], 10)
    >>> y = np.concatenate([rng.permutation(["face", "house"] * 5) for _ in range(4)])
    >>> bold = rng.normal(size=(5, 5, 5, 40))
    >>> bold[2, 2, 2] += 5 * (y == "face")
    >>> affine = np.diag([3.0, 3.0, 3.0, 1.0])
    >>> mask = Nifti1Image(np.ones((5, 5, 5), dtype=np.uint8), affine)
    >>> result = searchlight(
    ...     Nifti1Image(bold, affine),
    ...     y,
    ...     groups=runs,
    ...     mask_img=mask,
    ...     radius=3.0,
    ...     n_permutations=99,
    ...     random_state=0,
    ... )
    >>> int((result.pvalues("max") <= 0.05).sum())
    7
    >>> result.to_img("p").shape
    (5, 5, 5)
    """
    check_option("distance", distance, DISTANCES)

    def lay_out(imgs, mask_img, mesh):
        images = read_images(imgs, mask_img, mesh)
        centres = process_positions(images, process_mask_img)
        given = radius, adjacency, distance
        geometry = _find_neighbourhoods(images.space, centres, *given)
        near = {"radius": None if adjacency is not None else float(radius)}
        if adjacency is None and isinstance(centres, SurfaceSpace | GrayordinateSpace):
            near["distance"] = distance
        return images, geometry, near

    known = y, groups, confounds, train_on
    return _decode(imgs, known, mask_img, lay_out, task, options)


@decodes(_Options, _Reading, Predicted, data=("mask_img", "mesh"))
def decode_regions(
    imgs: Images,
    y: Labels,
    *,
    labels_img: Atlas | None = None,
    lut: Table | None = None,
    groups: Labels | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | str | None = None,
    mask_img: Mask | None = None,
    task: Literal["classification", "regression"] = "classification",
    **options: Unpack[_Options],
) -> VolumeResult:
    """Decode class labels from the voxels of each region of an atlas, or of a mask.

    The features are all voxels of a region, not their mean. With fewer images than
    voxels, computing time depends on the kernel matrix of the images, so a whole brain
    is decoded in seconds, including permutations. The data of all regions are kept in
    double precision, 8 bytes per image and voxel (100 images of 100,000 voxels: 80 MB),
    in addition to the images; the current region needs this memory once more while it
    is decoded, three times more with `preprocess`, `average` or other kernels.

    Parameters
    ----------
    labels_img : None | 3D image | SurfaceImage | path | atlas of nilearn | array
        None: the whole mask is one region, see `mask_img`. Otherwise whole numbers, one
        per region; 0 is background. A volume on another grid is resampled to that of
        the images, with a warning. The return value of nilearn's ``fetch_atlas_...``
        functions can be passed directly, including names. For surfaces also the
        ``.gii`` files of both hemispheres, ``{"left": ..., "right": ...}``. For CIFTI
        files: a ``.dlabel.nii`` on the same surfaces and grid, with the region names;
        for parcels a ``.plabel.nii``. For an array of images, and for parcels: the
        number or name of each column's region.
    lut : None | DataFrame | path
        Names of the regions, a table with columns ``index`` and ``name``.
    mask_img : None | 3D image | SurfaceImage | path | fitted masker
        Voxels outside belong to no region; None uses the mask of :class:`Betas`,
        otherwise all, and without an atlas the mask computed by nilearn.
    reg
        ... Each region has its own lambda.
    n_permutations
        ... All regions share them.

    Returns
    -------
    result : VolumeResult
        One position per region, NaN for regions without usable voxels. The names are in
        ``result.to_dataframe()["region"]``; ``.to_img(name)`` returns an image of the
        regions, ``.patterns()`` the activation pattern of each class, and
        ``.confusion(region)`` a confusion matrix.

    Raises
    ------
    ValueError, TypeError
        On labels that are not whole numbers or contain no region, on maps of
        probabilities, on `lut` without `labels_img`, and anything that
        :func:`searchlight` rejects.

    Warns
    -----
    RuntimeWarning
        If the atlas is resampled, if a region has no voxel, and as
        :func:`searchlight`.
    UserWarning
        As :func:`searchlight`.

    Examples
    --------
    >>> import numpy as np
    >>> from mvpa_kfda import decode_regions
    >>> rng = np.random.default_rng(0)
    >>> y = np.tile(["face", "house"], 20)
    >>> X = rng.normal(size=(40, 6)) + 2 * (y == "face")[:, None] * (np.arange(6) < 3)
    >>> regions = ["FFA", "FFA", "FFA", "V1", "V1", "V1"]
    >>> result = decode_regions(
    ...     X, y, labels_img=regions, n_permutations=99, random_state=0
    ... )
    >>> table = result.to_dataframe()
    >>> table["region"][table["p_max"] <= 0.05].tolist()
    ['FFA']
    >>> result.confusion("FFA").to_numpy()
    array([[18,  2],
           [ 1, 19]])
    >>> result.patterns()["face"].round(1).tolist()
    [1.1, 0.7, 1.0, -0.0, 0.2, 0.2]
    """

    def lay_out(imgs, mask_img, mesh):
        images, regions = read_regions(imgs, labels_img, mask_img, lut, mesh)
        nowhere = np.full(regions.n_positions, -1)  # no voxel stands for a region
        near = regions.membership, touching(regions), nowhere
        return images, Geometry(regions, *near), {}

    known = y, groups, confounds, train_on
    return _decode(imgs, known, mask_img, lay_out, task, options, with_patterns=True)
