"""One broker of causal barriers: a causal multicast with the order of direct dependencies, and a list of all members.

News of members is batched for 10 ms, because all brokers come at once when a network begins.

The order at one member: process i keeps a set CB[j] for each process j, which holds the messages that must be delivered
at j before the next message from i to j. The set holds only direct dependencies: a message that another one in the set
depends on is left out, since j delivers it first anyway.

*Multicast* of m, number n of this member: m carries CB as it is; then CB[j] = {(i, n)} for each target j.

*Arrival* of m: it waits until everything in its CB is delivered here, and the messages of its sender before it, as far
as they go over this link. The paper waits for the own row only; a broker waits for all, because it passes m on.

*Delivery* of m from sender k with number x: CB[j] = (CB[j] - CB of m for j) + {(k, x)} for each target j. For any other
j that m has a row for, CB[j] = CB[j] + CB of m for j, except that k itself has delivered its own row.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final

from resprout.core.bundle import Bundle
from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.core.message_fields import Mark
from resprout.core.seen import Seen
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate, heard_predicate
from resprout.stacks.peers import Peer
from resprout.stacks.stack import BrokerSeat
from resprout_lab.blocks import parts_of
from resprout_lab.blocks.multicast.broker import MulticastBroker, MulticastOptions, member_of
from resprout_lab.blocks.multicast.copies import Entries
from resprout_lab.blocks.multicast.order import Arrival, HeaderSizeError, MulticastOrder
from resprout_lab.blocks.recorded import Confirmed, RecordedSubscriptions
from resprout_lab.causal_barriers.messages import (
    EVERYBODY,
    GONE,
    HEADER_BYTES_MAX,
    Barrier,
    BarrierMulticast,
    Barriers,
    MemberKnown,
    MembersKnown,
)


class DirectOrder(MulticastOrder[BarrierMulticast]):
    def __init__(self, member: str, held_max: int) -> None:
        super().__init__(member, held_max)
        self.members: MatchIndex[str] = MatchIndex()
        """All known members, with their subscriptions."""
        self._barriers: dict[str, Barrier] = {}
        """CB: direct dependencies of the next message to a member, by member. Members with equal sets share one
        object."""

    # -- to multicast --------------------------------------------------------------------------------------------------

    def check_room(self, bundle: Bundle) -> None:
        self._check_clock(EVERYBODY)
        header = self._header(bundle)
        if (length := header.encoded_bytes) > HEADER_BYTES_MAX:
            raise HeaderSizeError(
                f"a header for {len(header.rows)} targets with {len(header.whole)} dependencies would take "
                f"{length} bytes; there is room for {HEADER_BYTES_MAX}"
            )

    def make(self, bundle: Bundle) -> BarrierMulticast:
        header = self._header(bundle)
        number = self._clock.tick(EVERYBODY, self.member)
        self._barriers |= dict.fromkeys([target for target, _ in header.rows], ((self.member, number),))
        return BarrierMulticast(bundle, 1, self.member, (), number, header)

    def _header(self, bundle: Bundle) -> Barriers:
        barriers, targets = self._barriers, dict.fromkeys(sorted(self.members.plan_any(bundle.topics).match({})))
        return Barriers(
            tuple([(target, barriers.get(target, ())) for target in targets]),
            tuple([(member, barriers[member]) for member in sorted(barriers) if member not in targets]),
        )

    def forget(self, member: str) -> None:
        """Forget a member that is gone, so that it is no target any more."""
        self._barriers.pop(member, None)

    # -- to deliver ----------------------------------------------------------------------------------------------------

    def entries(self, message: BarrierMulticast) -> Entries:
        named = [((EVERYBODY, member), number) for member, number in message.barriers.whole]
        return [*named, ((EVERYBODY, message.sender), message.number - 1)]

    def counted(self, message: BarrierMulticast) -> dict[str, int]:
        number = dict(message.barriers.whole).get(self.member)
        return {} if number is None else {EVERYBODY: number}

    def take(self) -> Arrival[BarrierMulticast] | None:
        arrival = super().take()
        if arrival is not None:
            message = arrival.message
            self._update(message.barriers.rows, message.sender, ((message.sender, message.number),))
            self._update(message.barriers.others, message.sender, ())
        return arrival

    def _update(self, rows: Iterable[tuple[str, Barrier]], sender: str, with_it: Barrier) -> None:
        """Update the rows of CB. Rows that are the same object, for equal sets, are computed once."""
        found: dict[tuple[int, int], Barrier] = {}
        for member, row in rows:
            before = self._barriers.get(member, ())
            key = (id(before), id(row))
            if member == sender and not with_it:
                self._barriers[member] = _without(before, row)
            elif key in found:
                self._barriers[member] = found[key]
            elif with_it:
                self._barriers[member] = found[key] = _union(_without(before, row), with_it)
            else:
                self._barriers[member] = found[key] = _union(before, row)


def _without(barrier: Barrier, row: Barrier) -> Barrier:
    upto = dict(row)
    return tuple([(member, number) for member, number in barrier if number > upto.get(member, 0)])


def _union(one: Barrier, other: Barrier) -> Barrier:
    both = dict(one)
    for member, number in other:
        both[member] = max(number, both.get(member, 0))
    return tuple(sorted(both.items()))


NEWS_US: Final = 10_000
"""Time for which news of members is batched, in microseconds."""
NEWS_BYTES: Final = 1 << 16
"""Approximate size of one message with news of members, in bytes."""
MEMBERS_MAX: Final = 65_536
"""Most members that one broker knows; a header could not name as many."""


class NewsDue(Timer, frozen=True):
    """Timer for telling neighbours of members."""


class MemberWishes(RecordedSubscriptions):
    """A subscription table that also has the topic filters of the clients of this broker."""

    def __init__(self, seen: Callable[[], Iterable[Mark]]) -> None:
        super().__init__(seen)
        self.own: dict[str, int] = {}
        """Number of subscriptions, by filter."""

    def want(self, direction: str, predicate: Predicate, confirmed: bool = False) -> Confirmed:
        if direction not in self._by_id and predicate not in self.table.of(direction):
            self.own[predicate.filter] = self.own.get(predicate.filter, 0) + 1
        return super().want(direction, predicate, confirmed)

    def drop(self, direction: str, predicate: Predicate) -> Confirmed:
        if direction not in self._by_id and predicate in self.table.of(direction):
            self.own[predicate.filter] -= 1
            if not self.own[predicate.filter]:
                del self.own[predicate.filter]
        return super().drop(direction, predicate)


class BarrierBroker(MulticastBroker[BarrierMulticast]):
    def __init__(self, seat: BrokerSeat, options: MulticastOptions, rng: random.Random) -> None:
        self._direct = DirectOrder(member_of(seat), options.held_back)
        self._own = MemberKnown(seat.name, seat.incarnation, 0, ())
        self._members: dict[str, MemberKnown] = {}
        """The latest life of each broker. Earlier lives are dead, and no targets."""
        self._news: dict[str, str] = {}
        """Members that are new or have changed, with the neighbour that told of them and needs no news of them."""
        marks = Seen()
        self._mine = MemberWishes(marks.marks)
        super().__init__(
            "causal-barriers",
            seat,
            self._direct,
            BarrierMulticast,
            options,
            marks=marks,
            wishes=self._mine,
            handlers={MembersKnown: self._learn},
            timers={NewsDue: self._tell_news},
            at_end=self._look_at_own,
        )

    def _look_at_own(self) -> None:
        """Announce changes of the subscriptions of clients here."""
        if (filters := tuple(sorted(self._mine.own))) != self._own.filters:
            self._own = MemberKnown(self._own.name, self._own.life, self._own.version + 1, filters)
            self._take((self._own,), "")

    def _greet(self, name: str) -> None:
        self._tell(name, list(self._members.values()))

    def _bypassed(self, dead: str, life: int) -> None:
        self._take((MemberKnown(dead, life, GONE, ()),), "")

    def _learn(self, peer: Peer, message: MembersKnown) -> None:
        self._take(message.members, peer.name)

    def _take(self, members: Iterable[MemberKnown], source: str) -> None:
        new = [one for one in members if self._is_news(one)]
        if len(self._members) + len(new) > MEMBERS_MAX:
            raise PeerError(f"there is no room for more than {MEMBERS_MAX} members")
        if new and not self._news:
            self._step.out.append(SetTimer(NewsDue(), self._step.now_us + NEWS_US))
        for one in new:
            filters = [heard_predicate(text, None) for text in one.filters]
            if (before := self._members.get(one.name)) is not None:
                self._direct.members.remove_all(before.member)
                if before.life < one.life or one.version == GONE:
                    self._direct.forget(before.member)
            for predicate in filters:
                self._direct.members.add(one.member, predicate)
            self._members[one.name] = one
            self._news[one.name] = source

    def _is_news(self, one: MemberKnown) -> bool:
        known = self._members.get(one.name)
        return known is None or (known.life, known.version) < (one.life, one.version)

    def _tell_news(self, timer: NewsDue) -> None:
        news, self._news = self._news, {}
        for link in self._tree.links:
            self._tell(link, [self._members[name] for name, source in news.items() if source != link])

    def _tell(self, link: str, members: list[MemberKnown]) -> None:
        for part in parts_of(members, NEWS_BYTES, lambda member: member.bulk):
            self._outbox.send(link, MembersKnown(tuple(part)))
