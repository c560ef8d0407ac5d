"""The command that verifies a result in the output, for the JSON files beside it."""

import os
import shlex
from pathlib import Path

#: The key of the command in JSON files.
KEY = "Verify"
#: Options of the command that are files, and what the analysis calls them.
_FILES = {"mask_img": "--mask", "labels_img": "--atlas", "lut": "--atlas-names"}


def verify_command(path, options, of_group=False):
    """Return the command that verifies a result, from the folder of the output."""
    folder = options["output_dir"]
    words = ["mvpa-kfda", "verify", Path(path).relative_to(folder).as_posix()]
    if of_group:
        return shlex.join(words)
    places = {
        "--bids-dir": options["bids_dir"],
        "--derivatives": options["derivatives"],
    }
    places |= {flag: options.get(name) for name, flag in _FILES.items()}
    for flag, place in places.items():
        if place is not None:
            words += [flag, _relative(place, folder)]
    return shlex.join(words)


def _relative(path, folder):
    """Return where something is, as seen from a folder."""
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return Path(os.path.relpath(path, folder)).as_posix()
