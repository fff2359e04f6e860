"""How the documentation is built: `make docs`."""

from __future__ import annotations

import onlooker

project = "Onlooker"
author = "the Onlooker authors"
version = release = onlooker.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

# A single backtick in a docstring is code, as everywhere else.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"Onlooker {version}"
