"""What a result knows of single trials: their class scores, and what follows."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from ..metrics.auc import count_trained
from ..viz.confusion import plot_confusion
from .dissimilarity import DissimilarityMixin
from .fields import figure_method, record


@record
class EvidenceMixin(DissimilarityMixin):
    """A result that may hold class scores; comes before `SubjectResult` as a base.

    Parameters
    ----------
    class_scores : array, shape (positions..., n, c), or None
        Out-of-sample score of each class for each trial; the class with the highest
        score is predicted. Averaged over the folds that test a trial; NaN for untested
        trials, -inf for a class absent from training. Only their differences are
        meaningful. None without ``keep_class_scores=True``.
    """

    class_scores: NDArray | None = None

    def __post_init__(self):
        """Normalize the arrays and check that their shapes belong together."""
        super().__post_init__()
        if self.class_scores is None:
            return
        self._convert(np.asarray, "class_scores")
        expected = (*self._scored_shape, self.n_tested, len(self.classes))
        if self.class_scores.shape != expected:
            raise ValueError(
                f"class_scores must have shape (positions..., n_trials, n_classes) "
                f"{expected}; got {self.class_scores.shape}."
            )

    @property
    def _scored_shape(self):
        """The shape of the positions that have class scores."""
        return self.shape

    def decision_values(self) -> NDArray:
        """Return decision values of trials, positive for the second of two classes.

        The models that predict a trial were not trained on it, so these values may be
        correlated with behaviour, reaction times or other recordings. The models of
        different folds differ slightly in scale: where small differences matter,
        compare trials within folds.

        Returns
        -------
        values : array, shape (positions..., n_trials)
            The class score of the second class (``result.classes[1]``) minus that of
            the first: positive where the second is predicted, as in
            :meth:`KernelFDA.decision_function`. NaN for a trial that was in no test
            set.

        Raises
        ------
        ValueError
            If no class scores were kept, or there are more than two classes.

        Examples
        --------
        >>> from mvpa_kfda import decode_epochs, simulate_epochs
        >>> epochs = simulate_epochs(n_classes=2, random_state=0)
        >>> result = decode_epochs(epochs, keep_class_scores=True)
        >>> values = result.decision_values()
        >>> values.shape == (len(result.times), len(epochs))
        True
        """
        scores = self._kept_scores("decision_values()")
        if len(self.classes) != 2:
            raise ValueError(
                f"decision_values() is for two classes; this result has "
                f"{len(self.classes)}. Use result.probabilities(), or differences of "
                "result.class_scores[..., k]."
            )
        with np.errstate(invalid="ignore"):  # of classes that are both absent
            return scores[..., 1] - scores[..., 0]

    def probabilities(self) -> NDArray:
        """Return the posterior probability of each class for each trial.

        Assuming Gaussian classes of equal prior probability, as in
        :meth:`KernelFDA.predict_proba`. Probabilities express the models' confidence
        and are not calibrated.

        Returns
        -------
        p : array, shape (positions..., n_trials, n_classes)
            Sums to one over classes. NaN for a trial that was in no test set.

        Raises
        ------
        ValueError
            If no class scores were kept.
        """
        scores = self._kept_scores("probabilities()")
        return softmax(self._n_train()[:, np.newaxis] * scores, axis=-1)

    plot_confusion = figure_method(plot_confusion)

    def _kept_scores(self, what):
        """Return the class scores, or say how to have them."""
        if self.class_scores is None:
            raise ValueError(
                f"{what} needs the class scores of every trial, which were not kept. "
                "Run the analysis again with keep_class_scores=True."
            )
        return self.class_scores

    def _n_train(self):
        """Return how many samples the models of each trial were trained with, (n,)."""
        return count_trained(self, self.n_tested)
