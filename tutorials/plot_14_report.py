"""
A page to hand on: what goes to those who were not there?
=========================================================

Simulated EEG of a few people. About a quarter of a minute.

Supervisors, reviewers and the laboratory next door want to see an analysis without
running it. Results hold all it takes: their figures, tables, design, parameters and
warnings. We put them on one page, for a subject and for a group, and take the
paragraph on the methods along. All data are simulated.
"""

# %%
# One subject
# -----------
#
# A participant saw pictures of three classes in ten blocks. Of course we test whole
# blocks, which are left out one after the other.

# sphinx_gallery_thumbnail_number = 1
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from mvpa_kfda import (
    decode_epochs,
    group_inference,
    load_result,
    methods_text,
    report,
    simulate_epochs,
)

epochs = simulate_epochs(n_classes=3, random_state=0)
blocks = np.arange(len(epochs)) * 10 // len(epochs)
options = {"step": 0.02, "n_permutations": 500, "random_state": 0}
result = decode_epochs(epochs, groups=blocks, **options)
result.plot_confusion()
plt.show()

# %%
# :func:`~mvpa_kfda.report` makes the page. It is an :class:`mne.Report`, to which
# everything can be added that belongs to the study. These are its sections; results of
# other kinds have others.

folder = Path(tempfile.mkdtemp())
page = report(result, folder / "subject.html", title="Pictures of three classes")
page.add_figure(epochs.average().plot(show=False), title="Evoked responses")
page.save(folder / "subject.html", overwrite=True, open_browser=False, verbose="error")
for part in page.get_contents()[0]:
    print(part)

# %%
# The file needs nothing but itself: no network, and none of the data. A page like it
# comes `with this documentation <../example_report.html>`_.

print(f"{(folder / 'subject.html').stat().st_size / 1e6:.1f} MB")

# %%
# What a run warned of stays with its result, and stands on the page as well. Here, we
# forget that classes should be mixed within blocks.

in_order = epochs[np.argsort(epochs.events[:, 2], kind="stable")]
careless = decode_epochs(in_order, groups=blocks % 2)
for text in careless.warnings:
    print(text)

# %%
# A group
# -------
#
# Saved results will do. With several of them the page begins with a table, and has a
# part for each: here eight participants, and their group.

results = {}
for number in range(1, 9):
    simulated = simulate_epochs(n_classes=2, random_state=number)
    decoded = decode_epochs(simulated, step=0.04)
    decoded.save(folder / f"sub-{number:02}.h5")
    results[f"sub-{number:02}"] = load_result(folder / f"sub-{number:02}.h5")
group = group_inference(list(results.values()), "sign-flip", random_state=0)
page = report({"Group": group, **results}, folder / "study.html", title="The study")
print(page.get_contents()[0])

# %%
# From the shell it is ``mvpa-kfda report sub-*.h5 group.h5 --output study.html``.
#
# The paragraph
# -------------
#
# The page has the methods in words, which :func:`~mvpa_kfda.methods_text` writes.
# Every number in them comes from the result.

print(methods_text(group).split("\n\nReferences")[0])
