"""Decoding of plain arrays."""

from ._analysis import make_analysis
from ._checks import check_array, check_gram
from .hat import check_reg
from .kernels import Precomputed, check_kernel
from .results import DecodingResult
from .search import FeatureSource, run


def cross_validate(
    X,
    y,
    *,
    groups=None,
    kernel="linear",
    reg=0.3,
    cv=None,
    scoring="accuracy",
    n_permutations=0,
    permute="auto",
    random_state=None,
    batch_size=None,
    dtype="float64",
):
    r"""Cross-validate a kernel Fisher discriminant analysis without retraining.

    One matrix inverse gives the exact out-of-sample prediction of every fold, for the
    observed labels and for any number of permuted ones.

    Parameters
    ----------
    X : array_like, shape (n_trials, n_features) | (n_trials, n_trials)
        Features, or the kernel matrix with ``kernel="precomputed"``. Their unit does
        not matter, except to kernels whose gamma is a number or None.
    y : array_like, shape (n_trials,)
        Class labels: strings, whole numbers or booleans; two or more classes.
    groups : array_like, shape (n_trials,) | None
        Runs, sessions or subjects: for the splitters that use groups, and the blocks
        within which labels are permuted.
    kernel : str | kernel object | callable
        ``"linear"``, ``"rbf"``, ``"polynomial"``, ``"precomputed"``, an object such as
        ``RBF(gamma=0.1)``, or a function ``f(X, Y) -> (n_x, n_y)``. The width
        ``gamma="median"`` is computed on all rows, without labels.
    reg : float | Ridge
        The penalty. A float is relative, lambda = reg * trace(K_c) / n with the
        centred kernel K_c of all rows (no labels are used), so that the unit of the
        features does not matter. ``Ridge(lam)`` is absolute.
    cv : None | int | splitter | iterable of (train, test)
        None: leave one group out when groups are given, else 10-fold stratified. An
        int: that many stratified folds, as in scikit-learn. Test sets may overlap or
        miss trials, but training must be on all trials outside the test set. The folds
        are drawn once, from the observed labels, and kept for all permutations.
    scoring : str | list of str
        ``"accuracy"``, ``"balanced_accuracy"``, ``"roc_auc"``, ``"recall"``,
        ``"precision"``, ``"f1"``, ``"recall_macro"``, ``"precision_macro"``,
        ``"f1_macro"``, ``"kappa"``, ``"confusion_matrix"``, or several; the first is
        the one in ``result.scores``. With two classes, recall, precision and F1 are
        those of the second class in sorted order, otherwise macro averages. All are
        computed on the predictions pooled over test sets, except the ROC AUC, which is
        the mean over test sets (over classes too, one against the rest, when there are
        more than two), pooled only where no test set holds two classes.
    n_permutations : int
        Label permutations P for the null distribution. When fewer distinct ones
        exist, all of them are used.
    permute : "auto" | "within_folds" | "within_groups" | "groups" | "free"
        What may be exchanged, see :func:`mvpa_kfda.permutation.permute_labels`.
    random_state : int | Generator | RandomState | None
        Seed of the permutations.
    batch_size : int | None
        Permutations processed at a time; memory grows with it. None chooses by cache
        size. The result does not depend on it (with float32, but for near ties).
    dtype : "float64" | "float32"
        Precision in which labels, observed and permuted, are processed. float32 is
        faster by up to a half;
        class scores then deviate by less than 1e-4 of the largest, and predictions
        only where two classes are as close as that.

    Returns
    -------
    result : DecodingResult
        ``.scores`` (a float), ``.metrics``, ``.predictions`` (n_trials,),
        ``.class_scores`` (n_trials, n_classes), ``.classes``, ``.null`` (P,),
        ``.pvalues()``, ``.plot()``, ``.to_dataframe()``, ``.save()``. Class scores of
        a trial that several test sets hold are averaged, and the prediction is their
        argmax; metrics count each test set's prediction.

    Raises
    ------
    ValueError, TypeError
        On data that is not finite, labels or groups of the wrong length, one class
        only, a class with fewer trials than stratified folds, unknown names, splits
        that leave out training trials, or a lambda that is too small.

    Notes
    -----
    With the hat matrix :math:`G = 11^\top/n + K_c (K_c + \lambda I)^{-1}` and
    contrast-coded labels T, the out-of-sample residuals of a test set are
    :math:`(I - G_{te,te})^{-1} (T - GT)_{te}`; optimal scoring turns them into
    discriminant scores [1]_ [2]_. See :mod:`mvpa_kfda.direct` for all steps.

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
    """
    kernel, reg = check_kernel(kernel), check_reg(reg)
    X = check_gram(X) if isinstance(kernel, Precomputed) else check_array(X)
    analysis = make_analysis(
        y,
        len(X),
        groups=groups,
        kernel=kernel,
        reg=reg,
        cv=cv,
        scoring=scoring,
        n_permutations=n_permutations,
        permute=permute,
        random_state=random_state,
        dtype=dtype,
        batch_size=batch_size,
        keep_class_scores=True,
    )
    outcome = run(FeatureSource(X, kernel, reg), analysis.task, n_jobs=1, verbose=False)
    return analysis.result(
        DecodingResult,
        outcome,
        class_scores=outcome.class_scores,
        parameters={**analysis.parameters, "n_features": X.shape[1]},
    )
