"""A real recording: one slice of the visual cortex of a person who looks at pictures.

It is an example of PyMVPA (MIT licence), from the experiment of Haxby et al. (2001,
Science 293): 8 kinds of pictures in 12 runs. The files are not part of this package.
They are fetched once from PyMVPA's repository, 1.3 MB, and checked; without a network
the tests are skipped.
"""

import nibabel
import numpy as np
import pooch
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mvpa_kfda import cross_validate, decode_regions, searchlight

pytestmark = pytest.mark.slow

SOURCE = "https://github.com/PyMVPA/PyMVPA/raw/master/mvpa2/data/"
FILES = {
    "bold.nii.gz": "cbbd4d07803caaa9f77381af24e790cf77058664a128bd514a4c1668eefb92d7",
    "mask.nii.gz": "8d879d35aaeee3afddfb69a7e1b8dd2b3be446671452d7e841dc6588845f2877",
    "attributes_literal.txt": (
        "7769f235e93d3157ef7bd1102abfaf3bc058ad9ca28e89dc60b8e47f473207c3"
    ),
}


@pytest.fixture(scope="module")
def recording():
    """Return the volumes with a picture, what it was, the run, and the brain."""
    folder = pooch.os_cache("mvpa_kfda") / "pymvpa"
    try:
        bold, brain, table = (
            pooch.retrieve(SOURCE + name, f"sha256:{digest}", name, folder)
            for name, digest in FILES.items()
        )
    except OSError as error:  # what is not the right file is a ValueError
        pytest.skip(f"the recording could not be fetched: {type(error).__name__}")
    bold, brain = nibabel.load(bold), nibabel.load(brain)
    label, run = np.loadtxt(table, dtype=str).T
    seen = label != "rest"
    volumes = nibabel.Nifti1Image(bold.get_fdata()[..., seen], bold.affine)
    in_brain = (brain.get_fdata() > 0).astype(np.uint8)
    return volumes, label[seen], run[seen].astype(int), in_brain


def features(volumes, run, in_brain):
    """Return the voxels of the brain as z-scores within runs, by NumPy alone."""
    X = volumes.get_fdata()[in_brain > 0].T
    for number in np.unique(run):
        rows = X[run == number]
        X[run == number] = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    return X


class Ridged:
    """The covariance of one class with a number added to its diagonal."""

    def __init__(self, added):
        self.added = added

    def fit(self, X):
        """Estimate it."""
        self.covariance_ = np.cov(X.T, bias=True) + self.added * np.eye(X.shape[1])
        return self


def refitted(X, y, run, reg):
    """Return what scikit-learn predicts of each run, trained with the other runs."""
    predicted = np.empty_like(y)
    lam = reg * np.square(X - X.mean(axis=0)).sum() / len(X)
    for number in np.unique(run):
        train, test = run != number, run == number
        model = LinearDiscriminantAnalysis(
            solver="lsqr", covariance_estimator=Ridged(lam / train.sum())
        )
        predicted[test] = model.fit(X[train], y[train]).predict(X[test])
    return predicted


@pytest.mark.filterwarnings("ignore:(Successive|The class):UserWarning")
def test_pictures_are_told_apart(recording):
    volumes, y, run, in_brain = recording
    assert (volumes.shape, in_brain.sum()) == ((40, 20, 1, 864), 530)
    region = nibabel.Nifti1Image(in_brain, volumes.affine)
    result = decode_regions(volumes, y, labels_img=region, groups=run)
    # 612 of 864 volumes; chance is 1 in 8. The next computer may round one otherwise.
    assert abs(result.scores[0] * 864 - 612) <= 2
    theirs = refitted(features(volumes, run, in_brain), y, run, reg=0.3)
    assert_array_equal(result.classes[result.predicted[0]], theirs)


@pytest.mark.filterwarnings("ignore:The order of the classes:UserWarning")
def test_means_of_blocks_are_told_apart(recording):
    # One mean of each kind of picture in each run, sorted by kind.
    volumes, y, run, in_brain = recording
    X = features(volumes, run, in_brain)
    groups, labels = np.repeat(np.unique(run), 8), np.tile(np.unique(y), 12)
    pairs = zip(groups, labels, strict=True)
    means = np.array([X[(run == r) & (y == kind)].mean(axis=0) for r, kind in pairs])
    result = cross_validate(
        means, labels, groups=groups, n_permutations=999, random_state=0
    )
    assert_array_equal(result.predictions, refitted(means, labels, groups, reg=0.3))
    assert abs(result.metrics["accuracy"] * 96 - 87) <= 1
    assert result.pvalues() == 1 / 1000


@pytest.mark.filterwarnings("ignore:(Successive|The class):UserWarning")
def test_searchlight_finds_faces_and_houses(recording):
    volumes, y, run, in_brain = recording
    two = np.isin(y, ["face", "house"])
    pair = nibabel.Nifti1Image(volumes.get_fdata()[..., two], volumes.affine)
    mask = nibabel.Nifti1Image(in_brain, volumes.affine)
    result = searchlight(
        pair, y[two], groups=run[two], mask_img=mask, radius=8.0, verbose=False
    )
    assert abs(result.scores.max() * 216 - 215) <= 1
    # The best sphere, refitted by hand.
    grid = np.argwhere(in_brain) * np.abs(np.diag(volumes.affine)[:3])
    best = np.square(grid - grid[result.scores.argmax()]).sum(axis=1) <= 8.0**2
    X = features(pair, run[two], in_brain)[:, best]
    theirs = refitted(X, y[two], run[two], reg=0.3)
    assert_allclose(result.scores.max(), np.mean(theirs == y[two]), rtol=0, atol=1e-12)
