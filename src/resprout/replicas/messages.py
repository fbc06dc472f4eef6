"""What replicas of one group say to each other. Tags 160..175 of the wire belong to this file.

`group` names the log, because a broker may be a replica of many. Any of these may be lost, come twice, or come in
another order than they were sent.
"""

from typing import ClassVar

from resprout.core.contract import ProtocolMessage
from resprout.replicas.values import AcceptedEntry, Ballot, SlotEntry, Snapshot


class Ask(ProtocolMessage, frozen=True, tag=170):
    """Would you promise this ballot? Asked first, because a promise that leads to nothing disturbs a leader."""

    group: str
    ballot: Ballot


class Willing(ProtocolMessage, frozen=True, tag=171):
    """Answer to `Ask`, by those who hear no leader. It promises nothing."""

    group: str
    ballot: Ballot


class Prepare(ProtocolMessage, frozen=True, tag=160):
    """May I lead in this ballot, for all slots after this one?"""

    group: str
    ballot: Ballot
    after: int


class Promise(ProtocolMessage, frozen=True, tag=161):
    """Answer to `Prepare`: nothing below this ballot is accepted any more. `votes` are all that was accepted after
    `after`, which may be behind the slot that was asked for; of these, and of everything before, what is not above
    `chosen` is decided."""

    group: str
    ballot: Ballot
    after: int
    chosen: int
    votes: tuple[AcceptedEntry, ...]

    @property
    def bulk(self) -> int:
        return sum(len(vote.entry.command) for vote in self.votes)


class Accept(ProtocolMessage, frozen=True, tag=162):
    """Accept these entries in this and the following slots; everything up to `chosen` is decided. Without entries it
    says no more than that."""

    group: str
    ballot: Ballot
    first: int
    entries: tuple[SlotEntry, ...]
    chosen: int

    @property
    def bulk(self) -> int:
        return sum(len(entry.command) for entry in self.entries)


class Accepted(ProtocolMessage, frozen=True, tag=163):
    """Answer to `Accept`."""

    group: str
    ballot: Ballot
    first: int
    last: int


class Refuse(ProtocolMessage, frozen=True, tag=164):
    """Answer to `Ask`, `Prepare`, `Accept` or `Lead` in a ballot that is too low: this one was promised."""

    group: str
    ballot: Ballot


class Lead(ProtocolMessage, frozen=True, tag=165):
    """The leader lives. Answered by `Follow`. Everything up to `chosen` is decided, but what the leader has said of it
    may still be on its way: this overtakes it, because a leader with much to say is not silent."""

    express: ClassVar[bool] = True

    group: str
    ballot: Ballot
    chosen: int
    sent_us: int
    sleeps: bool = False
    """There is nothing to decide, and no further sign of life until there is."""

    @property
    def background(self) -> bool:
        return True


class Follow(ProtocolMessage, frozen=True, tag=166):
    """Answer to `Lead`: I follow you."""

    express: ClassVar[bool] = True

    group: str
    ballot: Ballot
    sent_us: int

    @property
    def background(self) -> bool:
        return True


class Fetch(ProtocolMessage, frozen=True, tag=167):
    """What was decided after this slot?"""

    group: str
    after: int


class Decisions(ProtocolMessage, frozen=True, tag=168):
    """Answer to `Fetch`: the decided entries from slot `first` on, as many as one message may hold; none when there are
    none."""

    group: str
    first: int
    entries: tuple[SlotEntry, ...]

    @property
    def bulk(self) -> int:
        return sum(len(entry.command) for entry in self.entries)


class Install(ProtocolMessage, frozen=True, tag=169):
    """Answer to `Fetch` where the log no longer reaches back so far."""

    group: str
    snapshot: Snapshot

    @property
    def bulk(self) -> int:
        return len(self.snapshot.state)


class Known(ProtocolMessage, frozen=True, tag=172):
    """By one that is no member any more, to those who are: everything up to this slot is decided. They may not know
    that they are members. Answered alike by whoever knows as much, and by `Fetch` otherwise."""

    group: str
    chosen: int

    @property
    def background(self) -> bool:
        return True


MESSAGES = (Ask, Willing, Prepare, Promise, Accept, Accepted, Refuse, Lead, Follow, Fetch, Decisions, Install, Known)
