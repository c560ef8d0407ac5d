"""Configuration of the documentation. The build needs no network."""

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
