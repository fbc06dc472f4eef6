"""The outbox: all that a broker says to other brokers, in order for each of them, within one window for each.

Every message is charged by its `cost`, whoever says it: bundles on their way, totals, the parcels of a repair. One that
costs something leaves while any room is left; without room it waits here, and what is said after it waits behind it. So
what is said to one peer arrives in the order in which it was said, with two exceptions:

- what is `express` (signs of life) has no order with anything and never waits;
- what is said with `pass_by` is free, and waits for nothing that waits here. It tells a peer what the peer may forget,
  and by that makes the room that others wait for: behind them, both sides could wait for ever.

The log is not kept here a second time: whoever has much to send asks for `room` first, and stays behind with a cursor
while there is none.
"""

from collections import deque

from resprout.core.contract import ProtocolMessage, Send
from resprout.stacks.shell.step import Step


class _Lane:
    """To one peer, within one session."""

    __slots__ = ("queue", "room")

    def __init__(self, room: int) -> None:
        self.room = room
        self.queue: deque[ProtocolMessage] = deque()


class Outbox:
    def __init__(self, step: Step) -> None:
        self._step = step
        self._lanes: dict[str, _Lane] = {}

    # -- sessions ------------------------------------------------------------------------------------------------------

    def begin(self, peer: str, room: int) -> None:
        """A session begins. What waited in an earlier one is gone with it."""
        self._lanes[peer] = _Lane(room)

    def end(self, peer: str) -> None:
        self._lanes.pop(peer, None)

    def rename(self, peer: str, name: str) -> None:
        """The session goes on under another name."""
        lane = self._lanes.pop(peer, None)
        if lane is not None:
            self._lanes[name] = lane

    # -- room ----------------------------------------------------------------------------------------------------------

    def room(self, peer: str) -> int:
        """Bytes that may leave now; none while something waits."""
        lane = self._lanes.get(peer)
        return 0 if lane is None or lane.queue else lane.room

    def waiting(self, peer: str) -> int:
        """Messages that wait for room."""
        lane = self._lanes.get(peer)
        return len(lane.queue) if lane is not None else 0

    def writable(self, peer: str, room: int) -> list[ProtocolMessage]:
        """The peer says how much it takes from now on: what waits leaves as far as that goes. Returns what has left."""
        lane = self._lanes.get(peer)
        if lane is None:
            return []
        lane.room = room
        queue, left = lane.queue, []
        while queue and (lane.room > 0 or not queue[0].cost):
            message = queue.popleft()
            lane.room -= message.cost
            left.append(message)
        self._step.out.extend([Send(peer, message) for message in left])
        return left

    # -- what is said --------------------------------------------------------------------------------------------------

    def send(self, peer: str, message: ProtocolMessage) -> int:
        """In order; to nobody when there is no session. Returns the room that is left: at most 0 when whoever has more
        to send should wait."""
        lane = self._lanes.get(peer)
        if lane is None:
            return 0
        cost = message.cost
        if (lane.queue or (cost and lane.room <= 0)) and not message.express:
            lane.queue.append(message)
            return 0
        lane.room -= cost
        self._step.out.append(Send(peer, message))
        return lane.room

    def pass_by(self, peer: str, message: ProtocolMessage) -> None:
        """Behind all that has left, and before whatever waits here."""
        assert not message.cost, "whatever costs something takes its turn"
        if peer in self._lanes:
            self._step.out.append(Send(peer, message))
