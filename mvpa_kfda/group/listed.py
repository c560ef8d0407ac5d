"""Names of group methods, for type checkers, editors and the command line.

They are those of the entries in :mod:`mvpa_kfda.group.second_level`, in their order.
Nothing else is loaded here.
"""

from typing import Literal

MethodName = Literal["prevalence", "i-test", "bootstrap", "sign-flip", "t", "wilcoxon"]
