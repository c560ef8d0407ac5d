"""Surface images of nilearn: loaded, compared, masked.

Values are never replaced: NaN stays NaN, so that it can be told from a zero.
"""

import numpy as np
from nilearn.maskers import SurfaceMasker
from nilearn.surface import SurfaceImage

from .volumes import BLOCK, as_mask, check_several, listed


def is_surface(imgs):
    """Tell whether images are surfaces, and refuse a mixture with others."""
    items = [imgs] if isinstance(imgs, SurfaceImage) else imgs
    if not isinstance(items, list | tuple):
        return False
    surfaces = [isinstance(item, SurfaceImage) for item in items]
    if any(surfaces) and not all(surfaces):
        other = type(items[surfaces.index(False)]).__name__
        raise TypeError(
            f"imgs holds both surfaces and others ({other}); give images of one kind."
        )
    return any(surfaces)


def load_surfaces(imgs):
    """Return a list of surface images on one mesh, two or more maps in all."""
    images = listed(imgs)
    for number, image in enumerate(images):
        name = f"imgs[{number}]" if len(images) > 1 else "imgs"
        check_mesh(image, images[0], name, "imgs[0]")
        for part, data in image.data.parts.items():
            if data.ndim not in (1, 2) or data.dtype.kind not in "biuf":
                raise ValueError(
                    f"{name} must hold real numbers, of shape (n_vertices,) or "
                    f"(n_vertices, n_images); its {part} part has shape {data.shape} "
                    f"and dtype {data.dtype}."
                )
    check_several(sum(map(n_maps, images)), images[0].shape)
    return images


def n_maps(image):
    """Return the number of maps in a surface image."""
    return 1 if len(image.shape) == 1 else image.shape[1]


def check_mesh(image, other, name, others="the images"):
    """Refuse an image whose vertices are not those of another.

    Only their number and the triangles count: the same vertices have other places on
    an inflated surface than on the pial one.
    """
    meshes, known = image.mesh.parts, other.mesh.parts
    same = set(meshes) == set(known) and all(
        np.array_equal(mesh.faces, known[part].faces)
        and len(mesh.coordinates) == len(known[part].coordinates)
        for part, mesh in meshes.items()
    )
    if not same:
        found, wanted = (
            ", ".join(f"{len(mesh.coordinates)} {p}" for p, mesh in parts.items())
            for parts in (meshes, known)
        )
        raise ValueError(
            f"{name} is on another mesh than {others}: {found} vertices against "
            f"{wanted}, or other triangles. Use one mesh for all, e.g. "
            "nilearn.surface.SurfaceImage.from_volume with the same mesh."
        )


def load_surface_mask(mask_img, image, name="mask_img"):
    """Return a mask of booleans by part, for the mesh of an image."""
    if not isinstance(mask_img, SurfaceImage):
        raise TypeError(
            f"{name} must be a nilearn SurfaceImage, as imgs are surfaces; got "
            f"{type(mask_img).__name__}."
        )
    check_mesh(mask_img, image, name)
    return split_parts(as_mask(surface_map(mask_img, name), name), image)


def surface_map(image, name):
    """Return the one value of every vertex, part after part."""
    if n_maps(image) != 1:
        raise ValueError(
            f"{name} must hold one value for each vertex; its shape is {image.shape}."
        )
    return np.concatenate([data.ravel() for data in image.data.parts.values()])


def split_parts(values, image):
    """Return values of all vertices by part of a surface."""
    counts = [len(mesh.coordinates) for mesh in image.mesh.parts.values()]
    pieces = np.split(values, np.cumsum(counts)[:-1])
    return dict(zip(image.mesh.parts, pieces, strict=True))


def mask_surfaces(images, mask):
    """Return data (n_maps, n_vertices) of the True vertices of a mask."""
    # Every vertex contiguous, as neighbourhoods take them.
    n_vertices = sum(map(np.count_nonzero, mask.values()))
    X = np.empty((n_vertices, sum(map(n_maps, images)))).T
    start = 0
    for image in images:
        masker = SurfaceMasker(
            SurfaceImage(images[0].mesh, mask), standardize=None, reports=False
        ).fit()
        for block in _surface_blocks(image, images[0].mesh):
            rows = masker.transform(block)
            X[start : start + len(rows)] = rows
            start += len(rows)
    return X


def _surface_blocks(image, mesh):
    """Yield surface images of some maps each, on the given mesh."""
    parts = {p: x.reshape(len(x), -1) for p, x in image.data.parts.items()}
    step = max(1, BLOCK // image.shape[0])
    for start in range(0, n_maps(image), step):
        cut = {part: data[:, start : start + step] for part, data in parts.items()}
        yield SurfaceImage(mesh, cut)


def joined_surfaces(images):
    """Return one surface image of all maps, on the mesh of the first."""
    parts = {
        part: np.concatenate(
            [x.data.parts[part].reshape(len(x.data.parts[part]), -1) for x in images],
            axis=1,
        )
        for part in images[0].data.parts
    }
    return SurfaceImage(images[0].mesh, parts)
