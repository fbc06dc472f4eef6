"""The logger of the library: whatever a program does with its records, they hold nothing that steers a terminal."""

import logging
from typing import Final

from resprout.core.escaping import LINE_LETTERS_MAX, escape


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
