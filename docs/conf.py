"""Sphinx configuration."""

import re
import sys
from pathlib import Path

from geartrain import __version__

sys.path.insert(0, str(Path(__file__).parent))
import benchmark_pages
import citations
import method_pages
import paper_table
import pqn_picture
from docutils import nodes
from sphinx import addnodes

from geartrain.core.status import Status
from geartrain.oracles.questions import markdown_table

project = "geartrain"
author = "the geartrain developers"
copyright = "2026, the geartrain developers"
release = version = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # the script is copied into the pages: formulas need no network
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

highlight_language = "none"  # the boxes of algorithms are not Python
nitpicky = False
exclude_patterns = ["_build", "benchmarks", "generated", "openings"]
html_theme = "pydata_sphinx_theme"
html_title = "geartrain"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_nav_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}
html_static_path = ["static"]
html_css_files = ["pages.css"]
html_js_files = ["sort.js"]
html_sidebars = {page: [] for page in ("index", "benchmarks")}  # nothing to navigate there


METHOD_PAGES = {"auto", *method_pages.pages()}


def _write_generated(app):
    """Write the pages and tables that are made from the code, before Sphinx looks for pages."""
    source = Path(app.srcdir)
    generated = source / "generated"
    generated.mkdir(exist_ok=True)
    method_pages.write(source / "methods")
    benchmark_pages.write(source / "benchmarks", generated / "benchmarks")
    pqn_picture.write(generated / "pqn.png")
    ends = [f"| {status.value} | `{status.name}` | {status.message} |" for status in Status]
    ends = ["| value | name | message |", "| --- | --- | --- |", *ends, ""]
    (generated / "status.txt").write_text("\n".join(ends))
    (generated / "questions.md").write_text(markdown_table() + "\n")
    (generated / "paper.txt").write_text(paper_table.table())


def _trim_code(app, doctree):
    """Remove the empty line that doctest wants at the end of a block of code."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text != text.rstrip("\n") and block.rawsource == text:
            block.rawsource = text.rstrip("\n")
            block[:] = [nodes.Text(block.rawsource)]


def _link_methods(app, doctree):
    """Make links of the names of methods in tables, as ``pqn`` or ``inner="katyusha"``."""
    here = app.env.docname
    if here.startswith("methods/"):
        return
    for table in doctree.findall(nodes.table):
        first = next(table.findall(nodes.entry)).astext()
        for name in list(table.findall(nodes.literal)):
            inside = re.fullmatch(r'inner="(.+)"', name.astext())
            page = f"inner-{inside[1]}" if inside else name.astext()
            page = f"inner-{page}" if first == "inner method" else page
            if page not in METHOD_PAGES or isinstance(name.parent, nodes.reference):
                continue
            link = addnodes.pending_xref(
                "", refdomain="std", reftype="doc", refdoc=here, reftarget=f"/methods/{page}"
            )
            link["refexplicit"] = True
            name.replace_self(link)
            link += name


def _hide_numbers(app, what, name, thing, options, signature, returns):
    """Leave the numbers that steer a method to their own page."""
    if signature:
        signature = re.sub(r"tuning=Tuning\([^)]*\)", "tuning=DEFAULT", signature)
    return signature, returns


def setup(app):
    """Connect what writes pages, what rewrites citations and what shortens signatures."""
    app.connect("autodoc-process-signature", _hide_numbers)
    app.connect("doctree-read", _trim_code)
    app.connect("doctree-read", _link_methods)
    app.connect("builder-inited", _write_generated)
    app.connect("autodoc-process-docstring", citations.process, priority=400)  # before numpydoc
