"""Calls as users write them. Type checkers read this file, nobody runs it.

Every line here must be right to mypy and to pyright, and every line of wrong_calls.py
wrong.
"""

from pathlib import Path

import mne
import numpy as np
import pandas as pd
from sklearn.model_selection import LeaveOneGroupOut, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mvpa_kfda
from mvpa_kfda import (
    RBF,
    DecodingResult,
    DegreesOfFreedom,
    EmpiricalMap,
    GraphSmooth,
    KernelFDA,
    Linear,
    Nystrom,
    Penalty,
    Polynomial,
    Ridge,
    Shrinkage,
    TimeResult,
    Tuned,
    bootstrap_latency,
    compare,
    cross_validate,
    decode_arrays,
    decode_epochs,
    decode_regions,
    generalize_arrays,
    generalize_epochs,
    group_inference,
    load_result,
    regress,
    report,
    searchlight,
    simulate_epochs,
    single_trial_betas,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 5))
y = np.repeat(["cat", "dog"], 20)


def decode_pairs() -> None:
    epochs = simulate_epochs(60, n_classes=3, random_state=0)
    pairs = {"near": [("a", "b")], "far": [("a", "c"), ("b", "c")]}
    result = decode_epochs(epochs, scoring=["crossnobis_distances", pairs], reg=0.1)
    chosen = result.select_pairs([("a", "b")], kind="crossnobis")
    group_inference([chosen, chosen], "t").plot_rdm(at=0.2)


def decode_over_time() -> None:
    epochs = mne.read_epochs("words-epo.fif")
    result = decode_epochs(
        epochs,
        "condition",
        groups="run",
        cv=StratifiedKFold(5),
        scoring=["accuracy", "roc_auc"],
        n_permutations=1000,
        random_state=0,
        n_jobs=-1,
    )
    significant = result.times[result.pvalues("max") <= 0.05]
    print(mvpa_kfda.__version__, significant.min(), result.scores.max(), result.chance)
    for correction in ["max", "cluster"]:
        ax = result.plot(correction=correction, alpha=0.01)
        ax.set_title(correction)
    table = result.to_dataframe(corrections=["max", "tfce"])
    table.to_csv("words.csv")
    result.save(Path("words.h5"), overwrite=True)
    again = decode_epochs(epochs, "condition", **result.procedure)
    print(again == result, load_result("words.h5").procedure["reg"])
    result.patterns()["noun"].plot_topomap()
    for train, test in result.folds:
        print(len(train), len(test), result.predictions[:, test].shape)


def decode_simulated() -> None:
    result = decode_epochs(simulate_epochs(), reg="tuned", kernel=["linear", RBF(0.1)])
    result.plot_tuning()
    for name in ("linear", "rbf"):
        print(decode_epochs(simulate_epochs(), kernel=name, dtype=np.float32).scores)


def decode_maps() -> None:
    epochs = simulate_epochs(random_state=1)
    power = epochs.compute_tfr("morlet", freqs=np.array([8, 16, 32]), n_cycles=3)
    print(decode_epochs(power).freqs.round(1))
    sensors = decode_epochs(epochs, sensors="adjacency", window=0.1, step=0.1)
    print(sensors.ch_names[0], sensors.adjacency.shape, sensors.info["sfreq"])
    adjacency = mne.channels.find_ch_adjacency(epochs.info, "eeg")
    decode_epochs(epochs, sensors=adjacency, kernel=GraphSmooth(adjacency)).plot()


def generalize() -> None:
    epochs = simulate_epochs()
    result = generalize_epochs(
        epochs, "condition", train_on="block < 4", n_permutations=1000, null="stream"
    )
    result.plot(correction="tfce")
    print(result.train_times, result.null_max.max(), result.diagonal().times)
    generalize_arrays(rng.normal(size=(40, 5, 9)), y, sfreq=100.0, tmin=-0.2).plot()


def decode_arrays_of_others() -> None:
    result = decode_arrays(rng.normal(size=(40, 5, 9)), list(y), sfreq=100)
    result.plot()
    print(result.times, result.pvalues())
    options = {**result.procedure, "reg": 0.1}
    decode_arrays(rng.normal(size=(40, 5, 9)), y, **options)


def decode_images() -> None:
    labels = pd.read_csv("labels.tsv", sep="\t")
    result = searchlight(
        "bold.nii.gz",
        (labels, "label"),
        groups="run",
        mask_img="mask.nii.gz",
        radius=8,
        n_permutations=1000,
        n_jobs=-1,
    )
    result.plot(correction="max")
    result.plot("glass_brain", correction="cluster")
    result.peaks().to_csv("peaks.csv")
    result.to_img("p", correction="max").to_filename("p.nii.gz")
    regions = decode_regions(
        ["run-1.nii.gz", "run-2.nii.gz"],
        ("labels.tsv", "label"),
        labels_img="atlas.nii.gz",
        cv=LeaveOneGroupOut(),
    )
    print(regions.coordinates, regions.decoded.sum())
    decode_regions("bold.nii.gz", y, groups=list(y), classes=["face", "house"])
    kinds = {"animate": ["face", "cat"], "inanimate": "house"}
    decode_regions("bold.nii.gz", ("labels.tsv", "label"), groups="run", classes=kinds)
    decode_regions("bold.nii.gz", y, labels_img="atlas.nii.gz").plot()
    regions.to_xarray(corrections=["max", "fdr"]).to_netcdf("regions.nc")


def decode_single_trials() -> None:
    runs, events = ["run-1.nii.gz", "run-2.nii.gz"], ["run-1.tsv", "run-2.tsv"]
    betas = single_trial_betas(runs, events, t_r=2, method="lsa", conditions=["a", "b"])
    table = betas.table
    searchlight(
        betas.imgs, (table, "trial_type"), groups="run", mask_img=betas.mask_img
    )


def decode_one_place() -> None:
    result = cross_validate(X, y, kernel=RBF(), cv=5, n_permutations=1000)
    print(f"{result.scores:.2f}", result.pvalues() < 0.05, result.class_scores.shape)
    print(result.roc(positive="cat").auc)
    result.plot()
    result.plot_roc(positive="cat")
    values = regress(pd.DataFrame(X), rng.normal(size=40), scoring="pearsonr")
    values.plot_predictions()
    print(values.predictions.round(1))


def decode_reaction_times() -> None:
    result = decode_epochs(simulate_epochs(), "rt", task="regression", scoring="r2")
    print(result.times, result.predictions)


def classify() -> None:
    model = KernelFDA(kernel="rbf", reg=Ridge(0.1), priors="empirical")
    print(cross_val_score(make_pipeline(StandardScaler(), model), X, y, cv=5).mean())
    print(KernelFDA("linear", "ledoit_wolf", n_components=1).fit(X, y).predict(X))
    print(KernelFDA().fit(X, y).decision_function(X).shape)


def choose_kernel_and_penalty() -> None:
    for kernel in (Linear(), Polynomial(degree=2), Penalty(np.eye(5)), EmpiricalMap()):
        cross_validate(X, y, kernel=kernel)
    for reg in (0.3, Shrinkage(0.1), DegreesOfFreedom(3), Tuned([0.1, 1, 10]), "oas"):
        print(cross_validate(X, y, reg=reg).lambdas)
    cross_validate(X, y, reg=[0.1, 1, Ridge(5)])
    cross_validate(X, y, reg=np.geomspace(0.1, 10, 3))
    cross_validate(X, y, kernel=lambda A, B: A @ B.T, approx=Nystrom(20), average=2)


def test_groups() -> None:
    files = sorted(Path("results").glob("sub-*/result.h5"))
    group = group_inference(files, "prevalence", correction="max", random_state=0)
    group.plot()
    print(group.pvalues(), group.gamma_0, group.times, group.subject_scores.mean())
    print(group.to_dataframe(), group.peaks(), group.pvalues(hypothesis="majority"))
    both = group_inference(files[:9], "sign-flip", ["tfce", "max"], other=files[9:])
    both.to_img("p", correction="tfce")


def compare_two() -> None:
    epochs = simulate_epochs()
    options = {"n_permutations": 100, "random_state": 0}
    a, b = decode_epochs(epochs, reg=0.1), decode_epochs(epochs, reg="tuned")
    difference = compare(a, b, correction="cluster", alternative="greater")
    difference.plot()
    print(difference.scores_a, difference.pvalues("cluster"), options)


def find_latencies() -> None:
    results = [decode_epochs(simulate_epochs(random_state=i)) for i in range(12)]
    latency = bootstrap_latency(results, window=(0, 0.5), criterion="t")
    print(latency.onset, latency.peak_interval[0], latency.to_dataframe())
    latency.plot(show=True)


def load() -> None:
    result: TimeResult = load_result("words.h5")  # the file knows its kind, not Python
    print(result.times)
    other = load_result("one-place.h5")
    assert isinstance(other, DecodingResult)
    print(other.roc())


def report_results() -> None:
    result = decode_arrays(X[:, :, np.newaxis], y)
    page = report(result, "page.html", title="Cats and dogs", overwrite=True)
    page.add_html("<p>More.</p>", title="More")
    report([result, group_inference([result, result])], Path("page.html"))
    report({"sub-01": result})
    print(result.warnings)
