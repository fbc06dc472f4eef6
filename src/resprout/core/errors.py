"""Errors of three kinds, and the escaping of text that comes from other nodes.

Our own bug is an AssertionError and may stop the process; `transition` raises it for a change of state that a table of
states does not allow. A peer's fault is a `PeerError`: the link is closed with a reason and nothing else suffers. The
caller's fault is a `UsageError`: one clear line, and nothing was done.

Names, topics, reasons and payloads come from other nodes. They may contain control characters that change a terminal,
split a log line, or reorder the text that is shown. Every module escapes with `escape`, at the point where text leaves
the process (docs/decisions/23), not where text is put together. `logger` is the logger of the library: it escapes the
text of its records, whatever a program does with them.

`needed_for` is for packages that only some commands need, and knows the extra that installs each.

    with needed_for("a trace on disk"):
        from resprout.trace import columns

The base package is what a client and a broker need. An import that fails for a package that an extra installs becomes a
`UsageError` that names the extra.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Final, TypeVar

LINE_LETTERS_MAX: Final = 16_384
"""The length of a line for people, after which it is cut; the longest lists of names stay below it."""
_NOT_PLAIN: Final = re.compile(r"[^\n\r\t\x20-\x7e]+")
_CUT: Final = 40
"""Letters that tell how much was cut."""

S = TypeVar("S", bound=Enum)


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
    """Return the same JSON, with letters that are not printable written as `\\u....`: its value stays what it was. If
    there are such letters, all others that are not ASCII are written so, too: a run of them costs one call.

    Spaces and line ends between values stay: within a string they cannot be raw.
    """
    return text if text.isprintable() else _NOT_PLAIN.sub(lambda run: json.dumps(run[0])[1:-1], text)


def _code_of(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


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


class ResproutError(Exception):
    """Base class of all errors of this package."""

    def __str__(self) -> str:
        """The text, escaped: a reason may come from a peer, and a traceback shows it as it is."""
        return escape(super().__str__(), keep="\t\n")


class PeerError(ResproutError):
    """A peer broke the protocol. Whoever catches it closes that link and says why."""


class BoundError(PeerError):
    """A peer stated a number beyond what it can know of. A client that does is told so, and does not come again."""


class ForbiddenError(PeerError):
    """A client wants more than it may have, and cannot be served without it. It does not come again by itself."""


class WireError(PeerError):
    """Bytes that are not a message: the only exception that decoding raises."""


class UsageError(ResproutError, ValueError):
    """A wrong argument or input; the text names it and what is allowed."""


class NoBrokerError(ResproutError):
    """A command could not reach any broker, or none let it in."""


class StoreError(ResproutError):
    """What this process put aside cannot be brought back: its life is over, and others have what it had."""


class NameRefusedError(UsageError):
    """A name, topic, key or attribute breaks the limits of `core.limits`."""


class PayloadRefusedError(UsageError):
    """A payload is not bytes, or too large."""


class UnsupportedGuaranteeError(UsageError):
    """The stack that runs here does not offer this guarantee."""


class UnsupportedSubscriptionError(UsageError):
    """The stack that runs here does not offer this kind of subscription."""


class UnsupportedReceiptError(UsageError):
    """The stack that runs here does not give this receipt: to wait for it would be to wait for ever."""


def transition(table: Mapping[S, frozenset[S]], old: S, new: S) -> S:
    """`new`, which the table allows after `old`. Anything else is our own bug, whatever a peer did."""
    assert new in table[old], f"{type(new).__name__}: {new.name} after {old.name}"
    return new


EXTRAS: Final = {
    "altair": "report",
    "cryptography": "secure",
    "jinja2": "report",
    "numpy": "report",
    "opentelemetry": "otel",
    "pandas": "report",
    "prometheus_client": "metrics",
    "py4j": "spark",
    "pyarrow": "trace",
    "pyspark": "spark",
    "vl_convert": "report",
}
"""By top-level package."""


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Turn a failed import of an optional package into a UsageError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        raise UsageError(f"{purpose} needs {package}: pip install 'resprout[{EXTRAS[package]}]'") from None
