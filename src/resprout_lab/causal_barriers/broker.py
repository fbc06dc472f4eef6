"""One broker of causal barriers: that of any causal multicast, with its order, and with a list of all members.

News of members waits a moment for more of it: when a network begins, everybody comes at once, and each one would be
told to all others by itself.

The order at one member goes by direct dependencies in place of clocks. The paper's process i keeps a set CB[j] for each
process j: the messages that must be delivered at j before whatever i sends it next, and of these only the direct ones.
What another of them depends on is left out, since j delivers that first anyway. Here every member is a target of every
message, so the sets of all targets are equal: one is kept (`_direct`), and is written out for each target when a
message is made.

*To multicast* m, number n of this member: with m goes CB as it is; then CB = {(i, n)} for all targets. Whatever comes
next depends on m, and by that on all that m waits for.

*Arrival* of m: it waits until everything in its CB for this member is delivered here, and the messages of its sender
before it.

*Delivered*, m of the sender k with the number x: CB = (CB - CB of m) + {(k, x)}.

CB is at any time the messages here that nothing else here depends on. So the paper's matrix `Delivered` would remove
nothing from it but what it knows of targets about themselves: that another has delivered a message is known by one that
depends on it. The row for this member is the clock of `MulticastOrder`.

The header of a publication says for each target what must be delivered there before, as the paper has it. A header is
made once, by the sender, and never changed. In a simulator one object serves all brokers, and so does each row in it:
where all targets wait for the same, they share one tuple. Whatever is asked of a header, its length above all, is found
once for each distinct row and kept, because 511 targets times 511 dependencies are too many to look at for every broker
again.
"""

import random
from collections.abc import Iterable
from functools import cached_property
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.bundle import Bundle
from resprout.core.contract import ProtocolMessage, SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout.wire.sizes import array_bytes, number_bytes, text_bytes
from resprout_lab.blocks.causal_order import COUNT_MAX, Changes
from resprout_lab.blocks.multicast.broker import MulticastBroker, MulticastOptions, member_of
from resprout_lab.blocks.multicast.messages import MulticastMessage
from resprout_lab.blocks.multicast.order import Arrival, ClockEntry, HeaderSizeError, MulticastOrder

Barrier = tuple[tuple[str, int], ...]
"""(member, number) of messages that must be delivered before, by name."""

HEADER_BYTES_MAX: Final = limits.FRAME_BYTES - limits.BUNDLE_BYTES - (1 << 16)
"""As encoded, so that a frame has room for it beside the largest bundle with its topic and keys."""
PAPER_TARGET_BYTES: Final = 8
PAPER_DEPENDENCY_BYTES: Final = 8


class Barriers(msgspec.Struct, frozen=True, array_like=True, dict=True):
    rows: tuple[tuple[str, Barrier], ...]
    """(target, its barrier), by name."""

    @classmethod
    def of(cls, targets: Iterable[str], barrier: Barrier) -> "Barriers":
        """All targets wait for the same."""
        return cls(tuple([(target, barrier) for target in targets]))

    def of_target(self, member: str) -> Barrier:
        """What it waits for. Whoever is not named, because the sender did not know of it yet, waits for all that
        anybody does."""
        barrier = self._by_target.get(member)
        return self._whole if barrier is None else barrier

    @property
    def is_sound(self) -> bool:
        """Whether an honest peer may have sent it: there are targets, and numbers that can be."""
        return bool(self.rows) and self._numbers_are_sound

    @cached_property
    def paper_bytes(self) -> int:
        """|Targets| * 8, and 8 for each dependency of each of them."""
        dependencies = sum(len(barrier) for _, barrier in self.rows)
        return PAPER_TARGET_BYTES * len(self.rows) + PAPER_DEPENDENCY_BYTES * dependencies

    @cached_property
    def encoded_bytes(self) -> int:
        """On a connection, to the byte: `wire.sizes` asks for it and believes it, and compares now and then."""
        sizes = {id(barrier): _barrier_bytes(barrier) for barrier in self._distinct}
        names = sum(text_bytes(target) for target, _ in self.rows)
        return 1 + array_bytes(len(self.rows)) + sum(sizes[id(barrier)] + 1 for _, barrier in self.rows) + names

    @cached_property
    def _distinct(self) -> list[Barrier]:
        """The same object once; equal ones may be there several times."""
        return list({id(barrier): barrier for _, barrier in self.rows}.values())

    @cached_property
    def _by_target(self) -> dict[str, Barrier]:
        return dict(self.rows)

    @cached_property
    def _whole(self) -> Barrier:
        if len(self._distinct) == 1:
            return self._distinct[0]
        whole: dict[str, int] = {}
        for barrier in self._distinct:
            for member, number in barrier:
                whole[member] = max(number, whole.get(member, 0))
        return tuple(sorted(whole.items()))

    @cached_property
    def _numbers_are_sound(self) -> bool:
        return all(0 < number <= COUNT_MAX for barrier in self._distinct for _, number in barrier)


def _barrier_bytes(barrier: Barrier) -> int:
    return array_bytes(len(barrier)) + sum(1 + text_bytes(member) + number_bytes(number) for member, number in barrier)


EVERYBODY: Final = "#"
"""The one group: a member numbers all that it multicasts, whatever the topic."""
MEMBERS_PER_MESSAGE: Final = 4096
"""With the longest names some 300 KB."""
_MEMBER_BYTES: Final = 16


class BarrierMulticast(MulticastMessage, frozen=True, tag=190):
    """A publication to all targets that its header names, and to whoever has come meanwhile."""

    number: int
    """Among all that its sender multicasts."""
    barriers: Barriers

    @property
    def cost(self) -> int:
        return self.bundle.cost + self.barriers.encoded_bytes

    @property
    def paper_bytes(self) -> int:
        return self.barriers.paper_bytes

    @property
    def group(self) -> str:
        return EVERYBODY

    def checked_number(self) -> int:
        if not 0 < self.number <= COUNT_MAX or not self.barriers.is_sound:
            raise PeerError(f"{self.bundle!r} has numbers that cannot be")
        return self.number


class MembersKnown(ProtocolMessage, frozen=True, tag=191):
    """These brokers, in these lives, are in the network: targets from now on. Passed on to those who may not know."""

    members: tuple[tuple[str, int], ...]

    @property
    def bulk(self) -> int:
        return sum(len(name) + _MEMBER_BYTES for name, _ in self.members)


class DirectOrder(MulticastOrder[BarrierMulticast]):
    def __init__(self, member: str, held_max: int) -> None:
        super().__init__(member, held_max)
        self.targets: tuple[str, ...] = (member,)
        """All members that are known, by name."""
        self._direct: dict[str, int] = {}
        """CB: by member, the number of its message on which the next one depends directly."""

    # -- to multicast --------------------------------------------------------------------------------------------------

    def check_room(self, bundle: Bundle) -> None:
        self._check_clock(EVERYBODY)
        if (length := self._header().encoded_bytes) > HEADER_BYTES_MAX:
            raise HeaderSizeError(
                f"a header for {len(self.targets)} targets with {len(self._direct)} dependencies each would take "
                f"{length} bytes; there is room for {HEADER_BYTES_MAX}"
            )

    def make(self, bundle: Bundle) -> BarrierMulticast:
        header = self._header()
        number = self._clock.tick(EVERYBODY, self.member)
        self._direct = {self.member: number}
        return BarrierMulticast(bundle, 1, self.member, number, header)

    def _header(self) -> Barriers:
        return Barriers.of(self.targets, tuple(sorted(self._direct.items())))

    # -- to deliver ----------------------------------------------------------------------------------------------------

    def missing(self, arrival: Arrival[BarrierMulticast]) -> tuple[ClockEntry, int] | None:
        at = self._clock.at
        for member, number in self._barrier(arrival.message):
            if number > at(EVERYBODY, member):
                return (EVERYBODY, member), number
        sender, before = arrival.message.sender, arrival.number - 1
        return ((EVERYBODY, sender), before) if before > at(EVERYBODY, sender) else None

    def counted(self, message: BarrierMulticast) -> dict[str, int]:
        mine = [number for member, number in self._barrier(message) if member == self.member]
        return {EVERYBODY: max(mine)} if mine else {}

    def take(self) -> Arrival[BarrierMulticast] | None:
        arrival = super().take()
        if arrival is not None:
            for member, number in self._barrier(arrival.message):
                if self._direct.get(member, number + 1) <= number:
                    del self._direct[member]
            self._direct[arrival.message.sender] = arrival.number
        return arrival

    def _barrier(self, message: BarrierMulticast) -> Barrier:
        return message.barriers.of_target(self.member)

    def pass_over(self, clocks: Changes) -> Changes:
        """What is not waited for here may have been seen by a client that comes from elsewhere, and what depends on
        what is not known: all of it goes with the next message."""
        news = super().pass_over(clocks)
        for _, entries in news:
            self._direct.update(entries)
        return news


NEWS_US: Final = 10_000
"""How long news of members waits for more."""
MEMBERS_MAX: Final = 65_536
"""Known to one broker; a header could not name as many."""


class NewsDue(Timer, frozen=True):
    """When to tell neighbours of new members."""


class BarrierBroker(MulticastBroker[BarrierMulticast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        self._direct = DirectOrder(member_of(seat), options.held_back)
        self._members = {seat.name: seat.incarnation}
        """Of each broker its latest life: earlier ones are dead, and nobody's targets."""
        self._news: dict[str, str] = {}
        """Names of new members, and who told of them: that one knows."""
        super().__init__(
            "causal-barriers",
            seat,
            self._direct,
            BarrierMulticast,
            options,
            handlers={MembersKnown: self._learn},
            timers={NewsDue: self._tell_news},
        )

    def _greet(self, name: str) -> None:
        self._tell(name, list(self._members.items()))

    def _learn(self, peer: Peer, message: MembersKnown) -> None:
        new = {
            name: incarnation for name, incarnation in message.members if incarnation > self._members.get(name, -1)
        }  # fmt: skip
        if len(self._members | new) > MEMBERS_MAX:
            raise PeerError(f"there is no room for more than {MEMBERS_MAX} members")
        if not new:
            return
        if not self._news:
            self._step.out.append(SetTimer(NewsDue(), self._step.now_us + NEWS_US))
        self._members |= new
        self._news |= dict.fromkeys(new, peer.name)
        self._direct.targets = tuple(sorted([f"{name}/{life}" for name, life in self._members.items()]))

    def _tell_news(self, timer: NewsDue) -> None:
        news, self._news = self._news, {}
        for link in self._tree.links:
            self._tell(link, [(name, self._members[name]) for name, source in news.items() if source != link])

    def _tell(self, link: str, members: list[tuple[str, int]]) -> None:
        for first in range(0, len(members), MEMBERS_PER_MESSAGE):
            self._outbox.send(link, MembersKnown(tuple(members[first : first + MEMBERS_PER_MESSAGE])))
