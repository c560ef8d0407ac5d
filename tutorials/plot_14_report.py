"""
Sharing results: a self-contained report
========================================

Simulated EEG of a few people. About 10 seconds.

``report(result, "subject.html")`` writes one HTML file that needs neither a network nor
the data: a summary, figures, tables, design, parameters, warnings and a methods
paragraph. It accepts the result of a subject or of a group, and many results together.
``methods_text(result)`` gives the methods paragraph alone, with numbers that come from
the result.

Supervisors, reviewers and colleagues want to see an analysis without running it.
Results contain everything needed. All data are simulated.
"""

# %%
# One subject
# -----------
#
# A participant saw pictures of three classes in ten blocks. As usual, we leave out one
# whole block at a time.

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
options = {"step": 0.02, "n_permutations": 200, "random_state": 0}
result = decode_epochs(epochs, groups=blocks, **options)
result.plot_confusion()
plt.show()

# %%
# :func:`~mvpa_kfda.report` creates the report. It is an :class:`mne.Report`, to which
# you can add anything that belongs to the study. Its sections depend on the kind of
# result; here they are:

folder = Path(tempfile.mkdtemp())
page = report(result, folder / "subject.html", title="Pictures of three classes")
page.add_figure(epochs.average().plot(show=False), title="Evoked responses")
page.save(folder / "subject.html", overwrite=True, open_browser=False, verbose="error")
for part in page.get_contents()[0]:
    print(part)

# %%
# The file is self-contained: it needs neither a network connection nor the data. An
# example is part of `this documentation <../example_report.html>`_.

print(f"{(folder / 'subject.html').stat().st_size / 1e6:.1f} MB")

# %%
# Warnings of a run are stored in its result and shown in the report. Here, we forget to
# mix classes within blocks.

in_order = epochs[np.argsort(epochs.events[:, 2], kind="stable")]
careless = decode_epochs(in_order, groups=blocks % 2)
for text in careless.warnings:
    print(text)

# %%
# Group report
# ------------
#
# Reports can also be created from saved results. With several results, the report
# begins with a table and has a section for each: here five participants and their
# group result.

results = {}
for number in range(1, 6):
    simulated = simulate_epochs(n_classes=2, random_state=number)
    decoded = decode_epochs(simulated, step=0.04)
    decoded.save(folder / f"sub-{number:02}.h5")
    results[f"sub-{number:02}"] = load_result(folder / f"sub-{number:02}.h5")
group = group_inference(list(results.values()), "sign-flip", random_state=0)
page = report({"Group": group, **results}, folder / "study.html", title="The study")
print(page.get_contents()[0])

# %%
# The command-line equivalent is ``mvpa-kfda report sub-*.h5 group.h5 --fname
# study.html``.
#
# Methods paragraph
# -----------------
#
# The report contains a description of the methods, written by
# :func:`~mvpa_kfda.methods_text`. Every number in it comes from the result.

print(methods_text(group).split("\n\nReferences")[0])
