"""Members that lie about logs: they are cut off, or have no effect, and take no more than their share."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from resprout.core.bundle import Bundle, pack_attributes, pack_payloads, to_record, unpack_payloads
from resprout.core.errors import BoundError, WireError
from resprout.core.guarantee import Guarantee
from resprout.core.message_fields import NUMBER_MAX
from resprout.edge.requests import PublishRequest
from resprout.journal.interface import Flush
from resprout.logs.copying import CompactedCopy
from resprout.logs.declaration import LogDeclaration
from resprout.logs.messages import (
    LogAsk,
    LogCopied,
    LogFed,
    LogFeed,
    LogFound,
    LogLed,
    LogPage,
    LogRead,
    LogsDeclared,
    LogTold,
)
from resprout.logs.reading import READS_OF_BROKER_MAX
from resprout.logs.records import LogCommand, LogEntry, bundle_command, read_command, to_bytes
from resprout.logs.replica import LogReplica
from resprout.logs.state import LogState
from resprout.logs.table import DeclaredLog
from resprout.order.messages import Forward
from resprout.replicas.messages import (
    Accept,
    AcceptedEntry,
    Ballot,
    Decisions,
    Fetch,
    Known,
    Promise,
    SlotEntry,
    Snapshot,
)
from resprout.stacks.resprout.log_broker import LogBroker
from resprout.stacks.resprout.log_checks import check_replica_message
from resprout.stacks.resprout.log_host import LogHost
from tests.fuzz.episode import Episode
from tests.fuzz.stores import LOGS

FAR = 1 << 50
COMMAND = to_bytes(LogCommand("b1.1.1.1", 1, 0, -1, gap="forged"))


@pytest.fixture(scope="module")
def episode() -> Episode:
    """The brokers b0 and b2 keep the log `kept`, and b1 lies. Its feed lives at b0, which leads it."""
    begun = Episode("member", 1, 0)
    begun.begin()
    assert _host(begun).is_feeding("kept") is False and _replica(begun).is_leading
    return begun


def _host(episode: Episode) -> LogHost:
    broker = episode.tree.honest_broker("b0")
    assert isinstance(broker, LogBroker)
    return broker.logs


def _replica(episode: Episode) -> LogReplica:
    return _host(episode).replicas["kept"]


@pytest.mark.parametrize(
    "lie",
    [
        LogAsk("kept", "b2.1", 0),
        LogTold("kept", "b2.1", (), 0, 0),
        LogTold("kept", "b1.1", tuple(f"b{n}.1" for n in range(100)), 0, 0),
        LogFound("kept", tuple(f"b{n}.1" for n in range(100))),
        LogFeed("kept", "b2.1.1.1", 1, to_bytes(LogCommand("b2.1.1.1", 1, 0, -1, gap="forged"))),
        LogFeed("kept", "b1.1.1.1", 1, b"nothing"),
        LogFeed("kept", "b1.1.1.1", FAR, COMMAND),
        Accept("kept|b2.1", Ballot(FAR, "b2.1"), FAR, (), FAR),
        Promise("kept|b0.1", Ballot(1, "b0.1"), 0, FAR, ()),
    ],
    ids=lambda lie: type(lie).__name__,
)
def test_a_member_that_speaks_for_others_is_cut_off(lie: Any) -> None:
    begun = Episode("member", 1, 0)
    begun.begin()
    before = _replica(begun).state.dump()
    begun.tree.forge("b1", "b0", lie)
    begun.tree.let_arrive("b1", "b0")
    assert [(name, peer) for name, peer, _ in begun.tree.closed][-1] == ("b0", "b1")
    assert _replica(begun).state.dump() == before


@pytest.mark.parametrize(
    "lie", [Accept("kept|b1.1", Ballot(FAR, "b1.1"), FAR, (), FAR), LogLed("kept", "b1"), LogAsk("kept", "b1.1", FAR)]
)
def test_a_member_that_keeps_no_replica_has_no_effect_on_those_that_do(lie: Any, episode: Episode) -> None:
    host, replica = _host(episode), _replica(episode)
    before = (replica.state.dump(), replica.leader, replica.members)
    (host.hear_replica if isinstance(lie, Accept) else host.hear)("b1", lie)
    assert (replica.state.dump(), replica.leader, replica.members) == before
    feeder = host.feeder_of("kept")
    assert feeder is not None and feeder.leader == "b0"


def test_only_a_replica_says_what_is_in_the_log_and_no_more_than_it_was_sent(episode: Episode) -> None:
    host = _host(episode)
    feeder = host.feeder_of("kept")
    assert feeder is not None
    host.hear("b1", LogFed("kept", feeder.feed, FAR))
    with pytest.raises(BoundError):
        host.hear("b2", LogFed("kept", feeder.feed, FAR))


def test_a_broker_with_many_feeds_makes_no_other_one_forgotten() -> None:
    state = LogState()
    bundle = Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.FIFO, pack_attributes([{}]), pack_payloads([b"x"]))
    state.apply(bundle_command("b0.1.1.1", 1, 0, -1, bundle))
    for number in range(100):
        state.apply(to_bytes(LogCommand(f"b1.1.1.{number}", 1, 0, -1, gap="forged")))
    assert state.feeds["b0.1.1.1"] == 1
    assert len(state.feeds) == 3


def test_a_leader_remembers_one_feed_of_each_broker(episode: Episode) -> None:
    replica = _replica(episode)
    for number in range(100):
        feed = f"b1.1.1.{number}"
        replica.hear_feed("b1", LogFeed("kept", feed, 5, to_bytes(LogCommand(feed, 5, 0, -1))), 0)
    assert sum(broker == "b1" for broker in replica.intake.feeders.values()) <= 1


def test_a_broker_has_so_many_reads_at_a_replica_and_no_more(episode: Episode) -> None:
    host, replica = _host(episode), _replica(episode)
    replica.remote_reads.waiting["b0"] = READS_OF_BROKER_MAX
    replica.remote_reads.hear("b0", LogRead("kept", 1, 0, 0, 100))
    told = host.to_itself.pop()
    assert isinstance(told, LogPage) and "wait at the replica" in told.reason


def test_a_replica_that_names_a_client_as_the_leader_opens_no_session_with_it(episode: Episode) -> None:
    tree = episode.tree
    _host(episode).hear("b2", LogLed("kept", "p"))
    episode.publish()
    tree.run(10_000)
    assert ("b0", "p") not in tree.wishes


def test_a_log_that_is_declared_at_a_client_opens_no_session_with_it() -> None:
    """The session of the client was taken for that of a broker, and closed as one that is not needed (fuzzed, seed
    270100004)."""
    begun = Episode("member", 1, 0)
    begun.begin()
    tree = begun.tree
    made = DeclaredLog("forged", "t", ("b0", "near"), 7, 0, 1 << 20, 0, Flush.ALWAYS, 1 << 20)
    _host(begun).hear("b1", LogsDeclared((made,), 0))
    begun.publish()
    tree.run(10_000)
    assert "forged.7" in _host(begun).replicas
    assert ("b0", "near") not in tree.wishes and not [one for one in tree.closed if one[1] == "near"]


def test_whoever_asks_for_what_is_far_ahead_is_given_what_it_can_read() -> None:
    """Or an honest replica would be cut off for its answer (fuzzed, seed 1004)."""
    begun = Episode("member", 1, 0)
    begun.begin()
    begun.tree.forge("b1", "b0", Fetch("shared|b1.1", NUMBER_MAX))
    begun.tree.let_arrive("b1", "b0")
    told = [message for message in begun.tree.recorded if isinstance(message, Decisions)]
    assert told and all(message.first <= NUMBER_MAX for message in told)


def test_a_member_that_is_no_identity_is_refused_in_every_message_that_carries_members() -> None:
    """A replica that believed it would pass it on (`LogTold`), and be cut off in place of the liar."""
    lie, ballot = SlotEntry(lives=("shared|b1.1",)), Ballot(1, "b1.1")
    for message in (
        Accept("shared|b1.1", ballot, 1, (lie,), 0),
        Promise("shared|b1.1", ballot, 0, 0, (AcceptedEntry(1, ballot, lie),)),
    ):
        with pytest.raises(WireError, match="names a member that cannot exist"):
            check_replica_message("b1", message)
    check_replica_message("b1", Accept("shared|b1.1", ballot, 1, (SlotEntry(lives=("b0.1", "b1.1")),), 0))
    finding = Episode("member", 5118, 300).run()
    assert finding is None


def _bundle_with(**wrong: Any) -> bytes:
    fields = {
        "publisher": "p", "incarnation": 1, "first": 1, "count": 1, "stamp": 1, "topic": "t", "keys": (),
        "guarantee": Guarantee.FIFO, "attributes": b"", "payloads": pack_payloads([b"x"]), **wrong,
    }  # fmt: skip
    return to_record(Bundle(**fields))


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": -5}, {"count": 0}, {"count": 1 << 40}, {"first": 0}, {"first": NUMBER_MAX + 1}, {"stamp": 1 << 63},
        {"incarnation": 1 << 60}, {"topic": "a/#"}, {"topic": ""}, {"publisher": "\x1b[2J"}, {"keys": ("b", "a")},
        {"keys": tuple(f"{number:03}" for number in range(65))},
    ],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_a_bundle_that_no_broker_would_pass_on_is_not_in_the_log(wrong: dict[str, Any]) -> None:
    """Any broker may feed a log. A bundle of -5 messages moved the end of the log back, and one of 2^40 made a state
    that no replica could read again."""
    state = LogState()
    state.apply(bundle_command("b0.1.1.1", 1, 0, -1, _good_bundle()))
    before = (state.next, state.end)
    command = LogCommand("b1.1.1.1", 1, 0, -1, _bundle_with(**wrong))
    assert state.apply(to_bytes(command)) == []
    assert (state.next, state.end) == before
    state.load(state.dump())


def _good_bundle() -> Bundle:
    return Bundle("p", 1, 1, 1, 1, "t", (), Guarantee.FIFO, pack_attributes([{}]), pack_payloads([b"x"]))


@pytest.mark.parametrize(
    "wrong",
    [{"time_us": 1 << 62}, {"number": -1}, {"number": FAR << 8}, {"tseq": 1 << 62}, {"gap": "x" * 600}],
    ids=str,
)
def test_a_command_with_numbers_that_no_message_may_have_is_none(wrong: dict[str, Any]) -> None:
    command = msgspec.structs.replace(LogCommand("b1.1.1.1", 1, 0, -1, gap="forged"), **wrong)
    assert read_command(to_bytes(command)) is None
    assert LogState().apply(to_bytes(command)) == []


def test_the_time_of_a_command_is_no_later_than_a_clock_can_be(episode: Episode) -> None:
    """Times rise along a log, so one forged time was that of all later entries: nobody could read by time again."""
    host, replica = _host(episode), _replica(episode)
    wall_us = episode.tree.honest_broker("b0").life.seat.epoch_us + episode.tree.now_us
    forged = LogCommand("b1.1.1.1", 1, 1 << 59, -1, gap="forged")
    replica.state.feeds.pop("b1.1.1.1", None)
    host.hear("b1", LogFeed("kept", "b1.1.1.1", 1, to_bytes(forged)))
    episode.tree.go_on(400, lambda: "b1.1.1.1" in replica.state.feeds)
    assert 0 < replica.state.time_us <= wall_us + 10_000_000


def test_a_publication_that_cannot_be_read_becomes_a_gap_of_the_log_and_what_follows_is_kept() -> None:
    """A log that had it could not be read by anybody."""
    begun = Episode("member", 1, 0)
    begun.begin()
    forged = Bundle("far", 1, 1, 3, 5, "t", (), Guarantee.FIFO, b"", pack_payloads([b"1", b"2"]))
    begun.tree.forge("b1", "b0", Forward(forged, 2))
    begun.tree.run(10_000)
    for client in ("p", "near"):
        begun.tree.ask(client, PublishRequest("t", b"later"))
    begun.tree.run(10_000)
    entries = begun.tree.stores.entries("b0", LOGS[0])
    assert [entry.gap for entry in entries if entry.gap] == ["a publication of far cannot be read"]
    read = [unpack_payloads(entry.messages) for entry in entries if entry.messages is not None]
    assert read[-2:] == [[b"later"], [b"later"]]


@pytest.mark.parametrize(
    "made",
    [
        lambda number: Snapshot(number),
        lambda number: LogEntry(number, 0, 0, -1, b"", "gap", 1),
        lambda number: LogEntry(0, number, 0, -1, b"", "gap", 1),
    ],
    ids=["slot", "entry", "offset"],
)
def test_numbers_of_a_replica_leave_room_for_those_that_follow(made: Callable[[int], msgspec.Struct]) -> None:
    """A broker sent what no other one could read."""
    least, most = made(NUMBER_MAX >> 1), made((NUMBER_MAX >> 1) + 1)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(least), type=type(least)) == least
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(most), type=type(most))


def test_a_replica_sends_nothing_to_an_identity_that_it_had_before(episode: Episode) -> None:
    """A broker ended with an AttributeError when a log still had its identity from before a lost disk as a member."""
    host = _host(episode)
    host.send("b0", Known("kept|b0.2", 1))
    host.send("b0", LogFed("kept", "b0.1.1.1", 0))
    assert [type(each) for each in host.to_itself] == [LogFed]
    host.hear_itself()


class SpareEntries:
    """The entries of a replica without a compacted part, as far as a copy needs them."""

    def __init__(self) -> None:
        self.end, self.claims = 5, 0
        self.adopted: list[Any] = []
        self.records: list[bytes] = []

    def claim_spare(self) -> int:
        self.claims += 1
        return self.claims

    put_spare = property(lambda self: self.records.append)
    adopt = property(lambda self: self.adopted.append)


@pytest.mark.parametrize("lie", [LogCopied("kept", 9, 9, 0, FAR, 0, ()), LogCopied("kept", 9, 9, 0, 2, FAR, ())])
def test_a_compacted_part_is_no_longer_than_the_log_and_is_copied_in_order(lie: LogCopied) -> None:
    entries, asked = SpareEntries(), list[Any]()
    port: Any = SimpleNamespace(send=lambda broker, message: asked.append(message))
    copy = CompactedCopy(LogDeclaration("kept", "t", ("b0", "b1")), cast(Any, entries), port)
    copy.begin("b1")
    assert len(asked) == 1 and not copy.hear("b1", lie)
    assert not entries.adopted and not entries.records and len(asked) == 1
    assert copy.is_running == (lie.place > 0), "an answer about other entries may be an old one"
