"""What a client reads of the past, on its way to its broker and back.

One answer is a page: the events come one by one, and are handed on together when the broker says that it was all. A
request that was sent and not answered when its broker was lost is answered here: another broker keeps another journal.
"""

from collections import deque
from typing import Final

from resprout.core.bundle import unpack_attributes, unpack_payloads
from resprout.core.contract import Answer, Effect
from resprout.core.errors import UsageError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.messages import EventRead, EventsEnd, ReadEvents
from resprout.edge.requests import EventsAnswered, ReadRequest, StoredMessage
from resprout.filters.predicate import parse_predicate

REQUESTS_MAX: Final = 64
"""That wait for their answers."""


class ReadRequests:
    def __init__(self) -> None:
        self.unsent: deque[tuple[ReadEvents, int]] = deque()
        """With their tokens."""
        self._sent: dict[int, tuple[int, list[EventRead]]] = {}
        """By id: the token, and what has come."""
        self._ids = 0

    def ask(self, request: ReadRequest, token: int) -> None:
        if len(self.unsent) + len(self._sent) >= REQUESTS_MAX:
            raise UsageError(f"{REQUESTS_MAX} requests to read events wait for their answers")
        for topic_filter in (request.filter, *request.also):
            parse_predicate(topic_filter, request.where)
        self._ids += 1
        asked = ReadEvents(
            self._ids, request.filter, request.where, request.journal, request.position, request.time_us, request.size,
            request.also, request.until, request.whole, request.allow_gaps,
        )  # fmt: skip
        self.unsent.append((asked, token))

    def next(self) -> ReadEvents | None:
        """To be said to the broker that serves."""
        if not self.unsent:
            return None
        asked, token = self.unsent.popleft()
        self._sent[asked.id] = (token, [])
        return asked

    def give_up(self, reason: str, out: list[Effect]) -> None:
        """Nobody can be asked."""
        while self.unsent:
            _, token = self.unsent.popleft()
            out.append(Answer(EventsAnswered(reason=reason), token))

    def came(self, message: EventRead, out: list[Effect]) -> None:
        """WireError for what no honest broker sends."""
        asked = self._sent.get(message.id)
        if asked is None:
            raise WireError("events of the past that nobody asked for")
        if message.offsets is not None and len(message.offsets) != message.bundle.count:
            raise WireError(f"{len(message.offsets)} offsets for {message.bundle!r}")
        asked[1].append(message)

    def ended(self, message: EventsEnd, out: list[Effect]) -> None:
        asked = self._sent.pop(message.id, None)
        if asked is None:
            raise WireError("the end of events that nobody asked for")
        token, events = asked
        answer = EventsAnswered(
            tuple(events), message.journal, message.following, message.first, message.end, message.reason,
            message.life, message.gaps,
        )  # fmt: skip
        out.append(Answer(answer, token))

    def begin_session(self, out: list[Effect]) -> None:
        """Answers of the session before do not come any more."""
        lost, self._sent = self._sent, {}
        for token, _ in lost.values():
            out.append(Answer(EventsAnswered(reason="the broker was lost before it answered: ask again"), token))


def messages_of(message: EventRead) -> list[StoredMessage]:
    """What one bundle of the past holds. WireError for what no honest broker sends."""
    bundle, offsets = message.bundle, message.offsets
    payloads, rows = unpack_payloads(bundle), unpack_attributes(bundle)
    places = range(bundle.count) if offsets is None else offsets
    is_total = bundle.guarantee is Guarantee.TOTAL and message.tseq >= 0
    return [
        StoredMessage(
            message.position,
            place,
            message.life,
            message.time_us,
            Message(
                bundle.publisher, bundle.incarnation, bundle.first + place, bundle.topic, bundle.keys, bundle.guarantee,
                row, payload, message.position, tseq=message.tseq + place if is_total else -1,
            ),
        )
        for place, row, payload in zip(places, rows, payloads, strict=True)
    ]  # fmt: skip
