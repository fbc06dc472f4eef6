"""A cut in an emulated network: lets nothing pass between a node and the peers that it is barred from.

Stands between a node's machine and its driver, as a machine of its own. Connections with a barred peer break at once
and what still comes on them is dropped; attempts to connect fail, in both directions. Peers are known by
the name in their `Hello`. One barrier makes a cut: the far end sees its connection close, and gets no other.
"""

from collections.abc import Collection, Sequence

from resprout.core.contract import (
    Arrived,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Machine,
)
from resprout.links.frames import Hello

_CUT = "cut"
_UNREACHABLE = "unreachable"


class Barrier:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._barred: frozenset[str] = frozenset()
        self._peers: dict[int, str] = {}
        """Who is at the other end of each connection, as far as that is known."""
        self._severed: set[int] = set()
        """Connections that the machine has lost already, and the driver has yet to close."""

    def start(self, now_us: int) -> Sequence[Effect]:
        return self._screened(self._machine.start(now_us), now_us)

    def step(self, event: Event, now_us: int) -> Sequence[Effect]:
        if type(event) is Arrived:
            number = event.connection
            if number in self._severed:
                return []
            if number not in self._peers and type(event.frame) is Hello:
                self._peers[number] = event.frame.name
                if event.frame.name in self._barred:
                    return self._sever(number, None, now_us)
        elif type(event) is Connected:
            if event.peer is not None:
                self._peers[event.connection] = event.peer
                if event.peer in self._barred:
                    return self._sever(event.connection, event.peer, now_us)
        elif type(event) is Disconnected:
            self._peers.pop(event.connection, None)
            if event.connection in self._severed:
                self._severed.discard(event.connection)
                return []
        return self._screened(self._machine.step(event, now_us), now_us)

    def bar(self, peers: Collection[str], now_us: int) -> Sequence[Effect]:
        """From now on these peers, and no others, cannot be reached."""
        self._barred = frozenset(peers)
        effects: list[Effect] = []
        for number, peer in list(self._peers.items()):
            if peer in self._barred and number not in self._severed:
                self._severed.add(number)
                effects.append(Disconnect(number, _CUT))
                lost = self._machine.step(Disconnected(number, peer, _CUT), now_us)
                effects += self._screened(lost, now_us)
        return effects

    def _sever(self, number: int, wanted: str | None, now_us: int) -> Sequence[Effect]:
        """A connection that came about across the cut; to who asked for it, it never did."""
        self._severed.add(number)
        gone = Disconnected(number if wanted is None else 0, wanted, _UNREACHABLE)
        return [Disconnect(number, _CUT), *self._screened(self._machine.step(gone, now_us), now_us)]

    def _screened(self, effects: Sequence[Effect], now_us: int) -> Sequence[Effect]:
        if not self._barred:
            return effects
        passed: list[Effect] = []
        for effect in effects:
            if type(effect) is Connect and effect.peer in self._barred:
                failed = Disconnected(0, effect.peer, _UNREACHABLE)
                passed += self._screened(self._machine.step(failed, now_us), now_us)
            else:
                passed.append(effect)
        return passed
