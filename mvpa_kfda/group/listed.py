"""Names of methods and criteria, for type checkers, editors and the command line.

They are those of the entries in :mod:`mvpa_kfda.group.second_level`,
:mod:`mvpa_kfda.results.comparison` and :mod:`mvpa_kfda.group.latency`, in their order.
Nothing else is loaded here.
"""

from typing import Literal

MethodName = Literal["prevalence", "i-test", "bootstrap", "sign-flip", "t", "wilcoxon"]
ComparisonName = Literal["permutation"]
OnsetName = Literal["peak-fraction", "t"]
