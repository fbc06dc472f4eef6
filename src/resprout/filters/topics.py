"""MQTT's topic filters: `+` stands for one level, a last `#` for its parent and everything below it.

As MQTT has it, a wildcard in the first level leaves out the topics that begin with `$`. `#` alone therefore matches
exactly what `+/#` matches, because every topic has a first level. Shared subscriptions (`$share/...`) are not a thing
here: such a filter is an ordinary text.

All functions but `check_filter` take filters that it let pass.
"""

from resprout.core import limits
from resprout.core.errors import NameRefusedError


def check_filter(text: str) -> str:
    """The filter itself, or a NameRefusedError (a UsageError) that says what is wrong with it."""
    if not isinstance(text, str) or not text:
        raise NameRefusedError(f"a topic filter must be a text that is not empty, not {text!r}")
    shown = repr(text if len(text) <= 60 else text[:60] + "...")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise NameRefusedError(f"topic filter {shown} is not valid Unicode") from None
    if size > limits.TOPIC_BYTES:
        raise NameRefusedError(f"topic filter {shown} is longer than {limits.TOPIC_BYTES} bytes")
    if "\0" in text:
        raise NameRefusedError(f"topic filter {shown} holds a null character")
    levels = text.split("/")
    if len(levels) > limits.TOPIC_LEVELS:
        raise NameRefusedError(f"topic filter {shown} has more than {limits.TOPIC_LEVELS} levels")
    for level in levels:
        if len(level) > 1 and ("+" in level or "#" in level):
            raise NameRefusedError(f"topic filter {shown}: a wildcard must be alone in its level, not in {level!r}")
    if "#" in levels[:-1]:
        raise NameRefusedError(f"topic filter {shown}: '#' may only be the last level")
    return text


def is_plain(topic_filter: str) -> bool:
    """Whether it names a single topic."""
    return "+" not in topic_filter and "#" not in topic_filter


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Whether a publication on the topic is asked for."""
    if topic_filter == topic:
        return True
    wanted = topic_filter.split("/")
    if topic.startswith("$") and wanted[0] in ("+", "#"):
        return False
    levels = topic.split("/")
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        if place == len(levels) or level not in ("+", levels[place]):
            return False
    return len(wanted) == len(levels)


def filter_covers(wide: str, narrow: str) -> bool:
    """Whether every topic that `narrow` matches is matched by `wide`: exact, both ways."""
    if wide == narrow:
        return True
    wanted, given = _spelled_out(wide), _spelled_out(narrow)
    if wanted[0] == "+" and given[0].startswith("$"):
        return False
    for place, level in enumerate(wanted):
        if level == "#":
            return True
        # A '#' in `narrow` also matches its parent, which is too short for another level of `wide`.
        if place == len(given) or given[place] == "#" or level not in ("+", given[place]):
            return False
    return len(wanted) == len(given)


def _spelled_out(topic_filter: str) -> list[str]:
    return ["+", "#"] if topic_filter == "#" else topic_filter.split("/")


def placement_of(topic_filter: str) -> str:
    """Where a filter has wildcards, and which: two filters with the same placement never match the same topic, unless
    they are equal."""
    levels = topic_filter.split("/")
    return "".join([level if level in ("+", "#") else "." for level in levels])
