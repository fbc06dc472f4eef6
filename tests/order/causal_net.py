"""Members of overlapping groups that multicast with compressed clocks and a hold-back queue. Beside each a twin that is
told the whole clock of every message and searches everything it holds; and a judge that knows every causal past."""

from random import Random
from typing import NamedTuple

from resprout_lab.blocks.causal_order import Changes, HoldBack, VectorClock, check_changes

Whole = dict[tuple[str, str], int]


class Multicast(NamedTuple):
    sender: str
    group: str
    changes: Changes
    whole: Whole
    past: frozenset[tuple[str, str, int]]
    """Everything that happened before it."""

    @property
    def name(self) -> tuple[str, str, int]:
        return self.group, self.sender, self.whole[self.group, self.sender]


class Member:
    def __init__(self, name: str, groups: list[str]) -> None:
        self.name = name
        self.groups = groups
        self.clock = VectorClock()
        self.sent_at: dict[str, int] = {}
        """Group -> version of the clock at the last message to it."""
        self.hold: HoldBack[tuple[str, str], Multicast] = HoldBack(self._missing)
        self.twin_clock: Whole = {}
        self.twin_held: list[Multicast] = []
        self.past: set[tuple[str, str, int]] = set()
        self.shown: list[tuple[str, str, int]] = []

    def send(self, group: str) -> Multicast:
        self.clock.tick(group, self.name)
        changes = self.clock.since(self.sent_at.get(group, 0))
        self.sent_at[group] = self.clock.version
        self.twin_clock[group, self.name] = self.twin_clock.get((group, self.name), 0) + 1
        message = Multicast(self.name, group, changes, dict(self.twin_clock), frozenset(self.past))
        self.past.add(message.name)
        self.shown.append(message.name)
        return message

    def receive(self, message: Multicast) -> None:
        check_changes(message.changes)
        assert self.hold.put(message)
        mine: list[tuple[str, str, int]] = []
        while (held := self.hold.take()) is not None:
            if self.clock.at(held.group, held.sender) < held.name[2]:
                self.clock.merge(held.changes)
                self.hold.reached((held.group, held.sender), held.name[2])
                mine.append(held.name)
                assert all(name in self.past for name in held.past if name[0] in self.groups), "before its causes"
                self.past |= {*held.past, held.name}
        self.twin_held.append(message)
        assert sorted(mine) == sorted(self._twin_delivers()), "the twin delivers something else"
        assert {(c, r): n for c, r, n in self.clock} == self.twin_clock
        self.shown += mine

    def _missing(self, message: Multicast) -> tuple[tuple[str, str], int] | None:
        own = (message.group, message.sender)
        return self.clock.missing(message.changes, own, lambda column, row: column in self.groups)

    def _twin_delivers(self) -> list[tuple[str, str, int]]:
        delivered: list[tuple[str, str, int]] = []
        found = True
        while found:
            found = False
            for message in list(self.twin_held):
                if self._twin_may(message):
                    self.twin_held.remove(message)
                    if self.twin_clock.get((message.group, message.sender), 0) < message.name[2]:
                        for key, number in message.whole.items():
                            self.twin_clock[key] = max(number, self.twin_clock.get(key, 0))
                        delivered.append(message.name)
                    found = True
        return delivered

    def _twin_may(self, message: Multicast) -> bool:
        own = (message.group, message.sender)
        return all(
            self.twin_clock.get(key, 0) >= number - (key == own)
            for key, number in message.whole.items()
            if key[0] in self.groups
        )


class CausalNet:
    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        groups = [f"G{number}" for number in range(rng.randint(1, 4))]
        self.members = [
            Member(f"m{number}", [group for group in groups if rng.random() < 0.7] or groups[:1])
            for number in range(rng.randint(2, 6))
        ]
        self.on_way: list[tuple[Member, Multicast]] = []
        self.sent: list[Multicast] = []
        self.delivered = self.entries_sent = self.entries_whole = 0

    def run(self, steps: int = 400) -> None:
        rng = self.rng
        for step in range(steps):
            if step < steps // 4 and (rng.random() < 0.4 or not self.on_way):
                self._multicast(rng.choice(self.members))
            elif self.on_way:
                self._arrive(rng.randrange(len(self.on_way)))
        while self.on_way:
            self._arrive(rng.randrange(len(self.on_way)))
        for member in self.members:
            owed = {message.name for message in self.sent if message.group in member.groups}
            assert sorted(member.shown) == sorted(owed), "everything once"
            assert len(member.hold) == 0
            self.delivered += len(member.shown)

    def _multicast(self, sender: Member) -> None:
        message = sender.send(self.rng.choice(sender.groups))
        self.sent.append(message)
        self.entries_sent += sum(len(rows) for _, rows in message.changes)
        self.entries_whole += len(message.whole)
        for member in self.members:
            if member is not sender and message.group in member.groups:
                copies = 2 if self.rng.random() < 0.1 else 1
                self.on_way += [(member, message)] * copies

    def _arrive(self, place: int) -> None:
        member, message = self.on_way.pop(place)
        member.receive(message)
