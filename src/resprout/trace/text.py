"""Attribute values as text, so that a condition can be evaluated again from the trace alone.

The form is that of SQL literals, and each text is the form of exactly one value:

    text     in single quotes, a quote inside doubled     'o''clock'
    integer  decimal digits, with - when negative         -120
    number   with a point, an exponent, or inf            0.5  1e+16  -inf
    boolean  true or false
"""

import re
from collections.abc import Mapping

from resprout.core.names import Attributes, AttributeValue
from resprout.trace.errors import TraceError

_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:inf|[0-9]+\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)")


def to_text(value: AttributeValue) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):  # before int: True is an int to Python
        return "true" if value else "false"
    return repr(value)  # of a float: the shortest text that gives it back exactly


def from_text(text: str) -> AttributeValue:
    if text[:1] == "'":
        inside = text[1:-1]
        if len(text) >= 2 and text[-1] == "'" and "'" not in inside.replace("''", ""):
            return inside.replace("''", "'")
    elif text == "true":
        return True
    elif text == "false":
        return False
    elif _INTEGER.fullmatch(text):
        return int(text)
    elif _NUMBER.fullmatch(text):
        return float(text)
    raise TraceError(f"attribute value {text!r} is no text in single quotes, number, true or false")


def texts(attributes: Attributes) -> dict[str, str] | None:
    """The `attributes` cell of a row; nothing at all when there are none."""
    return {name: to_text(value) for name, value in attributes.items()} or None


def values(cell: Mapping[str, str] | None) -> dict[str, AttributeValue]:
    """What `texts` was given."""
    return {name: from_text(text) for name, text in cell.items()} if cell else {}
