"""Bundles that a broker keeps while somebody needs them, and back-pressure on whoever brings more than can be kept.

`KeptItem` is a bundle at one broker, as sessions of clients use it (`HeldBundle` in `edge.broker.ports`). Some stacks
derive from it.

`Retention` is what sessions ask of a stack (`RetentionPort`, in the same file). It charges each item to the *source*
that brought it, a neighbour or a client, while somebody needs it: a reader that has not taken it, a link without room,
or, in a stack that keeps what others may lack, everybody behind a link. This cannot deadlock in a tree: what is charged
to a neighbour waits only for brokers on the other side.

`Passing` passes items on to neighbours. What finds no room waits in the outbox, and is kept until it leaves. So whoever
brings more than the links take is held back, and no link needs a bound of its own.
"""

from collections import deque

from resprout.core.bundle import Bundle
from resprout.core.contract import Effect, ProtocolMessage
from resprout.edge.broker.ports import Picks
from resprout.edge.broker.quotas import BackPressure
from resprout.edge.broker.session import ClientSession
from resprout.stacks.peers import Outbox


class KeptItem:
    __slots__ = (
        "awaits", "bundle", "client", "first", "hops", "last", "needed", "no", "picks", "position", "prompt", "readers",
        "shown", "source", "stream", "tseq",
    )  # fmt: skip

    def __init__(self, bundle: Bundle, hops: int, source: str | None, prompt: bool, tseq: int = -1) -> None:
        self.bundle = bundle
        self.stream = bundle.stream
        self.first = bundle.first
        self.last = bundle.last
        self.position = 0
        """In the order of its topic, in a stack where each has one of its own."""
        self.no = 0
        """Its place in this broker's order."""
        self.hops = hops
        self.source = source
        """The neighbour or client that it came from; None where nobody asks for clients."""
        self.prompt = prompt
        self.awaits = 0
        self.tseq = tseq
        """Of a total: its place in the one order of totals."""
        self.client: ClientSession | None = None
        """Of its publisher, if that is served here."""
        self.readers: tuple[ClientSession, ...] = ()
        self.picks: Picks | None = None
        self.shown = False
        self.needed = 0
        """How many here are not through with it: readers, and whoever else the stack counts."""

    @property
    def place(self) -> int:
        return self.tseq

    @property
    def undone(self) -> int:
        return self.needed


class Retention:
    def __init__(self, most: int) -> None:
        """`most`: messages of one source that may be kept before it is held back."""
        self._most = most
        self._pressure = BackPressure(most, lambda source: self._kept.get(source, 0))
        self._kept: dict[str, int] = {}
        """By source: messages of it that somebody needs."""
        self._over: dict[str, None] = {}
        """Sources of which too much was kept since the last step."""
        self._places = 0

    def place(self, item: KeptItem) -> None:
        """The next one in this broker's order."""
        self._places += 1
        item.no = self._places

    def keep(self, item: KeptItem) -> None:
        """One more needs it."""
        item.needed += 1
        if item.needed == 1:
            self.charge(item.source, item.bundle.count)

    def let_go(self, item: KeptItem) -> None:
        """One of them needs it no more."""
        item.needed -= 1
        if item.needed == 0:
            self.charge(item.source, -item.bundle.count)

    def move(self, item: KeptItem, source: str | None) -> None:
        """Somebody else stands for it from now on."""
        if item.needed:
            self.charge(item.source, -item.bundle.count)
            self.charge(source, item.bundle.count)
        item.source = source

    def charge(self, source: str | None, messages: int) -> None:
        """To a source that brought so many more, or of which so many less are needed."""
        if source is None:
            return
        kept = self._kept[source] = self._kept.get(source, 0) + messages
        if kept > self._most:
            self._over[source] = None
        elif not kept:
            del self._kept[source]

    def forget(self, source: str) -> None:
        """Its session is over. What it brought is still kept, and counts against its next one."""
        self._over.pop(source, None)
        if self._pressure.holding:
            self._pressure.forget(source)

    def push_back(self, out: list[Effect]) -> None:
        """At the end of a step: hold back who brought too much, release who did not."""
        if self._over:
            for source in self._over:
                self._pressure.check(source, self._kept.get(source, 0), out)
            self._over.clear()
        if self._pressure.holding:
            self._pressure.release(out)

    # -- what sessions of clients ask (`RetentionPort`) ----------------------------------------------------------------

    @property
    def next_no(self) -> int:
        return self._places + 1

    @property
    def first_held_back(self) -> int | None:
        return None

    def show(self, item: KeptItem) -> None:
        item.shown = True

    def add_reader(self, item: KeptItem, session: ClientSession) -> None:
        self.keep(item)
        if not item.shown:
            item.readers = (*item.readers, session)

    def took(self, item: KeptItem) -> bool:
        self.let_go(item)
        return False


class Passing:
    def __init__(self, outbox: Outbox, kept: Retention) -> None:
        self._outbox = outbox
        self._kept = kept
        self._waiting: dict[str, deque[KeptItem]] = {}
        """By neighbour: what waits for room there."""

    def pass_on(self, name: str, item: KeptItem, message: ProtocolMessage) -> None:
        """`message` carries the item, at a cost; nothing else that costs something may be said to neighbours."""
        self._outbox.send(name, message)
        if self._outbox.waiting(name):
            self._waiting.setdefault(name, deque()).append(item)
            self._kept.keep(item)

    def writable(self, name: str, room: int) -> None:
        for message in self._outbox.writable(name, room):
            if message.cost:
                self._kept.let_go(self._waiting[name].popleft())

    def end(self, name: str) -> None:
        """The session is over, and what waited for it lost."""
        for item in self._waiting.pop(name, ()):
            self._kept.let_go(item)
        self._kept.forget(name)
