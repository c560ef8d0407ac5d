"""Values as results hold them: arrays, and floats where there is a single number."""

import numpy as np


def plain(value):
    """Return an array, or a Python float where there is a single number."""
    value = np.asarray(value)
    return float(value) if value.ndim == 0 else value


def plain_values(values):
    """Return a dict with arrays, or floats where there are single numbers."""
    return {name: plain(value) for name, value in values.items()}


def arrays(values):
    """Return a dict with arrays."""
    return {name: np.asarray(value) for name, value in values.items()}


def optional_array(value):
    """Return an array, or None."""
    return None if value is None else np.asarray(value)
