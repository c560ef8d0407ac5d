"""Names of options, for type checkers, editors and the command line.

Corrections and schemes are the entries in :mod:`mvpa_kfda.inference.corrections` and
:mod:`mvpa_kfda.inference.permutation`, methods and criteria those in
:mod:`mvpa_kfda.group.second_level`, :mod:`mvpa_kfda.group.comparison` and
:mod:`mvpa_kfda.group.latency`, in their order. Nothing else is loaded here.
"""

from typing import Literal

CorrectionName = Literal[
    "none",
    "max",
    "max-step-down",
    "bonferroni",
    "holm",
    "fdr",
    "fdr-by",
    "cluster",
    "cluster-size",
    "cluster-depth",
    "tfce",
]
#: Those for time courses only.
OF_COURSES = ("cluster-depth",)
#: The false discovery rate of clusters, which only a method of groups has.
CLUSTER_FDR = "cluster-fdr"
#: Which scores are tested for.
Alternative = Literal["greater", "less", "two-sided"]
#: The scheme of permutations, or that it is to be chosen.
Permute = Literal[
    "auto", "within_folds", "within_groups", "groups", "free", "transitions", "trend"
]
#: The methods of groups and of comparisons, and the criteria of onsets.
MethodName = Literal["prevalence", "i-test", "bootstrap", "sign-flip", "t", "wilcoxon"]
ComparisonName = Literal["permutation"]
OnsetName = Literal["peak-fraction", "t"]
