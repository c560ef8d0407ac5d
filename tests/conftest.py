"""What holds for all tests."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close the figures of every test: matplotlib warns of many that are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
