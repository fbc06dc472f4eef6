"""Virtual connections: made by a handshake, first in first out in each direction, lost by crashes and cuts.

A frame takes the latency of its connection; where the sender's bandwidth is limited, frames of all its connections
leave one after the other. Frames are handed over as objects: whoever sent one must not change it afterwards.

Not modelled: loss of single frames, reordering, and congestion inside the network. A transport above the level of
packets does not show them.

`Distances` tells how far it is from one node to another: along the tree that the scenario describes, or where there is
none, from one node to the middle of the network and from there to the other.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from resprout.core.contract import Arrived, Connect, Connected, Disconnect, Disconnected, Event, Transmit
from resprout.core.errors import UsageError
from resprout.links.frames import Data, Express, Goodbye, Hello, Parted, SessionWelcome
from resprout.scenario.topologies import Cuts
from resprout.sim.nodes import Action, Calendar, End, Node, NodeLoad, Process

SPARE_US: Final = 1_000
"""What those who wait for the furthest node of a tree add: an answer needs a moment, too."""

CONNECT_TIMEOUT_US: Final = 1_000_000
"""After this long a host that says nothing counts as unreachable."""

RESOLVE_US: Final = 1_000
"""To find out that there is nobody of that name."""

Weigh = Callable[[Any, NodeLoad], int]
"""How many bytes a frame takes; the load of whoever sends it counts them."""
Hand = Callable[[Process, Event], None]


class Distances:
    """One-way latencies. Every node but a root hangs on another one; any other pair talks along the tree. From one root
    to another it is as far as both are from the middle."""

    def __init__(self) -> None:
        self._up: dict[str, tuple[str | None, int]] = {}
        self._known: dict[tuple[str, str], int] = {}

    def place(self, name: str, toward: str | None, latency_us: int = 0) -> None:
        """Hang a node on another, which may be placed later; None makes it a root, so far from the middle. Placing it
        again moves it."""
        if latency_us < 0:
            raise UsageError(f"the latency of {name} is negative")
        self._up[name] = (toward, latency_us)
        self._known.clear()

    def __contains__(self, name: str) -> bool:
        return name in self._up

    @property
    def reach_us(self) -> int:
        """No two nodes are further apart than this."""
        roots = sum(toward is None for toward, _ in self._up.values())
        ways = [self._way_up(name) for name in self._up]
        if roots > 1:
            return 2 * max(middle_us for _, middle_us in ways)
        return 2 * max((max(way.values()) for way, _ in ways), default=0) + SPARE_US

    def between(self, one: str, other: str) -> int:
        """Microseconds one way; the same in both directions."""
        pair = (one, other)
        latency_us = self._known.get(pair)
        if latency_us is None:
            latency_us = self._known[pair] = self._known[other, one] = self._measure(one, other)
        return latency_us

    def _measure(self, one: str, other: str) -> int:
        ours, our_middle_us = self._way_up(one)
        theirs, their_middle_us = self._way_up(other)
        for place, far_us in theirs.items():
            if place in ours:
                return ours[place] + far_us
        return our_middle_us + their_middle_us

    def _way_up(self, name: str) -> tuple[dict[str, int], int]:
        """The node and everything above it, with the distance to each, and that to the middle."""
        way: dict[str, int] = {}
        at: str | None = name
        far_us = 0
        while at is not None and at not in way:
            way[at] = far_us
            at, latency_us = self._up.get(at, (None, 0))
            far_us += latency_us
        return way, far_us


def is_background(frame: Any) -> bool:
    """Whether a frame that housekeeping has caused is itself housekeeping: a heartbeat, a sign of life, or a greeting,
    which is worth waiting for only when data follows."""
    if isinstance(frame, Data | Express):
        return all(message.background for message in frame.messages)
    return isinstance(frame, Hello | SessionWelcome | Goodbye | Parted | SignOfLifeBytes)


def is_sign_of_life(frame: Any) -> bool:
    """Whether a frame is housekeeping whatever has caused it."""
    if type(frame) is not Data and type(frame) is not Express:
        return False
    messages = frame.messages
    return bool(messages) and messages[-1].background and all(message.background for message in messages)


class SignOfLifeBytes(bytes):
    """A frame of another protocol that is housekeeping where housekeeping has caused it."""


class Network:
    def __init__(
        self,
        calendar: Calendar,
        nodes: Mapping[str, Node],
        distances: Distances,
        hand: Hand,
        arrive: Action,
        weigh: Weigh | None = None,
        is_background: Callable[[Any], bool] = is_background,
    ) -> None:
        self.cuts = Cuts()
        self.unresolved: set[str] = set()
        """Nodes to which nobody can open a connection, because their names do not resolve."""
        self.distances = distances
        self._calendar = calendar
        self._nodes = nodes
        self._hand = hand
        self._arrive = arrive
        self._weigh = weigh
        self._is_background = is_background
        self._connections = 0

    # -- what machines want -----------------------------------------------------------------------------------------

    def connect(self, process: Process, effect: Connect) -> None:
        calendar = self._calendar
        enter = calendar.at_idly if calendar.quiet else calendar.at
        target = process.node.book.get(effect.peer, effect.peer)
        if target in self.unresolved:
            enter(
                calendar.now_us + RESOLVE_US, self._failed, process, (effect.peer, "the name does not resolve", False)
            )
        elif target not in self._nodes or target == process.name:
            enter(calendar.now_us + RESOLVE_US, self._failed, process, (effect.peer, "unknown peer", False))
        else:
            latency_us = self.distances.between(process.name, target)
            enter(calendar.now_us + latency_us, self._knock, process, (effect.peer, target, latency_us))

    def transmit(self, process: Process, effect: Transmit) -> None:
        """The general case; `World.perform` does the common one itself."""
        end = process.ends.get(effect.connection)
        if end is None:
            return  # it broke before the machine could know
        calendar = self._calendar
        leaves_us = calendar.now_us
        node = process.node
        node.load.sent(effect.frame)
        if node.is_weighed and not end.is_free:
            if self._weigh is None:
                raise UsageError(f"the bytes of {node.name} are to be counted, but the driver has no codec")
            size = self._weigh(effect.frame, node.load)
            if node.bandwidth_bps is not None:
                takes_us = -(-size * 8_000_000 // node.bandwidth_bps)
                leaves_us = max(leaves_us, node.busy_until_us) + takes_us
                node.busy_until_us = leaves_us
                node.load.busy_us += takes_us
        idly = self._is_background(effect.frame) if calendar.quiet else is_sign_of_life(effect.frame)
        enter = calendar.at_idly if idly else calendar.at
        enter(leaves_us + end.latency_us, self._arrive, end.far, effect.frame)

    def disconnect(self, process: Process, effect: Disconnect) -> None:
        end = process.ends.pop(effect.connection, None)
        if end is not None:
            end.open = False
            calendar = self._calendar
            leaves_us = calendar.now_us
            if process.node.bandwidth_bps is not None and not end.is_free:
                leaves_us = max(leaves_us, process.node.busy_until_us)
            enter = calendar.at_idly if calendar.quiet else calendar.at
            enter(leaves_us + end.latency_us, self._lost, end.far, effect.reason)

    # -- what happens on the way ------------------------------------------------------------------------------------

    def _knock(self, opener: Process, wish: tuple[str, str, int]) -> None:
        """The request to connect reaches the host of the peer."""
        if opener.dead:
            return
        peer, target, latency_us = wish
        calendar = self._calendar
        node = self._nodes[target]
        enter = calendar.at_idly if calendar.quiet else calendar.at
        if not node.host_up:
            patience_us = max(CONNECT_TIMEOUT_US - latency_us, latency_us)
            enter(calendar.now_us + patience_us, self._failed, opener, (peer, "timed out", False))
        elif self.cuts.between(opener.node.place, node.place):
            enter(calendar.now_us + latency_us, self._failed, opener, (peer, "unreachable", False))
        elif node.process is None:
            enter(calendar.now_us + latency_us, self._failed, opener, (peer, "refused", True))
        else:
            near, far = self._join_ends(opener, node.process, peer, latency_us)
            enter(calendar.now_us + latency_us, self._established, near, None)
            self._established(far, None)

    def _join_ends(self, opener: Process, other: Process, peer: str, latency_us: int) -> tuple[End, End]:
        self._connections += 1
        near = End(opener, self._connections, latency_us, peer)
        far = End(other, self._connections, latency_us, None)
        near.far = far
        far.far = near
        near.is_free = far.is_free = opener.node.is_free or other.node.is_free
        opener.ends[near.number] = near
        other.ends[far.number] = far
        return near, far

    def _established(self, end: End, _: None) -> None:
        process = end.process
        if process.step is None:
            process.put_off(self._established, end, None)
        elif end.open:
            end.established = True
            self._hand(process, Connected(end.number, end.peer))

    def _failed(self, process: Process, answer: tuple[str, str, bool]) -> None:
        if process.step is None:
            process.put_off(self._failed, process, answer)
        else:
            self._hand(process, Disconnected(0, *answer))

    def _lost(self, end: End, reason: str) -> None:
        """An end learns that its connection is gone."""
        end.open = False
        process = end.process
        if process.step is None:
            process.put_off(self._lost, end, reason)
        elif process.ends.pop(end.number, None) is not None:
            if end.established:
                self._hand(process, Disconnected(end.number, end.peer, reason))
            elif end.peer is not None:
                self._hand(process, Disconnected(0, end.peer, reason))

    def arrive_late(self, end: End, frame: Any) -> None:
        """A frame came to a process that does not run, or on a connection that its process has closed."""
        process = end.process
        if not process.dead:
            if end.open:
                process.put_off(self._take, end, frame)
        elif process.node.host_up:  # a host that is up answers what belongs to no process
            self._calendar.at(self._calendar.now_us + end.latency_us, self._lost, end.far, "reset")

    def _take(self, end: End, frame: Any) -> None:
        if end.process.ends.get(end.number) is end:
            end.process.load.frames_received += 1
            self._hand(end.process, Arrived(end.number, frame))

    def close_all(self, process: Process, reason: str) -> None:
        """In good order: what was transmitted arrives first."""
        for connection in list(process.ends):
            self.disconnect(process, Disconnect(connection, reason))

    # -- what faults do ---------------------------------------------------------------------------------------------

    def abandon(self, process: Process, chance: Random, silently: bool) -> None:
        """The process is gone. Of what it had sent on each connection, a prefix drawn by chance still arrives."""
        calendar = self._calendar
        ends = list(process.ends.values())
        flying = {id(end.far): 0 for end in ends}

        def count(action: Action, first: Any, _: Any) -> bool:
            if action == self._arrive and id(first) in flying:
                flying[id(first)] += 1
            return False

        def beyond(action: Action, first: Any, _: Any) -> bool:
            if action != self._arrive or id(first) not in flying:
                return False
            flying[id(first)] -= 1
            return flying[id(first)] < 0

        calendar.erase(count)
        for end in ends:
            end.open = False
            flying[id(end.far)] = chance.randint(0, flying[id(end.far)])
            if not silently:
                calendar.at(calendar.now_us + end.latency_us, self._lost, end.far, "reset")
        calendar.erase(beyond)
        process.ends.clear()

    def sever(self) -> None:
        """Break every connection across a cut. What is on the way is lost, and both ends learn it after the latency."""
        calendar = self._calendar
        for node in self._nodes.values():
            if node.process is None:
                continue
            for end in node.process.ends.values():
                if end.open and self.cuts.between(node.place, end.far.process.node.place):
                    end.open = False
                    calendar.at(calendar.now_us + end.latency_us, self._lost, end, "cut")
