"""From a position's features, or its kernel matrix, to what predicts label vectors.

Where the penalty is fixed that is a :class:`~mvpa_kfda.direct.Plan`, where it is tuned
a :class:`~mvpa_kfda.tuning.TunedPlan`; sources need not know the difference.
"""

from dataclasses import replace

import numpy as np

from .direct import prepare
from .hat import hat_from_gram, make_hat
from .kernels import Kernel, KernelChoice, check_feature_kernel, check_kernel
from .lowrank import Nystrom, approximated
from .penalties import Tuned, check_method, check_reg
from .spectrum import spectrum_of, spectrum_of_gram
from .tuning import tuned_plan


def resolve_method(kernel, reg, approx=None, precomputed=False):
    """Return kernel and penalty objects for the arguments of a decoding function.

    Parameters
    ----------
    kernel, reg, approx
        As the user gave them.
    precomputed : bool
        Whether the data may be a kernel matrix.

    Returns
    -------
    kernel : kernel object
        Of low rank, if it is to be approximated.
    reg : float | str | penalty object
        The penalty.

    Raises
    ------
    ValueError, TypeError
        If one of them is not valid, or if they do not go together.
    """
    kernel = check_kernel(kernel) if precomputed else check_feature_kernel(kernel)
    reg = check_reg(reg)
    check_method(kernel, reg)
    if isinstance(approx, Nystrom) and approx.random_state is None:
        # The same landmarks whenever they are drawn.
        seed = int(np.random.default_rng().integers(2**31))
        approx = replace(approx, random_state=seed)
    kernel = approximated(kernel, approx)
    check_method(kernel, reg)
    return kernel, reg


def for_channels(kernel, ch_names):
    """Return the kernel for some channels, where it knows channels by name."""
    if isinstance(kernel, KernelChoice):
        return kernel.map(lambda each: for_channels(each, ch_names))
    inner = getattr(kernel, "kernel", None)
    if isinstance(inner, Kernel):  # as an approximation has one, or an empirical map
        return replace(kernel, kernel=for_channels(inner, ch_names))
    named = getattr(kernel, "for_channels", None)
    return named(ch_names) if named and kernel.names is not None else kernel


def check_size(kernel, n_features):
    """Refuse a penalty on weights that is for another number of features.

    Parameters
    ----------
    kernel : kernel object
        Of which positions are given parts.
    n_features : int
        The number of features of all positions.
    """
    for each in kernels_of(kernel):
        while isinstance(getattr(each, "kernel", None), Kernel):
            each = each.kernel
        size = getattr(each, "n_features", n_features)
        if size != n_features:
            raise ValueError(
                f"{each!r} is for {size} features, and the data have {n_features} that "
                "are decoded: voxels in the mask and in regions, picked channels. Give "
                "it for these, in their order, as by its method take."
            )


def kernels_of(kernel):
    """Return the kernels to choose from, often a single one."""
    return kernel.kernels if isinstance(kernel, KernelChoice) else (kernel,)


def plan_of_features(X, kernel, reg, task):
    """Return the plan of features (n, p), or of a precomputed kernel matrix.

    Parameters
    ----------
    X : ndarray, shape (n, p) | (n, n)
        The features, or the kernel matrix.
    kernel, reg
        Resolved kernel and regularisation.
    task : Task
        Has the `folds`, the `inner` folds of a tuned penalty, the `dtype` and the
        `rank`.

    Returns
    -------
    plan : Plan | TunedPlan
        What predicts label vectors.
    """
    if isinstance(reg, Tuned):
        spectra = [spectrum_of(X, each) for each in kernels_of(kernel)]
        return tuned_plan(spectra, reg, task.inner, task.dtype, task.rank)
    return prepare(make_hat(X, kernel, reg), *task.settings)


def plan_of_inner(inner, n_features, kernel, reg, task):
    """Do as :func:`plan_of_features` with the inner products (n, n) of features."""
    kernels = kernels_of(kernel)
    grams = [(each.from_inner(inner, n_features), each.is_linear) for each in kernels]
    if isinstance(reg, Tuned):
        spectra = [spectrum_of_gram(K, n_features if p else None) for K, p in grams]
        return tuned_plan(spectra, reg, task.inner, task.dtype, task.rank)
    ((gram, is_linear),) = grams
    hat = hat_from_gram(gram, reg, n_features=n_features if is_linear else None)
    return prepare(hat, *task.settings)
