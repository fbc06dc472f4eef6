"""What the session layer costs: a message through a pair of `Links`, next to the same stack called directly."""

from collections.abc import Sequence
from random import Random

from benchmarks.measure import Measure, interleaved
from resprout.core.contract import (
    Arrived,
    Connected,
    Effect,
    Event,
    LinkUp,
    Machine,
    Open,
    ProtocolMessage,
    Received,
    Request,
    Send,
    Transmit,
)
from resprout.links.links import Links


class Parcel(ProtocolMessage, frozen=True, tag=250):
    number: int

    @property
    def cost(self) -> int:
        return 100


class Flooder:
    """Passes what it is given to every neighbour but the one it came from: the least that a broker does."""

    def __init__(self, opens: Sequence[str] = ()) -> None:
        self._opens = opens
        self._peers: list[str] = []

    def start(self, now_us: int) -> list[Effect]:
        return [Open(peer) for peer in self._opens]

    def step(self, event: Event, now_us: int) -> list[Effect]:
        if type(event) is Received:
            message, source = event.message, event.peer
            return [Send(peer, message) for peer in self._peers if peer != source]
        if type(event) is LinkUp:
            self._peers.append(event.peer)
        elif type(event) is Request:
            return [Send(peer, event.body) for peer in self._peers]
        return []


class Line:
    """Nodes in a row, b0 - b1 - ..., with frames handed over at once: what enters at one end comes out at the other."""

    def __init__(self, length: int) -> None:
        self.nodes: list[Machine] = []
        self._ends: dict[tuple[int, int], tuple[int, int]] = {}
        for at in range(length):
            stack = Flooder([f"b{at - 1}"] if at else [])
            node = Links(stack, name=f"b{at}", role="broker", incarnation=1, rng=Random(at))
            self.nodes.append(node)
            node.start(0)
            if at:  # a node calls its own end 1 when it opened the connection, 2 when it was opened
                self._ends[at, 1], self._ends[at - 1, 2] = (at - 1, 2), (at, 1)
                self.nodes[at - 1].step(Connected(2, None), 0)
                self._carry(at, node.step(Connected(1, f"b{at - 1}"), 0))

    def push(self, count: int) -> int:
        """Send messages in at the first node; the number of times one crossed a link."""
        for number in range(count):
            self._carry(0, self.nodes[0].step(Request(Parcel(number)), 0))
        return count * (len(self.nodes) - 1)

    def _carry(self, at: int, effects: Sequence[Effect]) -> None:
        under_way = [(at, effect) for effect in effects]
        for at, effect in under_way:
            if type(effect) is Transmit:
                target, connection = self._ends[at, effect.connection]
                for answer in self.nodes[target].step(Arrived(connection, effect.frame), 0):
                    under_way.append((target, answer))  # noqa: PERF401  # it is the list that is being walked


class BareLine:
    """The same stacks without sessions: a `Send` is handed to the neighbour as `Received`."""

    def __init__(self, length: int) -> None:
        self.nodes = [Flooder() for _ in range(length)]
        for at, node in enumerate(self.nodes):
            for beside in (at - 1, at + 1):
                if 0 <= beside < length:
                    node.step(LinkUp(f"b{beside}", "broker", 1, 1 << 20), 0)
        self._names = {f"b{at}": at for at in range(length)}

    def push(self, count: int) -> int:
        for number in range(count):
            under_way = [(0, effect) for effect in self.nodes[0].step(Request(Parcel(number)), 0)]
            for at, effect in under_way:
                if type(effect) is Send:
                    target = self._names[effect.peer]
                    for answer in self.nodes[target].step(Received(f"b{at}", effect.message), 0):
                        under_way.append((target, answer))  # noqa: PERF401
        return count * (len(self.nodes) - 1)


def run(quick: bool = False) -> list[Measure]:
    count = 2_000 if quick else 10_000
    line, bare = Line(8), BareLine(8)
    links, direct = interleaved(3 if quick else 9, lambda: line.push(count), lambda: bare.push(count))
    return [
        Measure(
            "links: messages over sessions",
            links,
            "messages/s",
            "the same stacks called directly",
            direct,
            "well under 2 microseconds each, so that a simulation reaches 150,000 deliveries/s",
        )
    ]


if __name__ == "__main__":
    for measure in run():
        print(f"{measure.name}: {measure.value:,.0f} {measure.unit}, {measure.ratio:.2f} of {measure.yardstick}")
        print(f"  {1e9 / measure.value:,.0f} ns each, of which {1e9 / measure.yardstick_value:,.0f} are not the links'")
