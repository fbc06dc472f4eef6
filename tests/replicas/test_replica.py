"""Single steps of a replica: what it never forgets, whom it does not believe, and what its owner is told."""

from random import Random

import pytest

from resprout.core.contract import Effect, Persist, Send
from resprout.net.sessions import make_codec
from resprout.replicas.leading import Leadership
from resprout.replicas.ledger import Chosen, HeartbeatDue, Led, Ledger, News, PatienceOver
from resprout.replicas.messages import (
    MEMBERS_MAX,
    MESSAGES,
    ROUND_LEAP_MAX,
    SLOT_LEAP_MAX,
    Accept,
    Accepted,
    AcceptedEntry,
    Ask,
    Ballot,
    Decisions,
    Fetch,
    Follow,
    Lead,
    Prepare,
    Promise,
    Refuse,
    ReplicaOptions,
    SlotEntry,
    Willing,
)
from resprout.replicas.proposer import UNDER_WAY_BYTES_MAX, Proposer
from resprout.replicas.replica import Replica

MEMBERS = ("a", "b", "c")
LATER_US = 10_000_000


class Stage:
    """One replica, `a`, and what it says to nobody in particular."""

    def __init__(self, records: list[bytes] | None = None) -> None:
        self.replica = Replica("g", "a", MEMBERS, Random(1))
        self.records = records or []
        self.news: list[News] = []
        out: list[Effect] = []
        self.news += self.replica.start(0, out, self.records)
        self._perform(out)
        self.said: list[tuple[str, object]] = []

    def hears(self, peer: str, message: object, now_us: int = 0) -> list[tuple[str, object]]:
        out: list[Effect] = []
        self.news += self.replica.hear(peer, message, now_us, out)  # type: ignore[arg-type]
        return self._perform(out)

    def waits(self, now_us: int) -> list[tuple[str, object]]:
        out: list[Effect] = []
        self.news += self.replica.fired(PatienceOver("g"), now_us, out)
        return self._perform(out)

    def _perform(self, out: list[Effect]) -> list[tuple[str, object]]:
        self.records += [effect.record for effect in out if isinstance(effect, Persist)]
        return [(effect.peer, effect.message) for effect in out if isinstance(effect, Send)]


def leading() -> Stage:
    stage = Stage()
    asked = stage.waits(LATER_US)
    ballot = next(m.ballot for _, m in asked if isinstance(m, Ask))
    prepared = stage.hears("b", Willing("g", ballot), LATER_US)
    assert ("c", Prepare("g", ballot, 0)) in prepared
    stage.hears("b", Promise("g", ballot, 0, 0, ()), LATER_US)
    assert stage.news == [Led("a")]
    return stage


def test_a_slot_that_no_honest_leader_can_have_reached_gets_no_vote() -> None:
    """A later leader would fill millions of slots before it (fuzzed as a member, seed 5118)."""
    stage, ballot, entry = Stage(), Ballot(1, "b"), SlotEntry(b"x")
    said = stage.hears("b", Accept("g", ballot, SLOT_LEAP_MAX, (entry, entry), SLOT_LEAP_MAX))
    assert said == [("b", Fetch("g", 0))], "one that is far behind fetches what is decided"
    assert stage.replica.ledger.votes == {}
    said = stage.hears("b", Accept("g", ballot, SLOT_LEAP_MAX, (entry,), 0))
    assert said == [("b", Accepted("g", ballot, SLOT_LEAP_MAX, SLOT_LEAP_MAX))]


def test_a_promise_with_a_vote_on_such_a_slot_does_not_count() -> None:
    stage = Stage()
    ballot = next(m.ballot for _, m in stage.waits(LATER_US) if isinstance(m, Ask))
    stage.hears("b", Willing("g", ballot), LATER_US)
    for slot, is_led in ((SLOT_LEAP_MAX + 1, False), (SLOT_LEAP_MAX, True)):
        vote = AcceptedEntry(slot, Ballot(0, "b"), SlotEntry(b"x"))
        stage.hears("b", Promise("g", ballot, 0, 0, (vote,)), LATER_US)
        assert (stage.news == [Led("a")]) is is_led


def test_a_promise_survives_a_restart() -> None:
    stage = Stage()
    assert stage.hears("b", Prepare("g", Ballot(5, "b"), 0)) == [("b", Promise("g", Ballot(5, "b"), 0, 0, ()))]
    again = Stage(stage.records)
    assert again.hears("c", Accept("g", Ballot(4, "c"), 1, (SlotEntry(b"x"),), 0)) == [
        ("c", Refuse("g", Ballot(5, "b")))
    ]


def test_a_vote_survives_a_restart_and_is_shown_to_the_next_leader() -> None:
    stage = Stage()
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (SlotEntry(b"x"), SlotEntry(b"y")), 0))
    again = Stage(stage.records)
    (_, answer), *_ = again.hears("c", Prepare("g", Ballot(2, "c"), 0))
    assert isinstance(answer, Promise)
    assert [(vote.slot, vote.entry.command) for vote in answer.votes] == [(1, b"x"), (2, b"y")]


def test_nobody_votes_twice_for_different_entries_in_one_ballot() -> None:
    stage = Stage()
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (SlotEntry(b"x"),), 0))
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (SlotEntry(b"y"),), 0))
    assert stage.replica.ledger.votes[1].entry == SlotEntry(b"x")


@pytest.mark.parametrize("ballot", [Ballot(3, "c"), Ballot(0, "b"), Ballot(ROUND_LEAP_MAX + 1, "b"), Ballot(-1, "b")])
def test_a_ballot_that_cannot_be_is_refused_and_promised_to_nobody(ballot: Ballot) -> None:
    """Another's name, a round below the first, or one so high that nobody could ever lead after it."""
    for message in (Prepare("g", ballot, 0), Accept("g", ballot, 1, (SlotEntry(b"x"),), 0), Lead("g", ballot, 0, 0)):
        stage = Stage()
        assert [type(said) for _, said in stage.hears("b", message)] == [Refuse]
        assert stage.records == []


def test_an_entry_is_decided_by_a_majority_and_no_sooner() -> None:
    stage = leading()
    out: list[Effect] = []
    taken, news = stage.replica.propose(b"x", LATER_US, out)
    assert taken and news == []
    ballot = stage.replica.ledger.promised
    stage.hears("c", Accepted("g", ballot, 1, 1), LATER_US)
    assert stage.news[-1] == Chosen(1, SlotEntry(b"x"))


def test_whoever_hears_a_leader_is_not_willing_to_replace_it() -> None:
    stage = Stage()
    stage.hears("b", Lead("g", Ballot(1, "b"), 0, 0), LATER_US)
    assert stage.hears("c", Ask("g", Ballot(2, "c")), LATER_US + 1) == []
    assert stage.hears("c", Ask("g", Ballot(2, "c")), 2 * LATER_US) == [("c", Willing("g", Ballot(2, "c")))]


def test_a_leader_that_was_left_out_is_followed_no_more_and_a_member_may_stand_without_waiting() -> None:
    stage = Stage()
    left_out = SlotEntry(lives=("a", "c", "d"))
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (left_out,), 1), LATER_US)
    assert stage.replica.ledger.members == left_out.lives
    assert stage.hears("c", Ask("g", Ballot(2, "c")), LATER_US + 1) == [("c", Willing("g", Ballot(2, "c")))]
    out: list[Effect] = []
    assert stage.replica.stand(LATER_US + 2, out) == [Led(None)]
    asked = [effect.peer for effect in out if isinstance(effect, Send) and isinstance(effect.message, Ask)]
    assert asked == ["c", "d"]


def test_whoever_is_far_behind_asks_on_until_it_has_all_that_was_decided() -> None:
    """And not because of a sign of life, which overtakes what the leader has said."""
    stage, ballot = Stage(), Ballot(1, "b")
    assert stage.hears("b", Lead("g", ballot, 5, 0)) == [("b", Follow("g", ballot, 0))]
    assert stage.hears("b", Accept("g", ballot, 6, (), 5)) == [("b", Fetch("g", 0))]
    entries = tuple([SlotEntry(b"%d" % slot) for slot in range(1, 6)])
    assert stage.hears("b", Decisions("g", 1, entries[:3])) == [("b", Fetch("g", 3))]
    assert stage.hears("b", Decisions("g", 4, entries[3:])) == []
    assert stage.replica.ledger.chosen == 5


def test_a_leader_knows_what_it_has_taken_until_it_is_decided() -> None:
    stage = leading()
    stage.replica.propose(b"x", LATER_US, [])
    assert stage.replica.has_taken(b"x") and not stage.replica.has_taken(b"y")
    stage.hears("b", Accepted("g", stage.replica.ledger.promised, 1, 1), LATER_US)
    assert not stage.replica.has_taken(b"x")


def test_whoever_leads_does_not_stand_again() -> None:
    stage, out = leading(), list[Effect]()
    assert stage.replica.stand(LATER_US + 1, out) == [] and out == []


def test_who_does_not_lead_takes_no_commands() -> None:
    stage = Stage()
    assert stage.replica.propose(b"x", 0, []) == (False, [])
    assert stage.replica.configure(("a",), 0, []) == (False, [])


def test_one_configuration_at_a_time() -> None:
    stage = leading()
    assert stage.replica.configure(("a", "b"), LATER_US, [])[0]
    assert not stage.replica.configure(("a", "c"), LATER_US, [])[0]


def test_bytes_that_are_no_record_are_refused() -> None:
    with pytest.raises(ValueError, match="a record of a replica cannot be read"):
        Stage([b"\xff\x00"])


def test_every_message_can_travel() -> None:
    assert make_codec(MESSAGES).messages == MESSAGES


def test_what_was_decided_against_an_own_vote_is_known_again_after_a_restart() -> None:
    """A schedule found it: that the slots before were decided is not on disk, so the decision was passed over."""
    stage = Stage()
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (SlotEntry(b"x"), SlotEntry(b"mine")), 0))
    stage.hears("b", Accept("g", Ballot(1, "b"), 3, (), 1))
    stage.hears("c", Decisions("g", 2, (SlotEntry(b"theirs"),)))
    decided = [Chosen(1, SlotEntry(b"x")), Chosen(2, SlotEntry(b"theirs"))]
    assert [news for news in stage.news if isinstance(news, Chosen)] == decided
    stage.hears("c", Accept("g", Ballot(2, "c"), 3, (SlotEntry(b"y"),), 2))
    again = Stage(stage.records)
    assert [news for news in again.news if isinstance(news, Chosen)] == decided


def test_a_configuration_of_more_than_may_be_or_of_nobody_is_not_taken() -> None:
    stage = leading()
    for members in ((), tuple(f"m{number}" for number in range(MEMBERS_MAX + 1))):
        assert stage.replica.configure(members, LATER_US, []) == (False, [])
    assert stage.replica.configure(["a"] * (MEMBERS_MAX + 1), LATER_US, [])[0], "named twice is named once"


def test_a_lease_is_held_as_long_as_nobody_else_can_lead_and_that_is_shorter_than_leading() -> None:
    stage = leading()
    replica, ballot = stage.replica, stage.replica.ledger.promised
    patience_us = ReplicaOptions().patience_us
    assert replica.has_lease(LATER_US + patience_us - 1)
    assert not replica.has_lease(LATER_US + patience_us) and replica.is_leading
    stage.hears("c", Follow("g", ballot, LATER_US + 1), LATER_US + patience_us)
    assert replica.has_lease(LATER_US + patience_us)
    assert not Stage().replica.has_lease(0)


# -- S4 of docs/stacks/scribe.md: what seed 004 has wrong --------------------------------------------------------------


def votes_for_the_older() -> bool:
    """After it has promised a newer ballot."""
    stage = Stage()
    stage.hears("c", Prepare("g", Ballot(2, "c"), 0))
    stage.hears("b", Accept("g", Ballot(1, "b"), 1, (SlotEntry(b"x"),), 0))
    return 1 in stage.replica.ledger.votes


def test_s4_a_promise_that_is_not_recorded_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not votes_for_the_older()
    monkeypatch.setattr(Ledger, "promise", lambda self, ballot: b"")
    assert votes_for_the_older()


def next_wish() -> Ballot:
    """Of a replica that was refused because of a higher ballot."""
    stage = Stage()
    stage.hears("b", Refuse("g", Ballot(5, "c")))
    return next(message.ballot for _, message in stage.waits(LATER_US) if isinstance(message, Ask))


def test_s4_a_ballot_that_does_not_rise_above_those_before_leads_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert next_wish() > Ballot(5, "c")
    monkeypatch.setattr(Leadership, "hear_refuse", lambda self, peer, message, now_us: None)
    assert next_wish() < Ballot(5, "c")


def decided_of_two() -> list[bytes]:
    """Both proposed before either is decided."""
    stage = leading()
    out: list[Effect] = []
    for command in (b"x", b"y"):
        assert stage.replica.propose(command, LATER_US, out)[0]
    stage.hears("b", Accepted("g", stage.replica.ledger.promised, 1, 2), LATER_US)
    return [news.entry.command for news in stage.news if isinstance(news, Chosen)]


def test_s4_with_one_instance_at_a_time_a_second_proposal_overwrites_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert decided_of_two() == [b"x", b"y"]
    next_entries = Proposer.next_entries

    def overwriting(self: Proposer) -> tuple[int, tuple[SlotEntry, ...]]:
        if self._pending:
            self._next = self._ledger.chosen + 1
            self.under_way.clear()
            self._entries.clear()
        return next_entries(self)

    monkeypatch.setattr(Proposer, "next_entries", overwriting)
    assert decided_of_two() == [b"y"]


def test_what_a_promise_shows_to_one_that_is_far_behind_fits_into_a_message() -> None:
    """All that is not decided, of what is decided nothing: that can be fetched."""
    stage, ballot, large = Stage(), Ballot(1, "b"), SlotEntry(bytes(600_000))
    for slot in range(1, 11):
        stage.hears("b", Accept("g", ballot, slot, (large,), slot - 1))
    ((_, near),) = stage.hears("c", Prepare("g", Ballot(2, "c"), 9))
    assert isinstance(near, Promise) and near.after == 9 and [vote.slot for vote in near.votes] == [10]
    ((_, far),) = stage.hears("c", Prepare("g", Ballot(3, "c"), 0))
    assert isinstance(far, Promise) and far.after == far.chosen == 9 and [vote.slot for vote in far.votes] == [10]
    assert [type(said) for _, said in stage.hears("c", Fetch("g", 0))] == [Decisions]


def test_who_is_far_behind_does_not_lead_before_it_has_fetched_what_is_decided() -> None:
    """Otherwise it would propose something else where something is decided."""
    stage = Stage()
    ballot = next(m.ballot for _, m in stage.waits(LATER_US) if isinstance(m, Ask))
    stage.hears("b", Willing("g", ballot), LATER_US)
    open_vote = AcceptedEntry(3, Ballot(1, "c"), SlotEntry(b"z"))
    assert stage.hears("b", Promise("g", ballot, 2, 2, (open_vote,)), LATER_US) == [("b", Fetch("g", 0))]
    stage.hears("b", Decisions("g", 1, (SlotEntry(b"x"), SlotEntry(b"y"))), LATER_US)
    assert stage.news == [Chosen(1, SlotEntry(b"x")), Chosen(2, SlotEntry(b"y"))], "it does not lead"
    out: list[Effect] = []
    stage.replica.fired(HeartbeatDue("g"), LATER_US, out)
    assert Send("b", Prepare("g", ballot, 2)) in out
    said = stage.hears("b", Promise("g", ballot, 2, 2, (open_vote,)), LATER_US)
    assert stage.news[-1] == Led("a")
    assert ("b", Accept("g", ballot, 3, (SlotEntry(b"z"),), 2)) in said


def test_a_leader_has_no_more_under_way_than_a_promise_may_show() -> None:
    stage = leading()
    ballot = stage.replica.ledger.promised
    for number in range(10):
        assert stage.replica.propose(bytes([number]) * 600_000, LATER_US, [])[0]
    assert stage.replica.propose(bytes(UNDER_WAY_BYTES_MAX + 1), LATER_US, [])[0]
    most = 0
    while under_way := stage.replica.ledger.votes_after(stage.replica.ledger.chosen):
        if len(under_way) > 1:
            most = max(most, sum(len(vote.entry.command) for vote in under_way))
        stage.hears("b", Accepted("g", ballot, 1, under_way[0].slot), LATER_US)
    assert 0 < most <= UNDER_WAY_BYTES_MAX
    assert stage.replica.ledger.chosen == 11


def test_who_asks_for_what_is_not_there_yet_is_answered_so_that_it_may_ask_again() -> None:
    stage = Stage()
    assert stage.hears("b", Fetch("g", 0)) == [("b", Decisions("g", 1, ()))]
    assert stage.hears("b", Decisions("g", 1, ())) == []


def test_the_more_elections_bring_no_leader_the_longer_the_next_one_is_waited_for_and_a_leader_ends_that() -> None:
    stage, patience_us = Stage(), ReplicaOptions().patience_us
    for round_ in range(1, 5):
        stage.hears("b", Prepare("g", Ballot(round_, "b"), 0), LATER_US)
    assert stage.waits(LATER_US + 4 * patience_us - 1) == []
    assert [type(said) for _, said in stage.waits(LATER_US + 4 * patience_us)] == [Ask, Ask]
    stage.hears("b", Lead("g", Ballot(9, "b"), 0, 0), 2 * LATER_US)
    assert [type(said) for _, said in stage.waits(2 * LATER_US + patience_us)] == [Ask, Ask]


def test_who_finds_no_majority_that_is_willing_stays_as_impatient_as_before() -> None:
    """It costs little to ask, and when a majority can be reached again there is to be a leader soon."""
    stage, patience_us = Stage(), ReplicaOptions().patience_us
    for tries in range(10):
        assert [type(said) for _, said in stage.waits(LATER_US + tries * patience_us)] == [Ask, Ask]
