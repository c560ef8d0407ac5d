"""Decoding of brain images: searchlights and regions."""

import numpy as np

from ._checks import check_option
from ._images.neighbours import DISTANCES, region_members
from ._images.reading import process_positions, read_images, read_labels
from ._images.regions import read_regions
from ._images.touching import own_columns, touching
from ._results.space import SurfaceSpace
from ._volumes import (
    Positions,
    check_options,
    decode_positions,
    find_neighbours,
    name_features,
)


def searchlight(
    imgs,
    y,
    *,
    groups=None,
    mask_img=None,
    process_mask_img=None,
    radius=8.0,
    adjacency=None,
    distance="geodesic",
    standardize="zscore_sample",
    kernel="linear",
    reg=0.3,
    cv=None,
    scoring="accuracy",
    n_permutations=0,
    permute="auto",
    null="auto",
    random_state=None,
    n_jobs=None,
    dtype="float64",
    verbose=None,
    checkpoint=None,
    n_components=None,
    approx=None,
    average=None,
):
    r"""Decode class labels around every voxel or vertex, without retraining.

    A kernel Fisher discriminant analysis is cross-validated on the voxels of a sphere
    around every centre [1]_, for the observed labels and for permuted ones [2]_. Folds
    and permutations are the same in all spheres, so that the permuted maps carry the
    dependence between them and correct for their number.

    Parameters
    ----------
    imgs : 4D image | list of 3D and 4D images | path | SurfaceImage | array
        One image per trial or block, not one per volume of a time series: what
        nilearn's maskers take, volumes or surfaces (also lists of them), or an array
        (n_images, n_features) with `adjacency`.
    y : array_like, shape (n_images,) | tuple of (table, column)
        Class labels: strings, whole numbers or booleans; two or more classes. A tuple
        names the column of a DataFrame or of a .tsv or .csv file.
    groups : None | array_like, shape (n_images,) | str | tuple of (table, column)
        Runs, sessions or subjects: for z-scores, for the splitters that use groups, and
        the blocks within which labels are permuted. A string is a column of y's table.
    mask_img : None | 3D image | SurfaceImage | path | fitted masker
        The voxels to use. None computes a mask as :class:`nilearn.maskers.NiftiMasker`
        does, or takes all vertices. With a fitted masker its ``transform`` makes the
        data, with all its settings.
    process_mask_img : None | 3D image | SurfaceImage | path
        The centres; None takes all voxels of the mask.
    radius : float
        Radius of the spheres in mm; on surfaces, length of the paths along the mesh, or
        with ``distance="edges"`` their number of edges. Not used with `adjacency`.
    adjacency : None | matrix, shape (n_features, n_features) | tuple of (matrix, names)
        Sparse or dense; a feature is decoded together with those that its row marks.
        So sensors, parcels or any other features have searchlights too.
    distance : "geodesic" | "edges"
        How paths on surfaces are measured: by the length of their edges in mm, or by
        how many there are.
    standardize : "zscore_sample" | False
        Z-score every voxel, without labels: within each group where there are groups,
        else over all images; also over all images when every group holds one class
        only. No label is used. If folds leave whole groups out, nothing of a test set
        goes into training; without groups, or if folds cut through them, test images
        take part in the z-scores of the training images.
    kernel : str | kernel object | callable
        See :func:`cross_validate`; not ``"precomputed"``.
    reg : float | str | penalty object
        See :func:`cross_validate`; a float is relative to each sphere's kernel.
    cv : None | int | splitter | iterable of (train, test)
        See :func:`cross_validate`: None leaves one group out when groups are given.
    scoring : str | list of str
        See :func:`cross_validate`.
    n_permutations : int
        Label permutations P, the same in every sphere.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permuted maps. ``"full"``: all of them, P x V x 4 bytes.
        ``"max"``: each map's largest score, and of every voxel how many permutations
        reach its score: enough for all p-values but those of clusters and TFCE.
        ``"stream"``: these too, by way of a temporary file. ``"auto"``: all of them up
        to 1 GiB, else the maxima.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of spheres, as in joblib. The result does not depend on it.
        In ``joblib.parallel_config(backend="dask")`` they are those of a Dask cluster.
    dtype : "float64" | "float32"
        Precision in which labels are processed, see :func:`cross_validate`.
    verbose : bool | None
        True shows a progress bar, False none, None only on runs of more than a few
        seconds.
    checkpoint : None | str | path-like
        A file that keeps finished blocks of spheres. The same call with the same file
        continues a run that was stopped at any moment, and ends with the same result.
        It is not deleted at the end.
    n_components : int | None
        How many discriminants to classify by, see :func:`cross_validate`.
    approx : Nystrom | None
        Landmarks that approximate the kernel, see :func:`cross_validate`.
    average : int | None
        How many trials to average into pseudo-trials, see :func:`cross_validate`.
        Images are averaged after z-scoring.

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
        of the wrong length, unknown columns, groups of which some hold a single class
        or nothing but constant voxels (with z-scores), checkpoints of other data or
        arguments, maps too large for memory, and all that :func:`cross_validate`
        refuses.

    Warns
    -----
    RuntimeWarning
        If voxels hold NaN or infinite values or are constant. They are left out of all
        spheres, and NaN on the map, as are centres with no voxel in reach.
    UserWarning
        With permutations, if labels last for many images in a row, as in a block
        design: volumes of a time series are no independent trials.

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
    >>> y, runs = np.tile(["face", "house"], 20), np.repeat([1, 2, 3, 4], 10)
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
    options = check_options(kernel, reg, approx, n_jobs, null, standardize, checkpoint)
    check_option("distance", distance, DISTANCES)
    images = read_images(imgs, mask_img)
    centres = process_positions(images, process_mask_img)
    own = own_columns(images.space, centres)
    members, pairs = find_neighbours(
        images.space, centres, own, radius, adjacency, distance
    )
    near = {"radius": None if adjacency is not None else float(radius)}
    if adjacency is None and isinstance(centres, SurfaceSpace):
        near["distance"] = distance
    return decode_positions(
        images,
        Positions(name_features(centres, adjacency), members, pairs, own),
        read_labels(y, groups),
        parameters=near,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        n_components=n_components,
        average=average,
        verbose=verbose,
        checkpoint=checkpoint,
        **options,
    )


def decode_regions(
    imgs,
    y,
    *,
    labels_img,
    lut=None,
    groups=None,
    mask_img=None,
    standardize="zscore_sample",
    kernel="linear",
    reg=0.3,
    cv=None,
    scoring="accuracy",
    n_permutations=0,
    permute="auto",
    null="auto",
    random_state=None,
    n_jobs=None,
    dtype="float64",
    verbose=None,
    checkpoint=None,
    n_components=None,
    approx=None,
    average=None,
):
    """Decode class labels from the voxels of every region of an atlas.

    All voxels of a region are the features, not their mean.

    Parameters
    ----------
    imgs : 4D image | list of 3D and 4D images | path | SurfaceImage | array
        One image per trial, see :func:`searchlight`; or an array (n_images,
        n_features).
    y : array_like, shape (n_images,) | tuple of (table, column)
        Class labels, see :func:`searchlight`.
    labels_img : 3D image | SurfaceImage | path | atlas of nilearn | array
        Whole numbers, one per region; 0 is background. A volume on another grid is
        resampled to that of the images, with a warning. What nilearn's
        ``fetch_atlas_...`` functions return will do. For an array of images: the number
        or name of every column's region.
    lut : None | DataFrame | path
        Names of the regions, a table with columns ``index`` and ``name``.
    groups : None | array_like, shape (n_images,) | str | tuple of (table, column)
        Runs, sessions or subjects, see :func:`searchlight`.
    mask_img : None | 3D image | SurfaceImage | path | fitted masker
        Voxels outside belong to no region; None takes all.
    standardize : "zscore_sample" | False
        Z-scores within each group, see :func:`searchlight`.
    kernel : str | kernel object | callable
        See :func:`cross_validate`; not ``"precomputed"``.
    reg : float | str | penalty object
        See :func:`cross_validate`; a float is relative to each region's kernel.
    cv : None | int | splitter | iterable of (train, test)
        See :func:`cross_validate`.
    scoring : str | list of str
        See :func:`cross_validate`.
    n_permutations : int
        Label permutations P, the same in every region.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
    null : "auto" | "full" | "max" | "stream"
        What to keep of the permuted scores, see :func:`searchlight`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    n_jobs : int | None
        Workers over blocks of regions, as in joblib.
    dtype : "float64" | "float32"
        Precision in which labels are processed, see :func:`cross_validate`.
    verbose : bool | None
        True shows a progress bar, False none, None only on runs of more than a few
        seconds.
    checkpoint : None | str | path-like
        A file that keeps finished blocks, see :func:`searchlight`.
    n_components : int | None
        How many discriminants to classify by, see :func:`cross_validate`.
    approx : Nystrom | None
        Landmarks that approximate the kernel, see :func:`cross_validate`.
    average : int | None
        How many trials to average into pseudo-trials, see :func:`cross_validate`.
        Images are averaged after z-scoring.

    Returns
    -------
    result : VolumeResult
        One position per region, NaN for regions that hold no usable voxel. The names
        are in ``result.to_dataframe()["region"]``; ``.to_img(name)`` paints the
        regions.

    Raises
    ------
    ValueError, TypeError
        On labels that are not whole numbers or hold no region, and all that
        :func:`searchlight` refuses.

    Warns
    -----
    RuntimeWarning
        If the atlas is resampled, if a region has no voxel, and as
        :func:`searchlight`.

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
    """
    options = check_options(kernel, reg, approx, n_jobs, null, standardize, checkpoint)
    images, regions = read_regions(imgs, labels_img, mask_img, lut)
    members = region_members(regions.labels, regions.ids)
    own = np.full(regions.n_positions, -1)  # no voxel stands for a region
    return decode_positions(
        images,
        Positions(regions, members, touching(regions), own),
        read_labels(y, groups),
        parameters={},
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        n_components=n_components,
        average=average,
        verbose=verbose,
        checkpoint=checkpoint,
        **options,
    )
