"""Names of kernels, penalties and steps, for editors and the command line.

They are those of the entries in :mod:`mvpa_kfda.kfda.kernels`,
:mod:`mvpa_kfda.kfda.penalties` and :mod:`mvpa_kfda.kfda.steps`. Nothing else is loaded
here.
"""

from typing import Literal

KernelName = Literal["linear", "rbf", "polynomial", "precomputed"]
PenaltyName = Literal["auto", "tuned", "ledoit_wolf", "oas"]
StepName = Literal["zscore", "pca", "whiten"]
