"""Configuration of the documentation. The build needs no network."""

import re
import sys
from pathlib import Path

import matplotlib as mpl
from sphinx.util import logging

import mvpa_kfda

mpl.use("Agg")
sys.path.append(str(Path(__file__).parent / "_extensions"))

project = "mvpa_kfda"
author = "mvpa_kfda developers"
copyright = "2026, mvpa_kfda developers"
version = release = mvpa_kfda.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "cells",
]
root_doc = "index"
templates_path = ["_templates"]
exclude_patterns = ["_build", "benchmarks/*", "package_page.rst"]
default_role = "literal"
nitpicky = False

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../tutorials",
    "gallery_dirs": "auto_tutorials",
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "parallel": 2,
    "capture_repr": ("_repr_html_",),
    "remove_config_comments": True,
    "show_signature": False,
    "doc_module": ("mvpa_kfda",),
    "backreferences_dir": "generated/backreferences",
    "min_reported_time": 1e6,
}

html_theme = "pydata_sphinx_theme"
html_title = "mvpa_kfda"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
html_search_scorer = str(Path(__file__).parent / "_extensions" / "scorer.js")
# Pages that stand alone in their part would have an empty column.
html_sidebars = {page: [] for page in ("index", "install", "search", "genindex")}
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["on-this-page"],
    "show_toc_level": 2,
}


def is_shown(number, output):
    """Tell whether some number of the output, rounded, is this one."""
    digits = len(number.partition(".")[2])
    return any(
        f"{float(shown):.{digits}f}" == number
        for shown in re.findall(r"\d+\.\d+", output)
    )


def check_openings(app):
    """Warn of numbers that a tutorial begins with, but does not compute."""
    for page in sorted(Path(app.srcdir, "auto_tutorials").glob("plot_*.rst")):
        opening, _, rest = page.read_text("utf-8").partition("GENERATED FROM PYTHON")
        answer = opening.split("\n\n", 1)[-1]
        output = "".join(re.findall(r"(?s)code-block:: none\n(.*?)\n\S", rest))
        output += "".join(re.findall(r"<t[dh].*?</t[dh]>", rest))
        for number in re.findall(r"(?<![\w.])\d+\.\d+", answer):
            if not is_shown(number, output):
                text = f"{page.stem} begins with {number}, which it does not compute"
                logging.getLogger(__name__).warning(text)


def write_example(app, error):
    """Make the page that index.rst links to, beside the others."""
    if error is not None or app.builder.name != "html":
        return
    epochs = mvpa_kfda.simulate_epochs(n_classes=3, random_state=0)
    scoring = ["accuracy", "roc_auc"]
    result = mvpa_kfda.decode_epochs(
        epochs, scoring=scoring, n_permutations=300, random_state=0
    )
    path = Path(app.outdir) / "example_report.html"
    mvpa_kfda.report(result, path, "Example: simulated EEG", overwrite=True)


def setup(app):
    app.connect("builder-inited", check_openings, priority=900)  # after the gallery
    app.connect("build-finished", write_example)
