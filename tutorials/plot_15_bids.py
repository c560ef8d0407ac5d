"""
BIDS datasets: from recordings to group results in two commands
===============================================================

Simulated EEG in a BIDS dataset. About 15 seconds.

``mvpa-kfda bids dataset output participant`` decodes all subjects of a BIDS dataset,
and ``mvpa-kfda bids dataset output group`` runs the group test. Here five subjects have
peak accuracies between 0.75 and 0.90 (chance: 0.333), and the group has 6 of 26
significant time points. Both commands write tables, reports and an overview with links
to them.

Datasets in the Brain Imaging Data Structure are described by their file names and
accompanying tables, so no further description is needed. We create a small EEG dataset
with MNE-BIDS, run both commands, and look at their output. Nothing is downloaded.
"""

# %%
# A dataset
# ---------
#
# Five participants see three kinds of pictures in two runs each, and occasionally press
# a button. Each recording is a concatenation of simulated epochs.

# sphinx_gallery_thumbnail_number = 1
import json
import tempfile
from pathlib import Path

import mne
import numpy as np
import pandas as pd
from mne_bids import BIDSPath, print_dir_tree, write_raw_bids

from mvpa_kfda import load_result, simulate_epochs
from mvpa_kfda.cli import main

mne.set_log_level("error")
folder = Path(tempfile.mkdtemp())
dataset, output = folder / "dataset", folder / "dataset" / "derivatives" / "mvpa_kfda"

for number in range(1, 6):
    epochs = simulate_epochs(
        48, 3, snr=0.6, n_channels=16, sfreq=50.0, tmax=0.5, random_state=number
    )
    names = {code: name for name, code in epochs.event_id.items()}
    kinds = np.array([names[code] for code in epochs.events[:, 2]])
    order = np.random.default_rng(number).permutation(len(epochs))
    for run, trials in enumerate(np.split(order, 2), start=1):
        data = np.hstack(epochs.get_data()[trials])
        raw = mne.io.RawArray(data, epochs.info)
        length = len(epochs.times) / epochs.info["sfreq"]
        onsets = np.arange(len(trials)) * length - epochs.tmin
        raw.set_annotations(mne.Annotations(onsets, 0.1, kinds[trials]))
        raw.annotations.append(onsets[::7] + 0.3, 0.0, "button")
        path = BIDSPath(
            f"{number:02d}", task="pictures", run=run, datatype="eeg", root=dataset
        )
        write_raw_bids(raw, path, format="BrainVision", allow_preload=True)
print_dir_tree(dataset, max_depth=2)

# %%
# The events of a run are in a table; any of its columns can be decoded.

table = pd.read_csv(
    dataset / "sub-01" / "eeg" / "sub-01_task-pictures_run-1_events.tsv", sep="\t"
)
print(table.head(4).to_string())

# %%
# Decoding all subjects
# ---------------------
#
# In a shell, the next lines would be ``mvpa-kfda bids dataset output participant
# --where "trial_type != 'button'" ...``. The options are described on :doc:`a separate
# page </bids>`. Runs are the groups: each is tested with models trained on the other.

options = [
    *("--by", "trial_type", "--where", "trial_type != 'button'"),
    *("--tmin", "-0.1", "--tmax", "0.4", "--n-permutations", "200"),
]
main(["bids", str(dataset), str(output), "participant", *options])

# %%
# The output is a derivative dataset. File names contain the subject, the task and the
# analysis. ``index.html`` is an overview with links to the reports of all subjects.

print_dir_tree(output, max_depth=1)
for path in sorted((output / "sub-01" / "eeg").iterdir()):
    print(path.name)

# %%
# The table has the scores and p-values at each time point. The accompanying JSON file
# describes the columns, and everything that the results depend on.

stem = output / "sub-01" / "eeg" / "sub-01_task-pictures_desc-time_decoding"
print(pd.read_csv(f"{stem}.tsv", sep="\t").loc[8:12].round(3).to_string())
sidecar = json.loads(Path(f"{stem}.json").read_text())
print(sidecar["p_max"], sidecar["Sources"], sidecar["Parameters"]["permute"])

# %%
# A second call
# -------------
#
# Existing results are not recomputed. If the options or the recordings had changed,
# they would be, and the output line would state the change. The options of the run are
# in a file, which can replace all of them.

config = output / "participant_desc-time_config.toml"
print(config.read_text())
main(["bids", str(dataset), str(output), "participant", "--config", str(config)])

# %%
# Other settings, side by side
# ----------------------------
#
# A different name, set with ``--desc``, keeps existing results. Here one participant
# is decoded again, in windows of 80 ms and at half the sampling rate, with each
# channel divided by its standard deviation. The overview has a column for each name.

more = ["--desc", "windows", "--resample", "25", "--scale", "channel"]
more += ["--window", "0.08", "--step", "0.04", "--participant-label", "01"]
main(["bids", str(dataset), str(output), "participant", *options, *more])
print(*sorted(path.name for path in output.glob("*.html"))[:4], sep="\n")

# %%
# Group analysis
# --------------
#
# The second command runs a group test on the results of the first. Five subjects are
# few, so we test the mean; with more subjects, omit ``--method`` to estimate how many
# people in the population have an effect (:doc:`/group`).

main(
    [
        *("bids", str(dataset), str(output), "group", "--desc", "time"),
        *("--method", "t", "--correction", "fdr"),
    ]
)
result = load_result(output / "group" / "group_task-pictures_desc-time_decoding.h5")
result.plot()

# %%
# For each subject and for the group there is an HTML report with figures, tables and a
# methods paragraph: ``sub-01_desc-time_report.html`` and
# ``group_task-pictures_desc-time_report.html``. ``index.html`` links to all of them.
# References are in ``CITATION.bib``. The page on BIDS datasets shows :doc:`an fMRI
# analysis from fMRIPrep to the group </bids>`.

print("\n".join((output / "CITATION.bib").read_text().splitlines()[:9]))
