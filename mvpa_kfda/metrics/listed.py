"""Names of the metrics, for type checkers, editors and the command line.

They are those of the entries in :mod:`mvpa_kfda.metrics.classes` and
:mod:`mvpa_kfda.metrics.regression`, in their order. Nothing else is loaded here.
"""

from typing import Literal

ClassMetric = Literal[
    "accuracy",
    "balanced_accuracy",
    "roc_auc",
    "recall",
    "precision",
    "f1",
    "recall_macro",
    "precision_macro",
    "f1_macro",
    "kappa",
    "confusion_matrix",
    "pairwise_accuracy",
    "pairwise_accuracies",
    "crossnobis",
    "crossnobis_distances",
]
NumberMetric = Literal["r2", "pearsonr", "neg_mean_squared_error"]
