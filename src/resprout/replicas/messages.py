"""What replicas of one group say to each other, and the values that they agree on. Tags 160..175 of the wire belong
here.

`group` names the log, because a broker may be a replica of many. Any of these messages may be lost, come twice, or come
in another order than they were sent.
"""

from typing import ClassVar, Final

import msgspec

from resprout.core.contract import BrokerMessage
from resprout.core.message_fields import BoundedNumber, GrowingNumber, Microseconds

MEMBERS_MAX: Final = 64
"""Of one configuration: every decision is sent to all of them."""
ROUND_LEAP_MAX: Final = 1 << 32
"""By so much the round of a ballot may be ahead of the one known before: a liar must not use up the numbers."""
SLOT_LEAP_MAX: Final = 4096
"""By so much a slot that is voted on may be ahead of the last one that is known to be decided. Honest leaders stay 256
ahead (`UNDER_WAY_MAX`); a replica that is further behind fetches decisions first. A leader fills every slot up to the
last one that anybody has voted on, so a liar must not name one that is far away."""


class Ballot(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Who may propose. Higher ones win; no two replicas ever use the same."""

    round: BoundedNumber = 0
    leader: str = ""


NO_BALLOT: Final = Ballot()


class SlotEntry(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a slot: a command of the owner; a new configuration; or, without either, nothing."""

    command: bytes = b""
    lives: tuple[str, ...] = ()
    """The configuration from the next slot on, `NAME/INCARNATION` in stacks; empty: it stays."""

    @property
    def is_configuration(self) -> bool:
        return bool(self.lives)


NOTHING: Final = SlotEntry()
"""Fills a slot that a leader before may have left open."""


class AcceptedEntry(msgspec.Struct, frozen=True, array_like=True):
    """An entry that a replica has accepted in a slot, and in which ballot."""

    slot: BoundedNumber
    ballot: Ballot
    entry: SlotEntry


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state of the owner after this slot, and the configuration that follows it."""

    slot: GrowingNumber = 0
    lives: tuple[str, ...] = ()
    state: bytes = b""


def is_majority(members: tuple[str, ...], of: dict[str, None] | set[str] | frozenset[str]) -> bool:
    """More than half of the configuration are among these."""
    return 2 * sum(member in of for member in members) > len(members)


class Ask(BrokerMessage, frozen=True, tag=170):
    """Would you promise this ballot? Asked first, because a promise that leads to nothing disturbs a leader."""

    group: str
    ballot: Ballot


class Willing(BrokerMessage, frozen=True, tag=171):
    """Answer to `Ask`, by those who hear no leader. It promises nothing."""

    group: str
    ballot: Ballot


class Prepare(BrokerMessage, frozen=True, tag=160):
    """May I lead in this ballot, for all slots after this one?"""

    group: str
    ballot: Ballot
    after: BoundedNumber


class Promise(BrokerMessage, frozen=True, tag=161):
    """Answer to `Prepare`: nothing below this ballot is accepted any more. `votes` are all that was accepted after
    `after`, which may be behind the slot that was asked for; of these, and of everything before, what is not above
    `chosen` is decided."""

    group: str
    ballot: Ballot
    after: BoundedNumber
    chosen: BoundedNumber
    votes: tuple[AcceptedEntry, ...]

    @property
    def bulk(self) -> int:
        return sum(len(vote.entry.command) for vote in self.votes)


class Accept(BrokerMessage, frozen=True, tag=162):
    """Accept these entries in this and the following slots; everything up to `chosen` is decided. Without entries it
    says no more than that."""

    group: str
    ballot: Ballot
    first: BoundedNumber
    entries: tuple[SlotEntry, ...]
    chosen: BoundedNumber

    @property
    def bulk(self) -> int:
        return sum(len(entry.command) for entry in self.entries)


class Accepted(BrokerMessage, frozen=True, tag=163):
    """Answer to `Accept`."""

    group: str
    ballot: Ballot
    first: BoundedNumber
    last: BoundedNumber


class Refuse(BrokerMessage, frozen=True, tag=164):
    """Answer to `Ask`, `Prepare`, `Accept` or `Lead` in a ballot that is too low: this one was promised."""

    group: str
    ballot: Ballot


class Lead(BrokerMessage, frozen=True, tag=165):
    """The leader lives. Answered by `Follow`. Everything up to `chosen` is decided, but what the leader has said of it
    may still be on its way: this overtakes it, because a leader with much to say is not silent."""

    express: ClassVar[bool] = True

    group: str
    ballot: Ballot
    chosen: BoundedNumber
    sent_us: Microseconds
    sleeps: bool = False
    """There is nothing to decide, and no further sign of life until there is."""

    @property
    def background(self) -> bool:
        return True


class Follow(BrokerMessage, frozen=True, tag=166):
    """Answer to `Lead`: I follow you."""

    express: ClassVar[bool] = True

    group: str
    ballot: Ballot
    sent_us: Microseconds

    @property
    def background(self) -> bool:
        return True


class Fetch(BrokerMessage, frozen=True, tag=167):
    """What was decided after this slot?"""

    group: str
    after: BoundedNumber


class Decisions(BrokerMessage, frozen=True, tag=168):
    """Answer to `Fetch`: the decided entries from slot `first` on, as many as one message may hold; none when there are
    none."""

    group: str
    first: BoundedNumber
    entries: tuple[SlotEntry, ...]

    @property
    def bulk(self) -> int:
        return sum(len(entry.command) for entry in self.entries)


class Install(BrokerMessage, frozen=True, tag=169):
    """Answer to `Fetch` where the log no longer reaches back so far."""

    group: str
    snapshot: Snapshot

    @property
    def bulk(self) -> int:
        return len(self.snapshot.state)


class Known(BrokerMessage, frozen=True, tag=172):
    """By one that is no member any more, to those who are: everything up to this slot is decided. They may not know
    that they are members. Answered alike by whoever knows as much, and by `Fetch` otherwise."""

    group: str
    chosen: BoundedNumber

    @property
    def background(self) -> bool:
        return True


MESSAGES = (Ask, Willing, Prepare, Promise, Accept, Accepted, Refuse, Lead, Follow, Fetch, Decisions, Install, Known)


class ReplicaOptions(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_us: int = 250_000
    """Between two signs of life of a leader; what was not answered is sent again at this pace."""
    patience_us: int = 1_000_000
    """A leader that is not heard for so long, and up to twice that by chance, is replaced; one that hears no majority
    for so long gives up. Several heartbeats and round trips, or leaders change without need."""
    idle_beats: int = 0
    """A leader that had nothing to decide for so many heartbeats, and heard all members, gives no more of them until
    something is to be decided: the group sleeps. 0: never. For owners with many groups, which learn by other means that
    a member cannot be reached, and wake the group then (`Replica.wake`)."""
    batch_bytes_max: int = 1 << 20
    """Of commands in one message, unless a single one is larger."""
    batch_entries_max: int = 128
