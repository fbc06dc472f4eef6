"""The documentation site: `make site` builds it into build/site, without the network, and fails at any warning."""

import re
from typing import Any

from sphinx.addnodes import pending_xref

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
default_role = "code"  # what docstrings put between single backticks
smartquotes = False  # they turn the options and quotes of commands into dashes and quotes that no shell knows


def print_as_text(_app: Any, _context: Any, lines: list[str]) -> None:
    """Turn the help of a command into reStructuredText: code and examples as such, and `@` without a link to e-mail."""
    result: list[str] = []
    for line in lines:
        is_example = line.startswith("| ")
        if is_example and not (result and result[-1].startswith("    ")):
            result += ["::", ""]
        result.append(f"    {line[2:]}" if is_example else re.sub(r"`([^`]+)`", r"``\1``", line).replace("@", "\\@"))
    lines[:] = result


def unlink_history(app: Any, doctree: Any) -> None:
    """Print links to former decision records as text: the repository has them, the site does not."""
    for link in list(doctree.findall(pending_xref)):
        if link["reftarget"].startswith("history/"):
            link.replace_self(link.children)


def setup(app: Any) -> None:
    app.connect("sphinx-click-process-description", print_as_text)
    app.connect("sphinx-click-process-options", print_as_text)
    app.connect("sphinx-click-process-epilog", print_as_text)
    app.connect("doctree-read", unlink_history)
