"""The volumes that the command line decodes, and the table of their labels.

The packages that read them are imported inside functions: ``--help`` needs none.
"""

import math

#: Labels that a message lists before it breaks off.
MOST_LISTED = 20


def read_volumes(paths, tables, column, drop, groups, confounds, train_on, average):
    """Return images and the table of their volumes, and words for both."""
    import numpy as np

    from ..data.cifti import is_cifti, load_ciftis
    from ..data.trials import OF_IMAGES, read_train_on
    from ..data.volumes import load_volumes, n_volumes
    from ..utils.checks import counted

    if is_cifti(paths):
        images = load_ciftis(paths)
        counts = [len(file.rows) for file in images]
    else:
        images = load_volumes(paths)
        counts = [n_volumes(image) for image in images]
    table = _read_tables(tables, paths, counts)
    own = [name for name in (column, groups) if name is not None]
    flags = {"--label-column": [column], "--groups": own[1:], "--confounds": confounds}
    for flag, names in flags.items():
        for name in names:
            _check_column(table, name, flag)
    keep = _mark_kept(table[column], drop)
    table = table[keep]
    for name in (*own, *confounds):
        _check_filled(table, name, "" if name != column else " (--drop n/a)")
    words = paths[0].name
    if len(paths) > 1:
        words += f" and {len(paths) - 1} more"
    words += f": {len(table)} of {counted(len(keep), 'volume')}" if drop else ""
    if not average:
        parts = _by_image(keep, counts, images, paths)
        return list(_select_volumes(parts)), table, words
    chosen = read_train_on(train_on, len(table), table, OF_IMAGES)
    values = [table[name].to_numpy() for name in own]
    if chosen is not None:
        values.append(chosen.mask)  # no block is both trained with and tested
    blocks = _number_blocks(table.index.to_numpy(), values, counts)
    n_blocks = blocks.max() + 1
    words += f"{';' if drop else ':'} {counted(len(table), 'volume')}"
    words += f" averaged to {counted(n_blocks, 'block')}"
    # Volumes that are left out belong to no block.
    of_volume = np.full(len(keep), -1)
    of_volume[keep] = blocks
    table = _average_rows(table, blocks, confounds)
    parts = _by_image(of_volume, counts, images, paths)
    return list(_average_blocks(parts)), table, words


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


def _check_column(table, column, flag):
    """Refuse a column that does not exist."""
    from ..utils.checks import quoted

    if column not in table.columns:
        raise ValueError(
            f"{flag}: {column!r} is not a column of --labels. The columns are: "
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


def _mark_kept(labels, drop):
    """Mark the volumes (n_volumes,) that are not left out."""
    import numpy as np

    from ..utils.checks import quoted

    words = np.array([as_word(label) for label in labels])
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


def as_word(label):
    """Return a label as it stands in a table; whole numbers may have become floats."""
    if isinstance(label, float):
        return "n/a" if math.isnan(label) else f"{label:g}"
    return str(label)


def _by_image(values, counts, images, paths):
    """Yield every image with its name and its part of the volumes' values."""
    start = 0
    for image, path, count in zip(images, paths, counts, strict=True):
        yield image, path.name, values[start : start + count]
        start += count


def _select_volumes(parts):
    """Yield the images without the volumes that are not kept."""
    for image, name, own in parts:
        if own.all():
            yield getattr(image, "image", image)
        elif own.any():
            yield _of_rows(_rows(image, name)[own], image)


def _rows(image, name):
    """Return the data of an image with one row per volume, perhaps a view."""
    import numpy as np

    from ..data.cifti import Cifti
    from ..data.volumes import read

    if isinstance(image, Cifti):
        return read(image.image, name)
    return np.moveaxis(read(image, name).reshape(*image.shape[:3], -1), -1, 0)


def _of_rows(rows, image):
    """Return an image of other volumes on the grid, or with the columns, of one."""
    import numpy as np

    from ..data.cifti import Cifti
    from ..data.space import cifti_image
    from ..data.volumes import on_grid

    if isinstance(image, Cifti):
        return cifti_image(rows, image.columns)
    return on_grid(np.moveaxis(rows, 0, -1), image)


def _number_blocks(volume, columns, counts):
    """Return the block of every volume, (n_rows,), numbered from 0, by columns."""
    import numpy as np

    # A block ends with an equal label and group, before volumes that are left out, and
    # with its image.
    image = np.repeat(np.arange(len(counts)), counts)[volume]
    starts = (np.diff(volume) > 1) | (np.diff(image) > 0)
    for values in columns:
        starts |= values[1:] != values[:-1]
    return np.concatenate([[0], np.cumsum(starts)])


def _average_rows(table, blocks, confounds):
    """Return a row for every block of a table: its first, with the mean confounds."""
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


def _average_blocks(parts):
    """Yield the mean volume of every block, image by image, in double precision."""
    import numpy as np

    for image, name, own in parts:
        numbers = np.unique(own[own >= 0])
        if len(numbers) == 0:
            continue
        data = _rows(image, name)
        mean = np.empty((*data.shape[1:], len(numbers)))
        for i, number in enumerate(numbers):
            (volumes,) = np.nonzero(own == number)
            block = data[volumes[0] : volumes[-1] + 1]  # a view: they are adjacent
            # Sums of whole numbers in the type of the file would overflow.
            mean[..., i] = block.mean(axis=0, dtype=np.float64)
        yield _of_rows(np.moveaxis(mean, -1, 0), image)
