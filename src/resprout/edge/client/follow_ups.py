"""Follow-ups that a consumer has asked for, until its broker has answered (`FollowUp`).

As many as a broker takes at once are with it; others wait. When the broker of the subscription is another one, all of
them are said to that one.
"""

from resprout.core.bundle import Bundle, Origin, pack_attributes, pack_payloads
from resprout.core.guarantee import Guarantee
from resprout.edge.durable_messages import FOLLOW_UP_BYTES, FOLLOW_UPS_MAX, FollowUp, Span
from resprout.edge.requests import FollowUpRequest


class FollowUpsAsked:
    __slots__ = ("_asked", "_bytes", "_said")

    def __init__(self) -> None:
        self._asked: dict[tuple[Origin, int], FollowUpRequest] = {}
        """By message, in the order in which they were asked for."""
        self._said: dict[tuple[Origin, int], int] = {}
        """Those that the broker has, and their bytes."""
        self._bytes = 0

    def ask(self, request: FollowUpRequest) -> None:
        """The first one of a message counts."""
        message = request.message
        self._asked.setdefault(((message.publisher, message.stream, message.epoch), message.seq), request)

    def begin_again(self) -> None:
        """Another broker has been told nothing."""
        self._said.clear()
        self._bytes = 0

    def take_room(self) -> list[FollowUp]:
        """Return what is said to the broker now."""
        found: list[FollowUp] = []
        for key, request in self._asked.items():
            if len(self._said) >= FOLLOW_UPS_MAX or self._bytes >= FOLLOW_UP_BYTES:
                break
            if key not in self._said:
                origin, seq = key
                bundle = Bundle(
                    origin[0], 1, 1, 1, 0, request.topic, request.keys, Guarantee.EVENTUAL,
                    pack_attributes([request.attributes]), pack_payloads([request.payload]),
                )  # fmt: skip
                self._said[key] = bundle.cost
                self._bytes += bundle.cost
                found.append(FollowUp(Span(*origin, seq, seq), bundle))
        return found

    def answered(self, span: Span) -> FollowUpRequest | None:
        """Return the request; None: there is none."""
        key = (span.origin, span.first)
        self._bytes -= self._said.pop(key, 0)
        return self._asked.pop(key, None)
