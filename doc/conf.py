"""Configuration of the documentation. The build needs no network."""

from pathlib import Path

import matplotlib as mpl

import mvpa_kfda

mpl.use("Agg")

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
    "capture_repr": (),
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
# Pages that stand alone in their part would have an empty column.
html_sidebars = {page: [] for page in ("index", "install", "search", "genindex")}
html_theme_options = {
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["on-this-page"],
    "show_toc_level": 2,
}


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
    app.connect("build-finished", write_example)
