"""Trees alone: members whose ways to the root somebody chooses, without sessions, rings or logs."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Outcome, ProtocolMessage, Timer
from resprout.core.guarantee import Guarantee
from resprout_lab.scribe.options import TreeOptions
from resprout_lab.scribe.trees import Trees
from resprout_lab.scribe.trees_messages import AskMissed, BeatDue, JoinOverdue, NotKept, Scribed, TreeGrown

OPTIONS = TreeOptions(beat_us=1, silent_us=3, retry_us=2, join_us=2, report_bytes=1)
MESSAGES_MAX = 10_000
"""Until a net must have come to rest."""


def scribed(position: int, topic: str = "t") -> Scribed:
    bundle = Bundle("p", 1, position, 1, 0, topic, (), Guarantee.TOTAL, b"", pack_payloads([b"x"]))
    return Scribed(bundle, position, 0, position - 1)


class TreeMember:
    """One member, and what it says and wants (`TreeLines`)."""

    def __init__(self, net: "TreeNet", name: str) -> None:
        self.net = net
        self.name = name
        self.trees = Trees(OPTIONS, self)
        self.got: list[int] = []
        self.timers: dict[Timer, None] = {}
        self.told: list[Outcome] = []
        self.has_skipped = False
        self.roots: list[str] = []
        """Who was said to lead."""
        self.waits_us: list[int] = []
        """How long it was to be waited each time."""
        self.trees.begin()

    @property
    def now_us(self) -> int:
        return self.net.now_us

    def next_hop(self, topic: str) -> str | None:
        return self.net.ways.get(self.name)

    def say(self, name: str, message: ProtocolMessage) -> None:
        self.net.said.append((self.name, name, message))
        self.net.on_the_way.append((self.name, name, message))

    push = say

    def rooted(self, topic: str, root: str) -> None:
        self.roots.append(root)

    def ask_root(self, missed: AskMissed) -> None:
        self.net.said.append((self.name, "root", missed))
        self.net.on_the_way.append((self.name, "root", missed))

    def spread_again(self, topic: str, after: int) -> None:
        for position in range(after + 1, len(self.net.log) + 1):
            self.trees.spread(self.net.log[position])

    def spread_upto(self, topic: str) -> None:
        self.net.floors.append(self.trees.floor(topic) or 0)

    def is_sole_root(self, topic: str) -> bool:
        return self.net.is_sole_root

    def deliver(self, scribed: Scribed, source: str | None) -> None:
        if self.trees.places[scribed.bundle.topic].wanted:
            self.got.append(scribed.position)

    def skipped(self, topic: str, position: int) -> None:
        self.has_skipped = True

    def wake(self, timer: Timer, after_us: int) -> None:
        self.timers[timer] = None
        self.waits_us += [after_us] if isinstance(timer, JoinOverdue) else []

    def let_sleep(self, timer: Timer) -> None:
        self.timers.pop(timer, None)

    def tell(self, outcome: Outcome) -> None:
        self.told.append(outcome)

    @property
    def is_confirmed(self) -> bool:
        return TreeGrown("t") in self.told

    @property
    def parent(self) -> str | None:
        place = self.trees.places.get("t")
        return place.parent if place is not None else None


class TreeNet:
    """`ways`: the next one on the way to the root, which is called `root`."""

    def __init__(self, ways: Mapping[str, str]) -> None:
        self.ways = dict(ways)
        self.now_us = 0
        self.said: list[tuple[str, str, Any]] = []
        self.on_the_way: deque[tuple[str, str, Any]] = deque()
        self.members = {name: TreeMember(self, name) for name in ("root", *ways)}
        self.log: dict[int, Scribed] = {}
        self.floors: list[int] = []
        """How far the whole tree has come, each time that its root was told."""
        self.is_sole_root = True
        self.watermark = 0
        self.members["root"].trees.root("t", 0)

    def __getitem__(self, name: str) -> TreeMember:
        return self.members[name]

    def want(self, *names: str, after: int | None = None) -> None:
        for name in names:
            self[name].trees.want("t", after)
        self.settle()

    def publish(self, count: int = 1, settle: bool = True) -> None:
        for _ in range(count):
            position = len(self.log) + 1
            self.log[position] = scribed(position)
            self["root"].trees.spread(self.log[position])
        if settle:
            self.settle()

    def kill(self, name: str) -> None:
        """What it had said, or is on the way to it, is lost; the others notice."""
        del self.members[name]
        self.on_the_way = deque(one for one in self.on_the_way if name not in one[:2])
        for member in self.members.values():
            member.trees.unreachable(name)
        self.settle()

    def settle(self) -> None:
        for _ in range(MESSAGES_MAX):
            if not self.on_the_way:
                return
            source, name, message = self.on_the_way.popleft()
            if name not in self.members:
                continue
            if isinstance(message, AskMissed):
                self._answer(source, message)
            else:
                self[name].trees.hear(source, message)
        raise AssertionError(f"messages without end; the next ones: {list(self.on_the_way)[:4]}")

    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.now_us += 1
            for member in list(self.members.values()):
                for timer in list(member.timers):
                    if isinstance(timer, BeatDue):
                        member.trees.beat_due(timer)
                    elif isinstance(timer, JoinOverdue) and self.now_us % OPTIONS.join_us == 0:
                        member.trees.join_overdue(timer)
            self.settle()

    def _answer(self, source: str, asked: AskMissed) -> None:
        if asked.after < self.watermark:
            self[source].trees.hear("root", NotKept("t", self.watermark))
        for position in range(max(asked.after, self.watermark) + 1, asked.upto + 1):
            self[source].trees.hear("root", self.log[position])

    def messages(self, kind: type, source: str | None = None) -> list[tuple[str, str, Any]]:
        return [one for one in self.said if isinstance(one[2], kind) and source in (None, one[0])]
