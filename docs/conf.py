"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

import nopg

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "nopg"
author = "the nopg authors"
version = release = nopg.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docstrings",
    "links",
    "mathml",
]
exclude_patterns = ["_build", "decisions"]

# Pages.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. "  # what is copied runs
copybutton_prompt_is_regexp = True

# Reference: every name of every package's `__all__`, from its docstring.
default_role = "py:obj"
autosummary_ignore_module_all = False
autosummary_imported_members = True
autosummary_context = {"top": nopg.__all__}
autodoc_default_options = {"members": True, "no-value": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {"ArrayLike": "ArrayLike", "FloatArray": "FloatArray"}
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Classes in signatures must resolve, except those of other packages and private ones. Code type in docstrings
# need not resolve: much of it is not a name of ours.
nitpick_ignore_regex = [
    ("py:obj", r".*"),
    ("py:class", r"(abc|collections|enum|gymnasium|minari|numpy|os|pathlib|scipy|torch)\..*"),
    (
        "py:class",
        "ArrayLike|Columns|Derived|Device|Exogenous|Figure|FloatArray|Marks|QLearningAlgoBase|SolvedSystem",
    ),
    ("py:class", r"pd\.DataFrame"),
    ("py:class", r"nopg\.(\w+\.)*_.*"),
    ("py:exc", "UnstableGainError"),
]

# Looks: nothing is loaded from another host.
html_theme = "furo"
html_title = f"nopg {release}"
html_static_path = ["_static"]
html_css_files = ["nopg.css"]
html_math_renderer = "mathml"
templates_path = ["_templates"]
html_copy_source = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Drop the blank line that ends a doctest, for doctest's sake, inside its fence."""

    def trim(app: Sphinx, doctree: nodes.document) -> None:
        del app
        for block in doctree.findall(nodes.literal_block):
            block.rawsource = block.astext().rstrip()  # what differs from it would not be highlighted
            block[:] = [nodes.Text(block.rawsource)]

    app.connect("doctree-read", trim)
