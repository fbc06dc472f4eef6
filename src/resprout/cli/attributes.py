"""Attributes as they are written on a command line: `amount=120`, `urgent=true`, `city=Porto`, `code='007'`."""

import re
from collections.abc import Iterable
from typing import Final

from resprout.core.errors import UsageError
from resprout.core.names import AttributeValue, check_attributes

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,1024}")
_FRACTION: Final = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][+-]?[0-9]+)?")
_WORDS: Final[dict[str, bool]] = {"true": True, "false": False}


def parse_attributes(texts: Iterable[str]) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"attribute {text!r}: write it as name=value")
        if name in attributes:
            raise UsageError(f"attribute {name!r} is given twice")
        attributes[name] = parse_value(value)
    return check_attributes(attributes)


def parse_value(text: str) -> AttributeValue:
    """A number, true or false where it looks like one; text otherwise, and always when quoted."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FRACTION.fullmatch(text):
        return float(text)
    return text
