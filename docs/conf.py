"""The documentation site: `make site` builds it into build/site, without the network, and fails at any warning."""

from resprout import __version__

project = "Resprout"
author = "The Resprout authors"
copyright = "The Resprout authors"  # noqa: A001
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["README.md", "history"]
html_theme = "furo"
html_title = f"Resprout {__version__}"
html_show_sphinx = False
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
suppress_warnings = ["myst.xref_missing"]  # links to files that are no pages; `python -m tests.docs` checks them
