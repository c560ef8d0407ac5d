"""Calls that are wrong, each marked as such for type checkers; nobody runs them.

Both checkers complain where a marked line is right to them, so this file holds only if
each line is wrong to either.
"""

import numpy as np

import mvpa_kfda
from mvpa_kfda import (
    RBF,
    KernelFDA,
    Ridge,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    group_inference,
    load_result,
    regress,
    report,
    searchlight,
    simulate_epochs,
    single_trial_betas,
)

X = np.zeros((40, 5))
y = np.repeat(["cat", "dog"], 20)
epochs = simulate_epochs()
result = decode_arrays(X, y)
one = cross_validate(X, y)

mvpa_kfda.decode(epochs)  # type: ignore
simulate_epochs(n_trial=100)  # type: ignore
decode_epochs(epochs, n_permutation=1000)  # type: ignore
decode_epochs(epochs, permute="within")  # type: ignore
cross_validate(X)  # type: ignore
cross_validate(X, y, n_jobs=2)  # type: ignore
cross_validate(X, y, n_permutations="1000")  # type: ignore
decode_arrays(X, y, window_mode="median")  # type: ignore
decode_arrays(X, y, n_permutation=1000)  # type: ignore
decode_arrays(X, y, radius=8)  # type: ignore
cross_validate(X, y, keep_class_scores=True)  # type: ignore
regress(X, y, approx=50)  # type: ignore
searchlight("bold.nii.gz", y, null="all")  # type: ignore
searchlight("bold.nii.gz", y, classes=3)  # type: ignore
single_trial_betas("bold.nii.gz")  # type: ignore
single_trial_betas("bold.nii.gz", "events.tsv", method="lsu")  # type: ignore
result.plot(corrections="max")  # type: ignore
result.pvalues(alternative="larger")  # type: ignore
print(result.score)  # type: ignore
result.times = np.arange(3)  # type: ignore
print(one.times)  # type: ignore
print(one.scores.shape)  # type: ignore
one.plot(correction="max")  # type: ignore
KernelFDA(kernal="rbf")  # type: ignore
RBF(gama=0.1)  # type: ignore
Ridge()  # type: ignore
group_inference([result], tail="greater")  # type: ignore
compare(result, result, alternative="bigger")  # type: ignore
load_result()  # type: ignore
report(3)  # type: ignore
report(result, filename="page.html")  # type: ignore
