"""What every result can do: be saved, and be compared with another."""

import os
from dataclasses import dataclass, fields

from .hdf5 import same_content, write_result_file

#: Endings of files that hold brain images and never results.
_IMAGE_ENDINGS = (".nii", ".nii.gz", ".gii")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Saved:
    """A result whose fields are plain values, so that a file can hold them."""

    def save(self, path, overwrite=False):
        """Save the result to an HDF5 file that `load_result` reads.

        Parameters
        ----------
        path : str or path-like
            The file to write; ``.h5`` is the usual ending.
        overwrite : bool
            Replace an existing file.

        Raises
        ------
        FileExistsError
            If the file exists and `overwrite` is false.
        FileNotFoundError
            If the folder of the file does not exist.
        ValueError
            If the file has the ending of an image: .nii, .nii.gz or .gii.
        """
        self._refuse_image(path)
        write_result_file(
            path, type(self).__name__, self._content(), overwrite=overwrite
        )

    def _refuse_image(self, path):
        """Refuse endings of images, which other programs would fail to open."""
        if not os.fspath(path).lower().endswith(_IMAGE_ENDINGS):
            return
        advice = "give a path that ends in .h5"
        if hasattr(self, "to_img"):
            advice = "for an image use result.to_img(...).to_filename(path)"
        raise ValueError(
            f"{os.fspath(path)!r} has the ending of an image, but a result file is "
            f"HDF5 (.h5); {advice}."
        )

    def _content(self):
        """Map the names of the fields to their values."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __eq__(self, other):
        """Tell whether the other result has the same type and the same fields."""
        if type(self) is not type(other):
            return NotImplemented
        return same_content(self._content(), other._content())
