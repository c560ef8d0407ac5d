"""What a report of a bug has to say about the machine and its packages."""

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import ThreadpoolController

from .checks import word_bytes
from .memory import usable_memory
from .text import tell

#: What has to be installed, and what may be, as setup.cfg lists them.
REQUIRED = (
    *("numpy", "scipy", "scikit-learn", "mne", "nibabel", "nilearn", "joblib", "h5py"),
    *("jinja2", "lazy_loader", "matplotlib", "pandas", "threadpoolctl", "tqdm"),
)
OPTIONAL = ("dask", "distributed", "mne-bids", "plotly", "rsatoolbox", "xarray")


def sys_info() -> None:
    """Print version and system information for bug reports.

    The output lists the versions of this package, of Python and of all required and
    optional packages, the operating system, the processors and memory available to this
    process, and the linear algebra libraries with their numbers of threads. It contains
    nothing about users, files or data. ``mvpa-kfda sys-info`` prints the same.

    Examples
    --------
    >>> import mvpa_kfda
    >>> mvpa_kfda.sys_info()
    mvpa_kfda      ...
    Python         ...
    """
    from .. import __version__

    processors = os.cpu_count()
    with suppress(AttributeError):  # Linux alone tells what a process may use
        processors = len(os.sched_getaffinity(0))
    memory = usable_memory()
    lines = {
        "mvpa_kfda": __version__,
        "Python": platform.python_version(),
        "System": platform.platform(),
        "Processors": f"{processors or 'unknown'} ({platform.machine()})",
        "Memory": "unknown" if memory is None else word_bytes(memory),
        **_blas(),
    }
    for name in (*REQUIRED, *OPTIONAL):
        lines[name] = "not installed"
        with suppress(PackageNotFoundError):
            lines[name] = version(name)
    width = max(map(len, lines)) + 2
    tell(*(f"{name:<{width}}{value}" for name, value in lines.items()))


def _blas():
    """The libraries of linear algebra that NumPy and SciPy load, numbered."""
    import numpy  # noqa: F401  loads the library that is asked about
    import scipy.linalg  # noqa: F401

    pools = ThreadpoolController().select(user_api="blas").info()
    lines = [
        f"{pool['internal_api']} {pool['version'] or 'of unknown version'}, "
        f"{pool.get('architecture') or 'unknown'} kernels, "
        f"{pool['num_threads']} thread{'s'[: pool['num_threads'] > 1]}"
        for pool in pools
    ]
    lines = sorted(set(lines)) or ["unknown"]
    return {f"BLAS {i}" if i > 1 else "BLAS": line for i, line in enumerate(lines, 1)}
