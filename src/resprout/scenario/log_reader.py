"""A simulated client that reads a log page by page during a run.

It begins at a given offset and time, and requests each page some time after the one before. It reads over gap marks,
and repeats requests that fail. It is done when it reaches the end of the log after `until`, or when too many requests
have failed after that.
"""

from collections.abc import Sequence
from typing import Final

from resprout.core.errors import WireError
from resprout.core.message import Message
from resprout.edge.client.questions import messages_of
from resprout.edge.requests import ClientNews, EventsAnswered, ReadRequest, StoredMessage
from resprout.logs.declaration import LOG_PREFIX
from resprout.scenario.app import AppWish, PageRead, WakeAt
from resprout.scenario.model import ReaderSpec

TRIES_MAX: Final = 40
"""Failed requests after `until` before it gives up."""
_EARLIEST: Final = -1


class LogReaderApp:
    def __init__(self, spec: ReaderSpec) -> None:
        self._spec = spec
        self._offset = spec.offset
        """Offset at which the next page begins."""
        self._next_us = -1
        """Time of the next request; -1 while one is pending."""
        self._tries = 0
        self.done = False

    def start(self, now_us: int) -> Sequence[AppWish]:
        return self._ask_at(max(now_us, self._spec.start_us))

    def _ask_at(self, at_us: int) -> list[AppWish]:
        self._next_us = at_us
        return [WakeAt(at_us)]

    def woke(self, now_us: int) -> Sequence[AppWish]:
        if not 0 <= self._next_us <= now_us or self.done:
            return []
        self._next_us = -1
        spec = self._spec
        journal = f"{LOG_PREFIX}{spec.log}"
        return [ReadRequest(spec.filter, None, journal, self._offset, 0, spec.size, allow_gaps=True)]

    def told(self, news: ClientNews, now_us: int) -> Sequence[AppWish]:
        if not isinstance(news, EventsAnswered) or self._next_us >= 0 or self.done:
            return []
        over = now_us >= self._spec.until_us
        if news.reason:
            self._tries += over
            self.done = self._tries > TRIES_MAX
            if self._offset < news.first:  # retention has dropped the oldest messages meanwhile
                self._offset = _EARLIEST
            return [] if self.done else self._ask_at(now_us + self._spec.pause_us)
        begin = news.first if self._offset == _EARLIEST else self._offset
        self._offset, self._tries = news.following, 0
        self.done = over and news.following >= news.end
        page = PageRead(self._spec.log, self._spec.filter, begin, news.following, _messages(news))
        return [page] if self.done else [page, *self._ask_at(now_us + self._spec.pause_us)]

    def delivered(self, message: Message, now_us: int) -> Sequence[AppWish]:
        return []


def _messages(news: EventsAnswered) -> tuple[StoredMessage, ...]:
    try:
        return tuple([stored for event in news.events for stored in messages_of(event, in_log=True)])
    except WireError:
        return ()  # the judge reports the missing messages
