"""HTML and SVG as values: whatever is not markup already is escaped, so no name out of a trace can become a tag."""

import html
from collections.abc import Iterable
from typing import Final

_VOID: Final = frozenset({"meta", "br", "col", "hr"})
_EMPTY_SHAPES: Final = frozenset({"rect", "line", "path", "circle", "polyline", "polygon", "use"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Content = str | Iterable["Content"] | None
"""A `Markup`, a text to be escaped, several of these, or nothing."""


def element(name: str, /, *content: Content, **attributes: str | float | bool | None) -> Markup:
    """`class_` stands for `class`, `stroke_width` for `stroke-width`. True is an attribute without a value; None and
    False are none at all."""
    opening = name + "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{opening}>")
    if name in _EMPTY_SHAPES and not content:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{joined(*content)}</{name}>")


def joined(*content: Content) -> Markup:
    return Markup("".join(map(_rendered, content)))


def escaped(text: str) -> Markup:
    return Markup(html.escape(_legible(text)))


def _rendered(content: Content) -> str:
    if content is None or isinstance(content, Markup):
        return content or ""
    if isinstance(content, str):
        return escaped(content)
    return "".join(map(_rendered, content))


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{escaped(value) if isinstance(value, str) else coordinate(value)}"'


def coordinate(value: float) -> str:
    """A tenth of a pixel is as exact as a page can show."""
    return f"{value:.1f}".removesuffix(".0")


def _legible(text: str) -> str:
    """Control characters and halves of surrogate pairs have no place in a page, and would make it unreadable."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t\u00a0\u202f" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
