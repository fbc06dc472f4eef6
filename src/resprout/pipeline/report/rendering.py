"""The page's templates, by Jinja: whatever comes from a trace is escaped, what no page can hold is replaced."""

import base64
import hashlib
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from resprout.pipeline.report.legible import legible


def rendered(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)


def page_rendered(**values: Any) -> str:
    """The whole page: `page.html` with its style sheet and its script. Nothing else is allowed to run in it, or to be
    loaded: it says so to the browser."""
    style, script = source_of("style.css"), source_of("tips.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return rendered("page.html", style=Markup(style), script=Markup(script), script_digest=digest, **values)


def source_of(name: str) -> str:
    """A file of the folder `templates` as it is."""
    templates = environment()
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


@cache
def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("resprout.pipeline.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        keep_trailing_newline=True,
    )


def _finalized(value: object) -> object:
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
