"""A tree of brokers that do as little as possible around `Totals`: flood, log, crash and repair.

Every broker gets and keeps everything, so a repair can pool whole logs, and all logs can be compared at the end. What
the real brokers do about interest, safety and acknowledgement plays no part here. Time is virtual; links are FIFO with
a latency that is fixed or drawn per message. A crash cuts each outgoing stream at an arbitrary point.

Its repair stays beside the real one (`stacks/resprout/repair`): it pools whole logs, so whatever is missing or out of
order in the end is the doing of the hand-over of totals, of which tests leave single rules out on purpose; and all logs
can be compared as a whole, which real brokers do not keep.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from resprout.core.bundle import Bundle
from resprout.order.totals.handover import Handover
from resprout.order.totals.merge import Piece
from resprout.order.totals.messages import TotalId
from resprout.order.totals.totals import Totals
from tests.network import Network
from tests.order.totals_node import Flush, Node


class Net(Network):
    """The tree, its links and its faults. `latency(a, b)` is asked for each message."""

    def __init__(
        self,
        parents: dict[str, str | None],
        latency: Callable[[str, str], int],
        rng: random.Random,
        handover: Callable[[Totals], Handover] = Handover,
    ) -> None:
        super().__init__()
        self.latency = latency
        self.rng = rng
        self.handover = handover
        self.known: dict[TotalId, set[TotalId]] = {}
        """What was in the log of its broker when a publication was accepted there, or submitted; of every broker that
        its client said it to, because only what more than one has can have been shown to the client."""
        self.joining: set[str] = set()
        self.published: dict[str, list[Bundle]] = {}
        """All that a client has published, by its name."""
        self._cut: dict[tuple[str, str], int] = {}
        self._repairing: Counter[str] = Counter()
        """In how many unfinished repairs a broker takes part: such a one does not crash, that would be another test."""
        self._grants: Counter[str] = Counter()
        """Members that have not yet got their Grant, by coordinator."""
        self.nodes = {name: Node(self, name, parent) for name, parent in parents.items()}
        for name, parent in parents.items():
            if parent is not None:
                self.nodes[name].position.neighbours[parent] = True
                self.nodes[parent].position.neighbours[name] = True

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.alive]

    # -- time ----------------------------------------------------------------------------------------------------------

    def run(self, pause_after: int | None = None) -> None:
        """Until everything has come to rest, or so many events have happened."""
        while self.events != pause_after and self.pass_on():
            pass

    def send(self, sender: str, receiver: str, message: Any) -> None:
        sent = self.now_us

        def arrive() -> None:
            node = self.nodes[receiver]
            if node.alive and sent < self._cut.get((sender, receiver), self.now_us + 1):
                node.take(sender, message)

        self.carry(sender, receiver, self.latency(sender, receiver), arrive)

    # -- clients -------------------------------------------------------------------------------------------------------

    def place(self, client: str, home: str) -> None:
        self.nodes[home].queues[client] = []
        self.published[client] = []

    def publish(self, bundle: Bundle) -> None:
        """By a client at its broker; one whose broker is dead waits until it is taken over."""
        self.published[bundle.publisher].append(bundle)
        for node in self.alive:
            if bundle.publisher in node.queues:
                node.queues[bundle.publisher].append(bundle)
                node.drain()

    # -- faults --------------------------------------------------------------------------------------------------------

    def crash(self, name: str, delay: int) -> bool:
        """False when this broker is part of a repair or a join just now, or the last one."""
        node = self.nodes[name]
        if (
            not node.alive
            or self._repairing[name]
            or name in self.joining
            or len(self.alive) < 2
            or not node.position.neighbours
        ):
            return False
        node.alive = False
        for other in self.nodes:
            self._cut[name, other] = self.now_us - self.rng.randrange(0, 2 * self.latency(name, other) + 2)
        self.at(self.now_us + delay, lambda: self._declare(name))
        return True

    def _declare(self, name: str) -> None:
        """Everybody dead that hangs together with this one, and with it whatever the same coordinator would repair."""
        if self._repairing[name] or not self._pending(name):
            return
        first = self._piece(name)
        leader = self._leader(first)
        if self.nodes[leader].flush is not None or self._grants[leader]:
            self.at(self.now_us + 5, lambda: self._declare(name))
            return
        pieces = [first]
        for other in self.nodes[leader].position.neighbours:
            if not self.nodes[other].alive and not self._repairing[other] and other not in first:
                piece = self._piece(other)
                if self._leader(piece) == leader and self.rng.random() < 0.5:
                    pieces.append(piece)
        told = [Piece(piece, tuple(n for n in self._around(piece) if n != leader)) for piece in pieces]
        self._repairing.update([leader, *(name for piece in told for name in (*piece.dead, *piece.members))])
        self.nodes[leader].coordinate(told)

    def _pending(self, name: str) -> bool:
        return any(name in node.position.neighbours for node in self.alive)

    def _piece(self, name: str) -> tuple[str, ...]:
        piece, look = [name], [name]
        while look:
            for other in self.nodes[look.pop()].position.neighbours:
                if not self.nodes[other].alive and other not in piece:
                    piece.append(other)
                    look.append(other)
        return tuple(piece)

    def _around(self, piece: Sequence[str]) -> list[str]:
        """Live brokers that still have a link to the piece."""
        return [node.name for node in self.alive if any(name in node.position.neighbours for name in piece)]

    def _leader(self, piece: Sequence[str]) -> str:
        """The parent of the topmost; a live neighbour when that was the root."""
        for name in piece:
            parent = self.nodes[name].position.parent
            if parent is not None and self.nodes[parent].alive:
                return parent
        return self._around(piece)[0]

    def repaired(self, leader: Node, flush: Flush) -> None:
        """Clients of the dead turn to the coordinator and send again all that they ever published."""
        self._grants[leader.name] = len(flush.members)
        self._release(leader.name)
        for name in flush.dead:
            for client in self.nodes[name].queues:
                leader.queues[client] = list(self.published[client])
            self.nodes[name].queues = {}

    def rewired(self, member: str, leader: str) -> None:
        self._repairing[member] -= 1
        self._grants[leader] -= 1
        self._release(leader)

    def _release(self, leader: str) -> None:
        if not self._grants[leader]:
            self._repairing[leader] -= 1

    # -- join ----------------------------------------------------------------------------------------------------------

    def join(self, name: str, parent: str) -> bool:
        node = self.nodes[parent]
        if (
            not node.alive
            or node.busy
            or parent in self.joining
            or self._repairing[parent]
            or not all(node.position.neighbours.values())
        ):
            return False
        self.joining.add(parent)
        newcomer = self.nodes[name] = Node(self, name, None)
        newcomer.busy = True
        node.welcome(name)
        return True
