"""Escape text from outside before it reaches a terminal, a log or a page.

Names, topics, reasons and payloads come from other nodes. They may contain control characters that change a terminal,
split a log line, or reorder the text that is shown. Every module escapes with `escape`, at the point where text leaves
the process (docs/decisions/23), not where text is put together.

`logger` is the logger of the library: the text of its records is escaped, whatever a program does with them.
"""

import json
import logging
from typing import Final

LINE_LETTERS_MAX: Final = 16_384
"""The length of a line for people, after which it is cut; the longest lists of names stay below it."""
_CUT: Final = 40
"""Letters that tell how much was cut."""


def escape(text: str, keep: str = "\t", letters_max: int | None = None) -> str:
    """Return the text with everything that is not printable written as an escape such as `\\x1b` or `\\u202e`.

    That is: control characters (C0, DEL, C1), line and paragraph separators, bidirectional overrides and other format
    characters, halves of surrogate pairs, unassigned and private letters. Letters of `keep` stay. A text longer than
    `letters_max` is cut, and says so. Applied twice, it changes nothing more.
    """
    if letters_max is not None and len(text) > letters_max + _CUT:
        text = f"{text[:letters_max]}... and {len(text) - letters_max} more letters"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in keep else _code_of(letter) for letter in text)


def escape_json(text: str) -> str:
    """Return the same JSON, with letters that are not printable written as `\\u....`: its value stays what it was."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _json_code_of(letter) for letter in text)


def _code_of(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


def _json_code_of(letter: str) -> str:
    """Spaces and line ends between values stay: within a string they cannot be raw."""
    if letter in "\n\r\t":
        return letter
    return f"\\u{ord(letter):04x}" if letter < "\x80" else json.dumps(letter)[1:-1]


def _escape_record(record: logging.LogRecord) -> bool:
    """Escape the arguments: the texts into which they are put are our own."""
    if isinstance(record.args, tuple):
        record.args = tuple(
            escape(str(one), letters_max=LINE_LETTERS_MAX) if _is_text(one) else one for one in record.args
        )
    return True


def _is_text(argument: object) -> bool:
    return isinstance(argument, str | BaseException)


logger: Final = logging.getLogger("resprout")
logger.addFilter(_escape_record)
