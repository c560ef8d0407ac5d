"""The volumes that the command line decodes, and the table of their labels.

The packages that read them are imported inside functions: ``--help`` needs none.
"""

import math

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20


def read_volumes(paths, tables, column, drop, groups):
    """Read images and the table of their volumes, and leave out some volumes.

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

    Returns
    -------
    images : list of image
        Without the volumes that are left out.
    table : DataFrame
        The rows of the other volumes. It has a column "file" with the number of the
        image, from 1, unless the tables have one themselves.
    name : str
        What is decoded, for the report.
    """
    from .._images.volumes import load_volumes, n_volumes

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
    said = paths[0].name
    if len(paths) > 1:
        said += f" and {len(paths) - 1} more"
    said += f": {len(table)} of {len(keep)} volumes" if drop else ""
    return _select(images, keep, paths), table, said


def _read_tables(paths, files, counts):
    """Return a table with one row per volume, and the column file if it has none."""
    import numpy as np
    import pandas as pd

    from .._images.tables import read_table

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
    from .._checks import quoted

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
    from .._images.volumes import n_volumes, on_grid, read

    selected, start = [], 0
    for image, path in zip(images, paths, strict=True):
        own = keep[start : start + n_volumes(image)]
        start += len(own)
        if own.all():
            selected.append(image)
        elif own.any():
            selected.append(on_grid(read(image, path.name)[..., own], image))
    return selected
