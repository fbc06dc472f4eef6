"""Texts from the network: the rules of `core.names`, broken by a peer instead of a caller."""

from collections.abc import Callable
from typing import Any, Final

from resprout.core import limits, names
from resprout.core.errors import NameRefusedError, WireError

KEY_TEXT_BYTES: Final = limits.TOPIC_BYTES + limits.KEY_BYTES
"""A key of another topic is written with that topic."""


def checked_name(name: Any) -> str:
    """A broker's or client's name."""
    check_text(name, "a name", limits.NAME_BYTES)
    return _refused_by_the_wire(names.check_name, name)


def checked_topic(topic: Any) -> str:
    """A topic to publish on: no wildcards."""
    check_text(topic, "a topic", limits.TOPIC_BYTES)
    return _refused_by_the_wire(names.check_topic, topic)


def checked_key(key: Any) -> str:
    """A key, perhaps of another topic."""
    check_text(key, "a key", KEY_TEXT_BYTES)
    return _refused_by_the_wire(lambda text: names.check_keys([text])[0], key)


def check_text(text: Any, what: str, bytes_max: int) -> None:
    """Only type and size, and never quoting the text: what is refused for its size must not be repeated in a reason."""
    if type(text) is not str:
        raise WireError(f"{what} is a text")
    if len(text) * 4 > bytes_max and len(text.encode()) > bytes_max:
        raise WireError(f"{what} has more than {bytes_max} bytes")


def _refused_by_the_wire(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except NameRefusedError as error:
        raise WireError(str(error)) from None
