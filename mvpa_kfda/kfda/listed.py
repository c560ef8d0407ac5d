"""Names of kernels, penalties and steps, for editors and the command line.

They are those of the entries in :mod:`mvpa_kfda.kfda.kernels`,
:mod:`mvpa_kfda.kfda.penalties` and :mod:`mvpa_kfda.kfda.preprocess`. Nothing else is
loaded here, so that the command line answers at once.
"""

from typing import Literal

KernelName = Literal["linear", "rbf", "polynomial", "precomputed"]
PenaltyName = Literal["auto", "tuned", "ledoit_wolf", "oas"]
StepName = Literal["zscore", "pca", "whiten"]
