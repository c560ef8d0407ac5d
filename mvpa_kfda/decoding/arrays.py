"""Decoding and regression of plain features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from ..data.trials import Confounds, make_trials
from ..kfda.kernels import kernels_of, needs_gram
from ..metrics.scores import RegressionScoring
from ..results.epochs import DecodingResult, RegressionResult
from ..utils.checks import check_array, check_gram, warn, warn_of_angles, word_bytes
from ..utils.fingerprints import note_input
from .analysis import decode, make_analysis
from .positions import FeaturePositions
from .problems import TEXTS
from .procedure import ClassOptions, CommonOptions, Procedure, decodes

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Trials above which an exact kernel matrix is worth a word.
_MANY = 10_000


def read_features(X, procedure):
    """Checked features (n, p), or a kernel matrix."""
    kernel = procedure.method.kernel
    X = check_gram(X) if needs_gram(kernel) else check_array(X)
    if not needs_gram(kernel):
        warn_of_angles(X, "X", "np.concatenate([np.sin(X), np.cos(X)], axis=1)")
    exact = [not each.is_linear and not each.low_rank for each in kernels_of(kernel)]
    if len(X) > _MANY and any(exact) and not needs_gram(kernel):
        size = word_bytes(8 * len(X) ** 2)
        warn(TEXTS["many trials"].format(n=len(X), size=size), UserWarning)
    note_input("data", X)
    return X


@decodes(ClassOptions)
def cross_validate(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    train_on: ArrayLike | None = None,
    **options: Unpack[ClassOptions],
) -> DecodingResult:
    r"""Cross-validate a kernel Fisher discriminant analysis without retraining.

    One matrix inverse gives the exact out-of-sample predictions of all folds, for the
    observed labels and for any number of permuted ones.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except for kernels whose gamma is a number or None.
    kernel
        ... ``"precomputed"``: `X` is the kernel matrix. ``gamma="median"`` is computed
        from all rows, without labels.
    scoring
        ... With more than two classes, the ROC AUC is also averaged over classes (one
        versus rest). Test sets with a single class are left out of the mean; if all
        are, the ROC AUC is computed from all test trials together. The same applies to
        permuted labels.
    dtype
        ... Class scores deviate by up to 1e-3 of the largest. A tuned penalty may
        differ if two are about equally good.
    average
        ... For linear kernels, features are averaged; other kernels are averaged in
        feature space.

    Returns
    -------
    result : DecodingResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,),
        ``.class_scores`` (n_trials, n_classes), ``.classes``, ``.null`` (P,),
        ``.pvalues()``, ``.plot()``, ``.to_dataframe()``, ``.save()``. Class scores of a
        trial in several test sets are averaged, and the prediction is their argmax;
        metrics count the prediction in each test set.

    Raises
    ------
    ValueError, TypeError
        On non-finite data, labels or groups of the wrong length, a single class, more
        folds than trials, unknown names, splits that train on some of their test
        trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials lets noise pass for an effect, by simulation (see
        :func:`check_design`); if trials of one class are more variable, and scores of
        predicted labels are tested; or if one trial is 100 or more times as far from
        the mean of the others as they are. See the guide.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` and
    contrast-coded labels T, the out-of-sample residuals of a test set are
    :math:`(I - G_{te,te})^{-1} (T - GT)_{te}`; optimal scoring turns them into
    discriminant scores [1]_ [2]_. See :mod:`mvpa_kfda.kfda.direct` for all steps.

    References
    ----------
    .. [1] Treder (2018). Direct calculation of out-of-sample predictions in multi-class
       kernel FDA. ESANN.
    .. [2] Hastie, Buja & Tibshirani (1995). Penalized discriminant analysis. Annals of
       Statistics 23(1), 73-102.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mvpa_kfda import cross_validate
    >>> X, y = load_iris(return_X_y=True)
    >>> result = cross_validate(X, y, n_permutations=999, random_state=0)
    >>> result.scores > 0.9
    True
    >>> result.pvalues()
    0.001

    Unequal classes: trials of the larger ones are left out at random, ten times.

    >>> X, y = X[:120], y[:120]  # 50, 50 and 20 of the classes
    >>> options = {"average": 1, "equalize": True, "n_repeats": 10, "random_state": 0}
    >>> from sklearn.model_selection import KFold
    >>> result = cross_validate(
    ...     X, y, cv=KFold(5, shuffle=True, random_state=0), **options
    ... )
    >>> result.repeats["accuracy"].shape
    (10,)
    """
    settled = {"precomputed": True, "keep_all": True, "keep_class_scores": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    trials = make_trials(y, len(X), groups, confounds, train_on)
    analysis = make_analysis(trials, procedure)
    data, kernel = analysis.averages.both(X, procedure.method.kernel)
    return decode(
        FeaturePositions(data, kernel, procedure.method.reg),
        analysis,
        DecodingResult,
        parameters={"n_features": X.shape[1]},
    )


@decodes(CommonOptions)
def regress(
    X: ArrayLike,
    y: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    confounds: Confounds = None,
    scoring: RegressionScoring = "r2",
    **options: Unpack[CommonOptions],
) -> RegressionResult:
    r"""Cross-validate a kernel ridge regression without retraining.

    One matrix inverse gives the exact out-of-sample predictions of all folds, for the
    observed values and for any number of permuted ones. The intercept is not penalised.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except for kernels whose gamma is a number or None.
    y : array_like, shape (n_trials,)
        The value to predict for each trial, in any unit: a reaction time, a rating.
    kernel
        ... ``"precomputed"``: `X` is the kernel matrix. ``gamma="median"`` is computed
        from all rows, without labels.
    reg
        ... It is selected by the squared error.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when `groups` are given, else 10 folds. An int: the
        number of folds of neighbouring trials, like scikit-learn's KFold; of rows
        sorted by target, the i-th fold tests the i-th of every k. Training sets
        may contain any trials outside their test set; if some do not contain all of
        these, a relative `reg` and the bandwidth of a kernel refer to each training
        set. Test sets may overlap or miss trials. Values are not passed to splitters;
        stratified ones are rejected.
    scoring : str | callable | list of these
        ``"r2"``, ``"pearsonr"``, ``"neg_mean_squared_error"`` (in the squared unit of
        y), or several; the first is the one in ``result.scores``. All are computed on
        the predictions pooled over test sets. A function ``f(y_true, y_pred, None) ->
        float`` is a custom metric: its value is averaged over test sets. With
        permutations it is slow.
    n_permutations : int
        Number of permutations P of the values for the null distribution; 0 for none. If
        fewer distinct ones exist, all of them are used.
    dtype : "float64" | "float32"
        Precision used for observed and permuted values.

    Returns
    -------
    result : RegressionResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,), ``.null``
        (P,), ``.pvalues()``, ``.plot()``, ``.plot_predictions()``,
        ``.to_dataframe()``, ``.save()``. Predictions for a trial in several test sets
        are averaged; metrics count the prediction in each test set.

    Raises
    ------
    ValueError, TypeError
        On non-finite data or values, values that are not numeric or all equal, the
        wrong number of values or groups, unknown names, splits that leave out training
        trials, or a lambda that is too small.

    Warns
    -----
    UserWarning
        If the order of trials lets noise pass for an effect, by simulation.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` the
    out-of-sample predictions of a test set are [1]_ [2]_

    .. math:: \hat y_{te} = y_{te} - (I - G_{te,te})^{-1} \left[(I - G) y\right]_{te}.

    If nothing can be predicted, R² and the correlation are below zero on average:
    leaving out a trial with a large value lowers the mean of the training set that
    predicts it. Compare them with the permutations, which have the same bias.

    References
    ----------
    .. [1] Allen (1974). The relationship between variable selection and data
       augmentation and a method for prediction. Technometrics 16(1), 125-127.
    .. [2] Pahikkala, Boberg & Salakoski (2006). Fast n-fold cross-validation for
       regularized least-squares. SCAI, 83-90.

    Examples
    --------
    Reaction times, in seconds, from 20 features of 80 trials:

    >>> import numpy as np
    >>> from mvpa_kfda import regress
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 20))
    >>> reaction_times = 0.6 + 0.1 * X[:, 0] + 0.1 * rng.normal(size=80)
    >>> result = regress(
    ...     X,
    ...     reaction_times,
    ...     scoring=["r2", "pearsonr"],
    ...     n_permutations=999,
    ...     random_state=0,
    ... )
    >>> result.scores > 0.1
    True
    >>> result.pvalues(metric="pearsonr")
    0.001
    """
    # As a list: a text may be the default for classes.
    several = list(scoring) if isinstance(scoring, list | tuple) else [scoring]
    settled = {"scoring": several, "precomputed": True, "keep_all": True}
    procedure = Procedure.of(options, **settled)
    X = read_features(X, procedure)
    trials = make_trials(y, len(X), groups, confounds)
    return decode(
        FeaturePositions(X, procedure.method.kernel, procedure.method.reg),
        make_analysis(trials, procedure, task="regression"),
        RegressionResult,
        parameters={"n_features": X.shape[1]},
    )
