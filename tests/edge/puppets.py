"""A client machine with a hand on every string: events in by short names, effects out by kind."""

from collections.abc import Sequence
from typing import Any, TypeVar

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import (
    Answer,
    Close,
    Deliver,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Received,
    Request,
    Send,
    TimerFired,
    Writable,
)
from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.core.names import AttributeValue
from resprout.edge.client import ClientMachine, ClientOptions, TellTaken
from resprout.edge.messages import Delivery, Publish, Serving

E = TypeVar("E", bound=Effect)

OFFERED = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
SERVING = Serving("resprout", OFFERED, 1)
ROOM = 1 << 20


class Puppet:
    """The client `c` of the broker `b`; keeps all effects of the last event in `last`."""

    def __init__(self, options: ClientOptions | None = None, *, serving: bool = True, room: int = ROOM) -> None:
        self.machine = ClientMachine("c", 3, "b", options)
        self.last: Sequence[Effect] = self.machine.start(0)
        self.now_us = 0
        if serving:
            self.do(LinkUp("b", "broker", 1, room))
            self.hear(SERVING)

    def do(self, event: Event) -> "Puppet":
        self.last = self.machine.step(event, self.now_us)
        return self

    def ask(self, request: Any, token: int = 0) -> "Puppet":
        return self.do(Request(request, token))

    def ask_together(self, *requests: Any) -> "Puppet":
        """All before one flush."""
        out: list[Effect] = []
        for token, request in enumerate(requests):
            self.machine.ask(request, token, out)
        self.machine.flush(out)
        self.last = out
        return self

    def hear(self, message: Any) -> "Puppet":
        return self.do(Received("b", message))

    def up(self, room: int = ROOM) -> "Puppet":
        return self.do(LinkUp("b", "broker", 1, room))

    def down(self) -> "Puppet":
        return self.do(LinkDown("b", "gone"))

    def writable(self, room: int = ROOM) -> "Puppet":
        return self.do(Writable("b", room))

    def ring(self) -> "Puppet":
        return self.do(TimerFired(TellTaken()))

    # -- what came of it -----------------------------------------------------------------------------------------------

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.last if isinstance(effect, kind)]

    @property
    def sent(self) -> list[Any]:
        assert all(effect.peer == "b" for effect in self.of(Send))
        return [effect.message for effect in self.of(Send)]

    @property
    def published(self) -> list[Bundle]:
        return [message.bundle for message in self.sent if isinstance(message, Publish)]

    @property
    def told(self) -> list[Any]:
        return [answer.body for answer in self.of(Answer)]

    @property
    def delivered(self) -> list[Message]:
        return [message for effect in self.of(Deliver) for message in effect.messages]

    @property
    def closed(self) -> str | None:
        """Why the session was closed."""
        closes = self.of(Close)
        assert len(closes) <= 1 and all(close.peer == "b" for close in closes)
        return closes[0].reason if closes else None


def delivery(
    first: int = 1,
    payloads: Sequence[bytes] = (b"x",),
    *,
    rows: Sequence[dict[str, AttributeValue]] | None = None,
    offsets: tuple[int, ...] | None = None,
    stamp: int = 1,
    metadata_bytes: int = 8,
    count: int | None = None,
    prompt: bool = False,
) -> Delivery:
    bundle = Bundle(
        "p", 2, first, len(payloads) if count is None else count, stamp, "t", ("k",), Guarantee.CAUSAL,
        pack_attributes(rows or [{} for _ in payloads]), pack_payloads(payloads),
    )  # fmt: skip
    return Delivery(bundle, 2, metadata_bytes, offsets, prompt)
