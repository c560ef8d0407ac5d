"""The volumes that the command line decodes, and the table of their labels.

The packages that read them are imported inside functions: ``--help`` needs none.
"""

import math

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20


def read_volumes(paths, tables, column, drop, groups, average=False):
    """Read images and the table of their volumes; leave out or average some of them.

    Parameters
    ----------
    paths : list of Path
        3D and 4D images on one grid.
    tables : list of Path
        One table with a row for every volume of all images, or one for each image.
    column : str
        Column of the labels.
    drop : sequence of str
        Labels whose volumes are left out; "n/a" stands for no label.
    groups : str or None
        Column of the groups.
    average : bool
        Take the mean of consecutive volumes with the same label, group and image.

    Returns
    -------
    images : list of image
        Without the volumes that are left out, or the means of the others.
    table : DataFrame
        Their rows; a mean has that of its first volume. It has a column "file" with
        the number of the image, from 1, unless the tables have one themselves.
    name : str
        What is decoded, for the report.
    """
    import numpy as np

    from ..data.volumes import load_volumes, n_volumes

    images = load_volumes(paths)
    counts = [n_volumes(image) for image in images]
    table = _read_tables(tables, paths, counts)
    flags = {"--label-column": column, "--groups": groups}
    flags = {flag: name for flag, name in flags.items() if name is not None}
    for flag, name in flags.items():
        _check_column(table, name, flag)
    keep = _kept(table[column], drop)
    table = table[keep]
    for name in flags.values():
        _check_filled(table, name, "" if name != column else " (--drop n/a)")
    blocks = _blocks(table, list(flags.values()), counts) if average else None
    said = paths[0].name
    if len(paths) > 1:
        said += f" and {len(paths) - 1} more"
    said += f": {len(table)} of {len(keep)} volumes" if drop else ""
    if blocks is None:
        return _select(images, keep, paths), table, said
    n_blocks = blocks.max() + 1
    said += f"; {len(table)} volumes" if drop else f": {len(table)} volumes"
    said += f" averaged to {n_blocks} blocks"
    # Volumes that are left out belong to no block.
    of_volume = np.full(len(keep), -1)
    of_volume[keep] = blocks
    first = np.searchsorted(blocks, np.arange(n_blocks))
    return _average(images, of_volume, paths), table.iloc[first], said


def _read_tables(paths, files, counts):
    """Return a table with one row per volume, and the column file if it has none."""
    import numpy as np
    import pandas as pd

    from ..data.images import read_table

    tables = [read_table(path, "--labels") for path in paths]
    if len(tables) == 1:
        expected = [(files[0].name if len(files) == 1 else "all images", sum(counts))]
    elif len(tables) == len(files):
        expected = list(zip([file.name for file in files], counts, strict=True))
    else:
        raise ValueError(
            f"--labels got {len(tables)} tables for {len(files)} images. Give one "
            "table for all volumes, or one for each image in the same order."
        )
    for path, table, (name, count) in zip(paths, tables, expected, strict=True):
        if len(table) != count:
            raise ValueError(
                f"{path.name} has {len(table)} rows for the {count} volumes of {name}. "
                "A table needs one row per volume, in the same order."
            )
    table = pd.concat(tables, ignore_index=True)
    if "file" not in table.columns:
        table["file"] = np.repeat(np.arange(1, len(files) + 1), counts)
    return table


def _check_column(table, column, flag):
    """Refuse a column that does not exist."""
    from ..utils.checks import quoted

    if column not in table.columns:
        raise ValueError(
            f"{flag}: {column!r} is no column of --labels. The columns are: "
            f"{quoted(table.columns.tolist())}."
        )


def _check_filled(table, column, how):
    """Refuse a column with empty rows."""
    missing = table.index[table[column].isna()]
    if len(missing):
        raise ValueError(
            f"The column {column!r} of --labels is empty for {len(missing)} volumes "
            f"(first: volume {missing[0] + 1}). Fill in the values, or leave out these "
            f"volumes{how}."
        )


def _kept(labels, drop):
    """Mark the volumes (n_volumes,) that are not left out."""
    import numpy as np

    words = np.array([_word(label) for label in labels])
    unknown = [name for name in drop if name not in words]
    if unknown:
        known = [repr(str(name)) for name in np.unique(words)]
        more = ", ..." if len(known) > MOST_LISTED else ""
        raise ValueError(
            f"--drop: no volume has the label {unknown[0]!r}. The labels are: "
            f"{', '.join(known[:MOST_LISTED])}{more}."
        )
    keep = ~np.isin(words, drop)
    if not keep.any():
        raise ValueError("--drop leaves no volume. Name fewer labels.")
    return keep


def _word(label):
    """Return a label as it stands in a table; whole numbers may have become floats."""
    if isinstance(label, float):
        return "n/a" if math.isnan(label) else f"{label:g}"
    return str(label)


def _select(images, keep, paths):
    """Return the images without the volumes that are not kept."""
    from ..data.volumes import n_volumes, on_grid, read

    selected, start = [], 0
    for image, path in zip(images, paths, strict=True):
        own = keep[start : start + n_volumes(image)]
        start += len(own)
        if own.all():
            selected.append(image)
        elif own.any():
            selected.append(on_grid(read(image, path.name)[..., own], image))
    return selected


def _blocks(table, columns, counts):
    """Return the number of the block of every kept volume, (n_kept,), from 0.

    A block ends where a label or group changes, where volumes were left out, and where
    an image ends. The index of the table is the number of the volume.
    """
    import numpy as np

    volume = table.index.to_numpy()
    image = np.repeat(np.arange(len(counts)), counts)[volume]
    starts = (np.diff(volume) > 1) | (np.diff(image) > 0)
    for column in columns:
        values = table[column].to_numpy()
        starts |= values[1:] != values[:-1]
    return np.concatenate([[0], np.cumsum(starts)])


def _average(images, blocks, paths):
    """Return the mean volume of every block, image by image, in double precision.

    Sums of whole numbers in the type of the file would overflow.
    """
    import numpy as np

    from ..data.volumes import n_volumes, on_grid, read

    means, start = [], 0
    for image, path in zip(images, paths, strict=True):
        own = blocks[start : start + n_volumes(image)]
        start += len(own)
        numbers = np.unique(own[own >= 0])
        if len(numbers) == 0:
            continue
        data = read(image, path.name).reshape(*image.shape[:3], -1)
        mean = np.empty((*image.shape[:3], len(numbers)))
        for i, number in enumerate(numbers):
            (volumes,) = np.nonzero(own == number)
            block = data[..., volumes[0] : volumes[-1] + 1]  # a view: they are adjacent
            mean[..., i] = block.mean(axis=3, dtype=np.float64)
        means.append(on_grid(mean, image))
    return means
