"""Sphinx configuration."""

import sys
from pathlib import Path

from geartrain import __version__

sys.path.insert(0, str(Path(__file__).parent))
import method_pages
import paper_table

project = "geartrain"
author = "the geartrain developers"
copyright = "2026, the geartrain developers"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath", "tasklist"]
myst_heading_anchors = 3
autosummary_generate = False
autodoc_typehints = "none"
numpydoc_show_class_members = False

# The gallery: the scripts of examples/, run here.
sys.path.insert(0, str(Path(__file__).parent))  # gallery_arguments
extensions.append("sphinx_gallery.gen_gallery")
source_suffix[".rst"] = "restructuredtext"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": ".py",  # all of them are run
    "reset_argv": "gallery_arguments.arguments",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
}

nitpicky = False
exclude_patterns = ["_build", "benchmarks"]
html_theme = "pydata_sphinx_theme"
html_title = "geartrain"
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}


def setup(app):
    """Write the pages of the methods and the table of the paper before Sphinx looks for pages."""
    app.connect("builder-inited", lambda app: method_pages.write(Path(app.srcdir) / "methods"))
    app.connect(
        "builder-inited", lambda app: paper_table.write(Path(app.srcdir) / "paper_table.txt")
    )
