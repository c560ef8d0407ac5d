"""The volumes that the command line decodes, and the table of their labels.

The packages that read them are imported inside functions: ``--help`` needs none.
"""

import math

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20
_CONFOUNDS = "--confounds"


def check_volumes(paths):
    """Refuse files of values on surfaces without the surfaces."""
    if any(path.name.endswith((".gii", ".gii.gz")) for path in paths):
        raise ValueError(
            "GIFTI files hold values of vertices without a mesh. Commands decode "
            "volumes (.nii.gz) and CIFTI files; surface images are decoded in Python."
        )


def read_volumes(given, groups=None, confounds=None, train_on=None):
    """Images and the table of their volumes, and words for both."""
    import numpy as np

    from ..data.cifti import load_ciftis
    from ..data.trials import OF_IMAGES, read_train_on
    from ..data.volumes import is_cifti, load_volumes, n_volumes
    from ..utils.checks import counted, quoted

    paths, drop = given.images, given.drop
    check_volumes(paths)
    if is_cifti(paths):
        images = load_ciftis(paths)
        counts = [len(file.rows) for file in images]
    else:
        images = load_volumes(paths)
        counts = [n_volumes(image) for image in images]
    table = _read_tables(given.labels, paths, counts)
    confounds = confounds if isinstance(confounds, list) else [confounds]
    flags = [("--label-column", given.label_column), ("--groups", groups)]
    flags += [(_CONFOUNDS, name) for name in confounds]
    named = [(flag, name) for flag, name in flags if name is not None]
    for flag, name in named:
        if name not in table.columns.tolist():
            raise ValueError(
                f"{flag}: {name!r} is not a column of --labels. The columns are: "
                f"{quoted(table.columns.tolist())}."
            )
    keep = _mark_kept(table[given.label_column], drop)
    table = table[keep]
    for flag, name in named:
        missing = table.index[table[name].isna()]
        if len(missing):
            how = " (--drop n/a)" if flag == "--label-column" else ""
            raise ValueError(
                f"The column {name!r} of --labels is empty for {len(missing)} volumes "
                f"(first: volume {missing[0] + 1}). Fill in the values, or leave out "
                f"these volumes{how}."
            )
    words = paths[0].name
    if len(paths) > 1:
        words += f" and {len(paths) - 1} more"
    words += f": {len(table)} of {counted(len(keep), 'volume')}" if drop else ""
    # Volumes that are left out belong to no block.
    of_volume = np.where(keep, 0, -1)
    if given.average_blocks:
        chosen = read_train_on(train_on, len(table), table, OF_IMAGES)
        values = [table[name].to_numpy() for flag, name in named if flag != _CONFOUNDS]
        if chosen is not None:
            values.append(chosen.mask)  # no block is both trained with and tested
        blocks = _number_blocks(table.index.to_numpy(), values, counts)
        words += f"{';' if drop else ':'} {counted(len(table), 'volume')}"
        words += f" averaged to {counted(blocks.max() + 1, 'block')}"
        of_volume[keep] = blocks
        averaged = [name for flag, name in named if flag == _CONFOUNDS]
        table = _average_rows(table, blocks, averaged)
    parts = np.split(of_volume, np.cumsum(counts)[:-1])
    of_images = zip(images, paths, parts, strict=True)
    chosen = [_choose(*each, given.average_blocks) for each in of_images]
    return [image for image in chosen if image is not None], table, words


def _read_tables(paths, files, counts):
    """The table with one row per volume, and the column file if it has none."""
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
            f"--labels got {len(tables)} tables for {len(files)} images. Use one table "
            "for all volumes, or one for each image in the same order."
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


def _mark_kept(labels, drop):
    """Which volumes (n_volumes,) are not left out."""
    import numpy as np

    from ..utils.checks import quoted

    words = np.array([_as_word(label) for label in labels])
    unknown = [name for name in drop if name not in words]
    if unknown:
        raise ValueError(
            f"--drop: no volume has the label {unknown[0]!r}. The labels are: "
            f"{quoted(np.unique(words).tolist(), MOST_LISTED)}."
        )
    keep = ~np.isin(words, drop)
    if not keep.any():
        raise ValueError("--drop leaves no volume. Name fewer labels.")
    return keep


def _as_word(label):
    """A label as it stands in a table; whole numbers may have become floats."""
    if isinstance(label, float):
        return "n/a" if math.isnan(label) else f"{label:g}"
    return str(label)


def _number_blocks(volume, columns, counts):
    """The block of every volume, (n_rows,), numbered from 0, by columns."""
    import numpy as np

    # A block ends with an equal label and group, before volumes that are left out, and
    # with its image.
    image = np.repeat(np.arange(len(counts)), counts)[volume]
    starts = (np.diff(volume) > 1) | (np.diff(image) > 0)
    for values in columns:
        starts |= values[1:] != values[:-1]
    return np.concatenate([[0], np.cumsum(starts)])


def _average_rows(table, blocks, confounds):
    """A row for every block of a table: its first, with the mean confounds."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    rows = table.iloc[np.searchsorted(blocks, np.arange(blocks.max() + 1))].copy()
    for name in confounds:
        by_block = table[name].groupby(blocks)
        if is_numeric_dtype(table[name]) and not is_bool_dtype(table[name]):
            rows[name] = by_block.mean().to_numpy()
        elif (by_block.nunique() > 1).any():
            raise ValueError(
                f"The column {name!r} of --confounds has several values within a "
                "block that are not numbers and cannot be averaged. Use a numeric "
                "column, or leave out --average-blocks."
            )
    return rows


def _choose(image, path, of_volume, average):
    """The image of the volumes that are kept, or of the mean of every block, if any.

    `of_volume` (n_volumes,) is -1 for volumes that are not kept.
    """
    import numpy as np

    from ..data.cifti import Cifti
    from ..data.space import cifti_image
    from ..data.volumes import on_grid, read

    keep, is_cifti = of_volume >= 0, isinstance(image, Cifti)
    if not keep.any():
        return None
    if keep.all() and not average:
        return image.image if is_cifti else image
    if is_cifti:
        rows = read(image.image, path.name)
    else:
        data = read(image, path.name).reshape(*image.shape[:3], -1)
        rows = np.moveaxis(data, -1, 0)
    if average:
        numbers = np.unique(of_volume[keep])
        mean = np.empty((*rows.shape[1:], len(numbers)))
        for i, number in enumerate(numbers):
            (volumes,) = np.nonzero(of_volume == number)
            block = rows[volumes[0] : volumes[-1] + 1]  # a view: they are adjacent
            # Sums of whole numbers in the type of the file would overflow.
            mean[..., i] = block.mean(axis=0, dtype=np.float64)
        rows = np.moveaxis(mean, -1, 0)
    else:
        rows = rows[keep]
    if is_cifti:
        return cifti_image(rows, image.columns)
    return on_grid(np.moveaxis(rows, 0, -1), image)
