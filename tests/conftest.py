"""What holds for all tests."""

import os
import sys

import pytest

#: Read by type checkers, never run.
collect_ignore = ["typing"]
#: No display is needed, here and in processes that tests start.
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of every test: matplotlib warns of many that are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
