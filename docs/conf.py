"""How the documentation is built: `make docs`."""

from __future__ import annotations

from html import escape
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

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


def check_headings(app: Sphinx, error: Exception | None) -> None:
    """Every page can be read: Sphinx writes pages of its own, such as search.html, over ours."""
    if error or app.builder.format != "html":
        return
    for page in app.env.found_docs:
        heading = Path(app.env.doc2path(page)).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        if f"<h1>{escape(heading, quote=False)}<" not in Path(app.outdir, f"{page}.html").read_text("utf-8"):
            raise ExtensionError(f"{page}.html is not the page {heading!r}; give {page}.md another name")


def setup(app: Sphinx) -> None:
    app.connect("build-finished", check_headings)
