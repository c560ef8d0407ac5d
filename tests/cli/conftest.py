"""Fixtures for the tests of commands."""

import pytest

from mvpa_kfda.cli import output
from tests import commands


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Return a folder with files of epochs, images, and files that are neither."""
    folder = tmp_path_factory.mktemp("files")
    commands.write_images(folder)
    return folder


@pytest.fixture(scope="session")
def epochs(folder):
    """Return the epochs that are in a file of the folder."""
    return commands.write_epochs(folder)


@pytest.fixture
def inside(folder, epochs, monkeypatch):
    """Stay in that folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def no_figures(monkeypatch):
    """Draw nothing, which is most of the time that a short command takes."""
    monkeypatch.setattr(output, "_figures", lambda *_: ())
