"""A replica in sessions: what is said again, and what is not."""

import random

from resprout.core.contract import ProtocolMessage
from resprout.replicas.ledger import HeartbeatDue, News
from resprout.replicas.messages import (
    Accept,
    Ask,
    Ballot,
    Decisions,
    Fetch,
    Prepare,
    Promise,
    ReplicaOptions,
    SlotEntry,
    Willing,
)
from resprout.replicas.replica import Replica
from resprout.stacks.shell import Step
from resprout_lab.blocks.replicated import ReplicaInSessions

PATIENCE_US = 2_000_000


class Leader:
    """Leads the group g of a, b and c, of whom b answers by hand and c never; or stands, if it is not `promised`."""

    def __init__(self, promised: bool = True) -> None:
        self.said: list[ProtocolMessage] = []
        options = ReplicaOptions(patience_us=PATIENCE_US)
        replica = Replica("g", "a", ("a", "b", "c"), random.Random(1), options)
        self.group = ReplicaInSessions(replica, Step(), self, self.post)
        self.group.begin(PATIENCE_US, stands=True)
        (ask,) = [one for one in self.said if isinstance(one, Ask)]
        self.group.hear("b", Willing("g", ask.ballot))
        if not promised:
            return
        (prepare,) = self.prepared()
        self.group.hear("b", Promise("g", prepare.ballot, 0, 0, ()))
        assert replica.is_leading

    def post(self, member: str, message: ProtocolMessage) -> None:
        if member == "b":
            self.said.append(message)

    def learn(self, news: News) -> None:
        pass

    def dump(self) -> bytes:
        return b""

    def prepared(self) -> list[Prepare]:
        """What b was asked to promise since this was looked at last."""
        asked = [one for one in self.said if isinstance(one, Prepare)]
        self.said.clear()
        return asked

    def asked(self) -> list[int]:
        """Slots that b was asked to accept since this was looked at last."""
        asked = [one for one in self.said if isinstance(one, Accept)]
        self.said.clear()
        return [slot for one in asked for slot in range(one.first, one.first + len(one.entries))]


def test_what_was_lost_with_a_session_is_said_again_though_something_later_was_said_first() -> None:
    """Otherwise nothing behind it is ever decided: a partition of three seconds stopped topics for good."""
    leader = Leader()
    for command in (b"1", b"2", b"3"):
        assert leader.group.propose(command)
    assert leader.asked() == [1, 2, 3]
    leader.group.forget(lambda member: member == "b")
    assert leader.group.propose(b"4")
    assert leader.asked() == [4]
    leader.group.fired(HeartbeatDue("g"))
    assert leader.asked() == [1, 2, 3, 4]


def test_what_was_said_in_a_session_and_is_not_answered_is_not_said_again_in_it() -> None:
    leader = Leader()
    for command in (b"1", b"2", b"3"):
        assert leader.group.propose(command)
    leader.asked()
    leader.group.fired(HeartbeatDue("g"))
    assert leader.asked() == []
    assert leader.group.propose(b"4")
    assert leader.asked() == [4]


def test_a_promise_that_takes_long_is_not_asked_for_again_unless_the_session_or_what_is_decided_has_changed() -> None:
    """Each answer holds all votes: repeats filled thin lines, and no promise ever came in time."""
    candidate = Leader(promised=False)
    beat = HeartbeatDue("g")
    assert len(candidate.prepared()) == 1
    candidate.group.fired(beat)
    assert candidate.prepared() == []
    candidate.group.forget(lambda member: member == "b")
    candidate.group.fired(beat)
    assert [one.after for one in candidate.prepared()] == [0]
    candidate.group.hear("b", Decisions("g", 1, (SlotEntry(b"1"),)))
    candidate.group.fired(beat)
    assert [one.after for one in candidate.prepared()] == [1]


def test_what_was_asked_for_and_answered_may_be_asked_for_again() -> None:
    """There was nothing then, and is now."""
    follower = Leader(promised=False)
    ballot = Ballot(9, "b")
    for answer in ((), (SlotEntry(b"1"),)):
        follower.said.clear()
        follower.group.hear("b", Accept("g", ballot, 2, (), 1))
        follower.group.hear("b", Accept("g", ballot, 2, (), 1))
        assert [one for one in follower.said if isinstance(one, Fetch)] == [Fetch("g", 0)]
        follower.group.hear("b", Decisions("g", 1, answer))
    assert follower.group.replica.ledger.chosen == 1
