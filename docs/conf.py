"""Configuration of the documentation: `make docs` builds it, and warnings are errors.

Nothing is loaded from elsewhere, neither when building nor when reading: no inventories of other
projects, no fonts, and formulas as MathML (`_ext/mathml.py`), which needs no script.
"""

import shutil
import sys
from pathlib import Path

from docutils import nodes

import priorshift

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_ext"))

project = "priorshift"
author = "The priorshift developers"
project_copyright = "The priorshift developers"
version = release = priorshift.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
default_role = "literal"  # docstrings put names in single backticks
nitpicky = True  # a reference that leads nowhere is a warning
nitpick_ignore_regex = [("py:.*", r"(sklearn|numpy|object|UserWarning|BaseEstimator)\b.*")]
smartquotes_action = "qe"  # quotes and dots, but options keep their two dashes
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

# Formulas

html_math_renderer = "mathml"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_update_mathjax = False
myst_heading_anchors = 3

# Reference

autosummary_generate = True
shutil.rmtree(DOCS / "api" / "generated", ignore_errors=True)  # pages of names that are gone
autodoc_typehints = "none"  # the docstrings give types in words, with shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists methods itself
numpydoc_xref_param_type = False
add_module_names = False

# Gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "run_stale_examples": True,  # the library may have changed though an example did not
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 10,
    "only_warn_on_example_error": True,  # a warning is an error, and names the example
    "reset_modules": ("matplotlib",),
    "image_srcset": ["2x"],
}

# Pages

html_theme = "pydata_sphinx_theme"
html_title = f"priorshift {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "priorshift"},
    "navbar_align": "left",
    "navbar_persistent": [],
    "navbar_end": ["search-button", "theme-switcher"],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {page.stem: [] for page in DOCS.glob("*.md")}  # these have no pages below them


def skip_member(_app, _what, name, _obj, skip, _options):
    """Leave out what every scikit-learn estimator has: its own docs explain it."""
    generated = name.startswith("set_") and name.endswith("_request")
    common = name in {"get_metadata_routing", "get_params", "set_params"}
    return True if generated or common else skip


def trim_code(_app, doctree):
    """Drop the empty line that ends blocks of `>>>` in Markdown, where doctest needs it."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext()
        if text.endswith("\n") and block.rawsource == text:
            block.rawsource = text.rstrip("\n")
            block[:] = [nodes.Text(block.rawsource)]


def setup(app):
    """Connect what Sphinx calls."""
    app.connect("doctree-read", trim_code)
    app.connect("autodoc-skip-member", skip_member)
