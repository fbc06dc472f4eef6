"""A journal in memory, asked as brokers are."""

from collections.abc import Sequence
from concurrent.futures import Future

import msgspec

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.edge.messages import EventGap, EventRead
from resprout.edge.requests import EventsAnswered, ReadRequest
from resprout.filters.predicate import topic_matches


def event(
    position: int,
    payloads: Sequence[bytes] = (b"x",),
    *,
    life: int = 7,
    first: int = 1,
    topic: str = "a",
    keys: tuple[str, ...] = (),
    publisher: str = "p",
    attributes: Sequence[dict[str, AttributeValue]] = (),
    offsets: tuple[int, ...] | None = None,
) -> EventRead:
    rows = pack_attributes(attributes)
    bundle = Bundle(
        publisher, 3, first, len(payloads), 0, topic, keys, Guarantee.CAUSAL, rows, pack_payloads(payloads)
    )  # fmt: skip
    return EventRead(0, bundle, offsets, -1, position, life, 1_000_000 * position)


class Shelf:
    """Gives so many events at once, however large a page may be."""

    def __init__(self, events: Sequence[EventRead], at_once: int = 3, journal: str = "tap.1") -> None:
        self.events = list(events)
        self.at_once = at_once
        self.journal = journal
        self.first = self.events[0].position if self.events else 0
        self.asked: list[ReadRequest] = []
        self.gaps: dict[int, EventGap] = {}
        """By position."""
        self.has_open_gap = False
        """The last event stands for a mark that is not written yet."""

    @property
    def end(self) -> int:
        return self.events[-1].position + 1 if self.events else self.first

    def begin(self, request: ReadRequest) -> "Future[EventsAnswered]":
        answer: Future[EventsAnswered] = Future()
        answer.set_result(self.ask(request))
        return answer

    def ask(self, request: ReadRequest) -> EventsAnswered:
        self.asked.append(request)
        assert request.allow_gaps, "a query decides itself what is to be done about gaps"
        assert request.journal in ("", self.journal)
        if request.position == -1:
            later = [each for each in self.events if each.time_us >= request.time_us]
            position = later[0].position if later else self.end
        else:
            position = self.end if request.position == -2 else request.position
        if request.position == -2 and self.has_open_gap:
            return EventsAnswered(journal=self.journal, following=self.end - 1, first=self.first, end=self.end)
        if not self.first <= position <= self.end:
            return EventsAnswered(journal=self.journal, reason=f"position {position} is not kept")
        found = [each for each in self.events if each.position >= position][: 1 if request.size == 1 else self.at_once]
        if request.until:
            found = [each for each in found if each.position < request.until]
        filters = (request.filter, *request.also)
        return EventsAnswered(
            tuple(each for each in found if any(topic_matches(one, each.bundle.topic) for one in filters)),
            self.journal,
            found[-1].position + 1 if found else position,
            self.first,
            self.end,
            life=found[-1].life if found else 0,
            gaps=tuple(self.gaps[each.position] for each in found if each.position in self.gaps),
        )

    def drop(self, first: int) -> None:
        """What retention does."""
        self.events = [each for each in self.events if each.position >= first]
        self.first = first


def of_lives(*lives: int) -> list[EventRead]:
    """One event each, from position 0 on."""
    return [msgspec.structs.replace(event(position), life=life) for position, life in enumerate(lives)]
