"""A client machine with a hand on every string: events in by short names, effects out by kind."""

from collections.abc import Sequence
from typing import Any, TypeVar

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads
from resprout.core.contract import (
    Answer,
    Close,
    Deliver,
    Effect,
    EndCode,
    Event,
    Heard,
    LinkDown,
    LinkUp,
    Open,
    Received,
    Request,
    Send,
    SetTimer,
    Silent,
    Timer,
    TimerFired,
    Writable,
)
from resprout.core.guarantee import Guarantee
from resprout.core.limits import AttributeValue
from resprout.core.message import Message
from resprout.edge.client.machine import ClientMachine, ClientOptions
from resprout.edge.client.options import TellTaken
from resprout.edge.messages import Attend, Delivery, Extra, Publish, Serving, Successor

E = TypeVar("E", bound=Effect)

OFFERED = (Guarantee.EVENTUAL, Guarantee.FIFO, Guarantee.CAUSAL)
SERVING = Serving("resprout", OFFERED, 1, extras=tuple(Extra))
ROOM = 1 << 20


def successors(*names: str) -> tuple[Successor, ...]:
    return tuple(Successor(name, "") for name in names)


def serving(*names: str, resumed: bool = True) -> Serving:
    return Serving("resprout", OFFERED, 1, successors(*names), resumed, tuple(Extra))


class Puppet:
    """The client `c` of the broker `b`; keeps all effects of the last event in `last`."""

    def __init__(
        self, options: ClientOptions | None = None, *, serving: Serving | None = SERVING, room: int = ROOM
    ) -> None:
        self.machine = ClientMachine("c", 3, "b", options)
        self.last: Sequence[Effect] = self.machine.start(0)
        self.now_us = 0
        if serving is not None:
            self.up(room=room)
            self.hear(serving)

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

    def hear(self, message: Any, peer: str = "b") -> "Puppet":
        return self.do(Received(peer, message))

    def up(self, peer: str = "b", room: int = ROOM) -> "Puppet":
        return self.do(LinkUp(peer, "broker", 1, room))

    def down(self, peer: str = "b", reason: str = "gone", code: EndCode = EndCode.NONE) -> "Puppet":
        return self.do(LinkDown(peer, reason, code=code))

    def silent(self, peer: str = "b", *, refused: bool = False) -> "Puppet":
        return self.do(Silent(peer, refused))

    def heard(self, peer: str = "b") -> "Puppet":
        return self.do(Heard(peer))

    def writable(self, room: int = ROOM, peer: str = "b") -> "Puppet":
        return self.do(Writable(peer, room))

    def ring(self, timer: Timer | None = None) -> "Puppet":
        return self.do(TimerFired(timer or TellTaken()))

    def again(self, serving: Serving = SERVING, room: int = ROOM) -> "Puppet":
        """The session with the broker is lost, and another one begins; `last` is what followed from being served."""
        self.down()
        assert self.opened == ["b"]
        self.up(room=room)
        return self.hear(serving)

    # -- what came of it -----------------------------------------------------------------------------------------------

    def of(self, kind: type[E]) -> list[E]:
        return [effect for effect in self.last if isinstance(effect, kind)]

    @property
    def sent(self) -> list[Any]:
        """To the broker that serves."""
        assert all(effect.peer == self.machine.broker for effect in self.of(Send))
        return [effect.message for effect in self.of(Send)]

    @property
    def attend(self) -> Attend:
        """What was just said to a broker that is asked to serve, and nothing else was."""
        (effect,) = self.of(Send)
        assert isinstance(effect.message, Attend)
        return effect.message

    @property
    def opened(self) -> list[str]:
        return [effect.peer for effect in self.of(Open)]

    @property
    def left(self) -> list[str]:
        """Whose sessions were closed."""
        return [effect.peer for effect in self.of(Close)]

    @property
    def timers(self) -> dict[Timer, int]:
        """What was set, and in how long."""
        return {effect.timer: effect.at_us - self.now_us for effect in self.of(SetTimer)}

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
    publisher: str = "p",
    tseq: int = -1,
    guarantee: Guarantee = Guarantee.CAUSAL,
) -> Delivery:
    bundle = Bundle(
        publisher, 2, first, len(payloads) if count is None else count, stamp, "t", ("k",), guarantee,
        pack_attributes(rows or [{} for _ in payloads]), pack_payloads(payloads),
    )  # fmt: skip
    return Delivery(bundle, 2, metadata_bytes, offsets, prompt, tseq)
