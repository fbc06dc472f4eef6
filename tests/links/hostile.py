"""A network that loses, delays and doubles connections as an adversary wishes, and then, when told, stops doing so.

What a transport like TCP may do, it does: a connection that breaks loses everything from some point on, in each
direction from another; either end notices late, or after the other has long connected again; whoever is called may be
called twice. What it may not do, it does not: frames on one connection stay whole and in order.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from resprout.core.contract import (
    Arrived,
    CancelTimer,
    Connect,
    Connected,
    Disconnect,
    Disconnected,
    Effect,
    Event,
    Request,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.links.frames import Goodbye
from resprout.links.links import Links
from resprout.links.options import LinkOptions
from tests.links.puppet import Puppet
from tests.network import Alarms

STEPS_TO_HEAL_MAX = 20_000
PATIENCE_US = 10**11
"""Time does not go beyond this: a timer that is set for later never fires."""


class Node:
    def __init__(self, name: str, incarnation: int, options: LinkOptions) -> None:
        self.name = name
        self.incarnation = incarnation
        self.options = options
        self.puppet = Puppet()
        self.links = Links(
            self.puppet, name=name, role="broker", incarnation=incarnation, rng=Random(name), options=options
        )
        self.alive = True


class End:
    """One end of a connection: where events come out."""

    def __init__(self, node: Node, number: int, called: str | None) -> None:
        self.node = node
        self.number = number
        self.called = called
        self.coming: deque[Event] = deque([Connected(number, called)])
        self.broken = False
        """Nothing more is added to `coming`."""
        self.far: End


class Hostile:
    def __init__(self) -> None:
        self._alarms: Alarms[Node] = Alarms()
        self.nodes: dict[str, Node] = {}
        self.lives: list[Node] = []
        self.calls: deque[tuple[Node, str]] = deque()
        self.ends: list[End] = []
        self.goodbyes: list[str] = []
        self._numbers = 0

    # -- lives ------------------------------------------------------------------------------------------------------

    def boot(self, name: str, options: LinkOptions) -> Node:
        """Start a node, or let it crash and start again."""
        before = self.nodes.get(name)
        if before is not None:
            before.alive = False
            self._alarms.cancel_all(before)
            self.calls = deque(call for call in self.calls if call[0] is not before)
            for end in [end for end in self.ends if end.node is before]:
                self._break(end.far, len(end.far.coming))
                self.ends.remove(end)
        node = self.nodes[name] = Node(name, before.incarnation + 1 if before else 1, options)
        self.lives.append(node)
        self._perform(node, node.links.start(self._alarms.now_us))
        return node

    def ask(self, name: str, body: Any) -> None:
        self._hand(self.nodes[name], Request(body))

    # -- the adversary's choices ------------------------------------------------------------------------------------

    def deliver(self, choice: int) -> None:
        """Some events come out at ends where they wait."""
        for number in range(1 + choice // 16 % 4):
            waiting = [end for end in self.ends if end.coming]
            if waiting:
                end = waiting[(choice + number * (choice % 5)) % len(waiting)]
                event = end.coming.popleft()
                if end.broken and not end.coming:
                    self.ends.remove(end)
                self._hand(end.node, event)

    def answer(self, choice: int) -> None:
        """A call is answered, is answered twice, or fails."""
        if self.calls:
            caller, name = self.calls.popleft()
            if choice % 4 == 0 or name not in self.nodes:
                self._hand(caller, Disconnected(0, name, "refused"))
            else:
                for _ in range(2 if choice % 4 == 1 else 1):
                    self._join(caller, self.nodes[name], name)

    def cut(self, choice: int) -> None:
        """A connection breaks; how much still comes through is up to the choice, separately in each direction."""
        if self.ends:
            end = self.ends[choice % len(self.ends)]
            for side, keep in ((end, choice // 7), (end.far, choice // 3)):
                self._break(side, keep % (len(side.coming) + 1))

    def wait(self, choice: int = 0, only_foreground: bool = False) -> bool:
        """Time passes until the next timer of anybody. False when there is none."""
        due = self._alarms.first(
            but=lambda timer, at_us: (only_foreground and timer.background) or at_us >= PATIENCE_US
        )
        if due is None:
            return False
        self._alarms.fire(*due)
        self._hand(due[0], TimerFired(due[1]))
        return True

    def heal(self) -> None:
        """From now on everything works, until nothing is left to do. Housekeeping does not run: nothing may wait for
        it."""
        for _ in range(STEPS_TO_HEAL_MAX):
            if any(end.coming for end in self.ends):
                self.deliver(0)
            elif self.calls:
                self.answer(2)
            elif not self.wait(only_foreground=True):
                return
        raise AssertionError("the network is healed, but does not come to rest")

    # -- mechanics --------------------------------------------------------------------------------------------------

    def _join(self, caller: Node, called: Node, name: str) -> None:
        self._numbers += 2
        near = End(caller, self._numbers, name)
        far = End(called, self._numbers + 1, None)
        near.far, far.far = far, near
        self.ends += [near, far]

    def _break(self, end: End, keep: int) -> None:
        """The end sees `keep` more of what is under way to it, then that the connection is gone."""
        if not end.broken and end in self.ends:
            end.broken = True
            lost: Event | None = None
            while len(end.coming) > keep:
                lost = end.coming.pop()
            if not isinstance(lost, Connected):
                end.coming.append(Disconnected(end.number, None, "cut"))
            elif end.called is not None:
                end.coming.append(Disconnected(0, end.called, "cut"))

    def _hand(self, node: Node, event: Event) -> None:
        if node.alive:
            self._perform(node, node.links.step(event, self._alarms.now_us))

    def _perform(self, node: Node, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit | Disconnect):
                self._on_connection(node, effect)
            elif isinstance(effect, Connect):
                self.calls.append((node, effect.peer))
            elif isinstance(effect, SetTimer):
                self._alarms.set(node, effect.timer, effect.at_us)
            elif isinstance(effect, CancelTimer):
                assert self._alarms.is_set(node, effect.timer), "only a timer that is set is cancelled"
                self._alarms.cancel(node, effect.timer)

    def _on_connection(self, node: Node, effect: Transmit | Disconnect) -> None:
        end = next((end for end in self.ends if end.node is node and end.number == effect.connection), None)
        if end is None:
            return  # it broke, and the node could not know
        if isinstance(effect, Disconnect):
            self._break(end.far, len(end.far.coming))
            self.ends.remove(end)
        else:
            if isinstance(effect.frame, Goodbye):
                self.goodbyes.append(effect.frame.reason)
            if not end.far.broken:
                end.far.coming.append(Arrived(end.far.number, effect.frame))
