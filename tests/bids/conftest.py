"""Small datasets for the tests of the BIDS app, which are done without pages."""

from hashlib import sha256

import nibabel
import numpy as np
import pytest

from mvpa_kfda.bids import app
from tests import bids_data
from tests.bids_data import FEW, STIMULI, Study


@pytest.fixture(scope="module", autouse=True)
def no_pages(request):
    """Write pages in which nothing is but what they are of, and mostly no overview."""

    def write(paths, page, title):
        of_content = (sha256(path.read_bytes()).hexdigest() for path in paths)
        page.write_text(f"{title}: {' '.join(of_content)}")
        return "done", str(page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "write_page", write)
        if not request.module.__name__.endswith(("test_app", "test_write")):
            patch.setattr(app, "write_overview", lambda *_: None)
        yield


@pytest.fixture(scope="session")
def raw_eeg(tmp_path_factory):
    """Return raw EEG of two subjects in two runs of 16 trials."""
    root = tmp_path_factory.mktemp("eeg")
    given = "--where", STIMULI, "--tmin", "-0.05", "--tmax", "0.2", *FEW
    return Study(bids_data.write_eeg(root / "data"), root / "out", given)


@pytest.fixture(scope="session")
def epochs_of_two(tmp_path_factory):
    """Return epochs of two subjects."""
    root = tmp_path_factory.mktemp("epochs")
    return Study(bids_data.write_epochs(root / "data"), root / "out")


@pytest.fixture(scope="session")
def fmri_of_two(tmp_path_factory):
    """Return three runs of 8 trials of two subjects, and what fMRIPrep makes."""
    root = tmp_path_factory.mktemp("fmri")
    bids_data.write_fmri(root / "data", root / "data" / "prep")
    bids_data.add_confounds(root / "data" / "prep")
    for path in root.rglob("*_mask.nii.gz"):  # small, for little to decode
        mask = nibabel.load(path).get_fdata().astype(np.uint8)
        mask[3:] = 0
        nibabel.Nifti1Image(mask, bids_data.AFFINE).to_filename(path)
    return Study(root / "data", root / "out", ("--where", STIMULI, *FEW))


@pytest.fixture
def eeg(raw_eeg, tmp_path):
    """Return a copy of raw EEG that a test may change."""
    return raw_eeg.copy(tmp_path)


@pytest.fixture
def epochs(epochs_of_two, tmp_path):
    """Return a copy of epochs that a test may change."""
    return epochs_of_two.copy(tmp_path)


@pytest.fixture
def fmri(fmri_of_two, tmp_path):
    """Return a copy of fMRI that a test may change."""
    return fmri_of_two.copy(tmp_path)
