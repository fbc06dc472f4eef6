"""The bytes of a few frames, kept in a file: a change of the format is made on purpose or not at all.

RESPROUT_REWRITE_GOLDEN=1 writes the file anew; read the difference before keeping it.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.core.message_fields import Mark
from resprout.edge.durable_messages import (
    Acknowledge,
    Acknowledged,
    Consume,
    Consuming,
    Drops,
    DropsTold,
    DurableAction,
    EndSubscription,
    FollowedUp,
    FollowUp,
    Handed,
    IdBatch,
    Replayed,
    RetryTerms,
    Settle,
    Settlement,
    Span,
    Standing,
    TakenBack,
    Terms,
    Tries,
    WhenFull,
)
from resprout.edge.messages import (
    AskAudience,
    Attend,
    AudienceTold,
    BrokersForgotten,
    DeliveriesDropped,
    Delivery,
    DropsAcknowledged,
    EventRead,
    EventsEnd,
    Extra,
    ForgetBrokers,
    GoTo,
    HeldSubscription,
    HoldTold,
    PlacedDelivery,
    PublicationWaits,
    Publish,
    PublishRefused,
    ReadEvents,
    RetainedDelivery,
    SafeCopies,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Successor,
    Successors,
    Taken,
    TopicPlace,
    TopicsReached,
    Turned,
    Unsubscribe,
    Unsubscribed,
)
from resprout.edge.position_messages import AskPosition, ChangeLog, LogChange, LogChanged, PositionTold
from resprout.edge.value_messages import AskOutcome, AskValues, OutcomeTold, ValuesTold
from resprout.journal.interface import Flush
from resprout.links.frames import Goodbye
from resprout.logs.messages import (
    LogAsk,
    LogCopied,
    LogCopyAsk,
    LogEntries,
    LogFed,
    LogFeed,
    LogFetch,
    LogFound,
    LogLed,
    LogPage,
    LogRead,
    LogsDeclared,
    LogSettle,
    LogSettled,
    LogTold,
)
from resprout.logs.table import DeclaredLog
from resprout.net.sessions import (
    Challenge,
    Login,
    MemberGreeting,
    MemberProof,
    ProofAccepted,
    ProofOfSecret,
    Salt,
    make_codec,
)
from resprout.order.messages import (
    Ahead,
    AlreadyOrdered,
    Closed,
    Forward,
    KnownLock,
    Levels,
    Lock,
    OrderedTotal,
    Republished,
    RootOrderedTopic,
    Submit,
    TotalCopy,
)
from resprout.order.totals.levels import TotalLevel, TotalLevels
from resprout.overlay.configurations import Whereabouts
from resprout.overlay.messages import (
    Alive,
    Configuration,
    Decided,
    Enrol,
    Enrolled,
    Fenced,
    Gone,
    Life,
    Namesake,
    Orphan,
    Ping,
    Place,
    Pong,
    PreVote,
    Probe,
    Probed,
    Registration,
    Seek,
    Sought,
    Suspect,
    Tell,
    Told,
    Vote,
    Voter,
)
from resprout.replicas.messages import (
    Accept,
    Accepted,
    AcceptedEntry,
    Ask,
    Ballot,
    Decisions,
    Fetch,
    Follow,
    Install,
    Known,
    Lead,
    Prepare,
    Promise,
    Refuse,
    SlotEntry,
    Snapshot,
    Willing,
)
from resprout.spread.messages import InterestConfirmed, Interested, Uninterested
from resprout.stacks.resprout import RESPROUT
from resprout.stacks.resprout.durable_state import DurableDone, DurableHeard, DurableIds, DurableKnown, DurableState
from resprout.stacks.resprout.former import FormerWish, Roster
from resprout.stacks.resprout.messages import (
    AskedInterest,
    Attach,
    AttachRequest,
    ClientBegan,
    Grant,
    Item,
    JoinElsewhere,
    JoinRequest,
    JoinWithdrawn,
    Keeper,
    KnownClient,
    KnownDurable,
    KnownMessageIds,
    KnownPlace,
    LastTotal,
    Leaving,
    Listener,
    ListenersChanged,
    ListenersHeard,
    MoveAway,
    NameTaken,
    NotMember,
    Offer,
    ParcelEnd,
    ParcelRows,
    Recollect,
    Recollected,
    Recollection,
    Revived,
    SeenMark,
    ServedInterest,
    Stub,
    Tombstone,
    ValuesRecollected,
    Welcome,
)
from resprout.stacks.resprout.pauses import PausedReader, ReadersPaused
from resprout.stacks.resprout.unsettled import AskUnread, UnreadTold
from resprout.values.rows import RETAIN_KEY, KnownOutcome, KnownValue, ValuesReached
from resprout.wire.codec import FrameReader, FrameWriter
from tests.wire.examples import HELLO, WELCOME, bundle, data

FILE = Path(__file__).parent / "golden" / "conversation.txt"

MARK = Mark("c1", "ordered", 2, 40)
DEAD = (Life("b2", 3),)
LIST = Configuration(4, (Voter("b0", 1, "host:7400"), Voter("b1", 1, "")))
PLACE = Place("b1", 1, 5, "b0", ("b0", "b2"), "host:7401")
VALUE = KnownValue("$kv/cfg/a", 41, "c0", 3, 12, 99, (RETAIN_KEY,), b"", b"ten")
OUTCOME = KnownOutcome("c0", 3, 12, 41, True, 41)
TOTAL = bundle(first=5, keys=("acc-1",), guarantee=Guarantee.TOTAL)

WISH = FormerWish("$a/+", "x > 1")

TERMS = Terms("jobs/#", "amount > 100", True, WhenFull.DROP_OLDEST, 1_000)
RETRIED = msgspec.structs.replace(TERMS, retry=RetryTerms("dead/jobs", 5, 30_000_000))
SPAN = Span("c1", "ordered", 2, 40, 41)
TRIES = Tries("c1", "ordered", 2, 41, 41, 3)
STATE = DurableState(
    "jobs", TERMS, 2, Life("b2", 3), "host:7402", 5, (MARK,), (MARK,), 3, ("w0.jobs",), "beginning", False,
    owner="teller", drops=Drops(9, 7), is_partial=True,
)  # fmt: skip

GROUP = "bank|b0.1"
BALLOT = Ballot(3, "b0.1")

CONVERSATION: dict[str, Any] = {
    "hello": HELLO,
    "welcome": WELCOME,
    "heartbeat": data(),
    "a publication, names in full": data(Publish(bundle())),
    "the next one, names as numbers": data(Publish(bundle(first=2, stamp=300))),
    "keys, one of another topic": data(Publish(bundle(keys=("acc-1", "bank/fr#acc-2"), guarantee=Guarantee.TOTAL))),
    "the same keys, and attributes": data(
        Publish(bundle(keys=("acc-1", "bank/fr#acc-2"), rows=[{"amount": 120, "rate": 0.5, "ok": True, "to": "é"}]))
    ),
    "numbers beyond 32 bits, twice": data(
        Publish(bundle(first=2**40 + 1, stamp=2**33)), Publish(bundle(first=2**40 + 2, stamp=2**33 + 1))
    ),
    "three eventual messages in a bundle": data(
        Publish(bundle(payloads=[b"a", b"", b"ccc"], guarantee=Guarantee.EVENTUAL))
    ),
    "what clients say": data(
        Subscribe(1, "bank/+", "amount > 100"), Subscribe(2, "#", None), Unsubscribe(1), Taken(12),
    ),
    "what brokers say": data(
        Serving("resprout", tuple(Guarantee), 1), Subscribed(1), SubscribeRefused(2, "no"), Unsubscribed(1),
        Turned("ordered", ReceiptLevel.SAFE, 7), PublishRefused("eventual", 3, 2, "full"),
    ),
    "deliveries": data(
        Delivery(bundle("c1", first=9), 3, 6, None),
        Delivery(bundle("c1", first=10, payloads=[b"x", b"y"]), 3, 6, (0, 5)),
    ),
    "a client that lost its broker": data(
        Attend(9), Attend(1 << 40, ("b1", "b2"), (MARK,), (HeldSubscription(1, "bank/+", None, (MARK,)),)),
    ),
    "where to turn": data(
        Serving(
            "resprout", tuple(Guarantee), 1, (Successor("b0", "host:7400"), Successor("b3", "")), False, tuple(Extra)
        ),
        GoTo(Successor("b0", "host:7400")), Successors((Successor("b3", ""),)), Subscribed(1, (MARK,)),
        Delivery(TOTAL, 0, 6, None, True, 1 << 40),
        PlacedDelivery(TOTAL, 0, 6, None, True, 1 << 40, 7), TopicsReached((TopicPlace("bank/pt", 7),)),
    ),
    "what waits, and what never returns": data(
        PublicationWaits("ordered", 5, "b2 is not heard"), ForgetBrokers(("b2", "b3")),
        BrokersForgotten(("b2", "b3"), ""),
    ),
    "who has to wait, and for whom": data(
        HoldTold("b0 has no room on its disk"), HoldTold(""), DeliveriesDropped((SPAN,)), DropsAcknowledged(3),
        ReadersPaused(Life("b2", 3), 7, (PausedReader("c1", ("data/#",), 70_000_000, 2_000_000),), True),
    ),
    "interest between brokers": data(
        Interested(1, "bank/+", "amount > 100"), InterestConfirmed(1), InterestConfirmed(2, (MARK,)), Uninterested(1),
    ),
    "the log between brokers": data(
        Forward(bundle(), 1), Forward(bundle(first=2), 2, True, True), Levels((9, 7), (6, 5), (8,), (4, 3), 2),
    ),
    "totals": data(
        Submit(TOTAL), Submit(TOTAL, True), Lock(0, 1, TOTAL), Lock(0, 1, TOTAL, True), Closed("c0", 1, 5, 70),
        Lock(0, 1, TOTAL, False, True), OrderedTotal(0, 1, TOTAL, 1), OrderedTotal(0, 1, TOTAL, 2, True),
        AlreadyOrdered("c0", 1, 5, 70),
        TotalLevels((TotalLevel("c0", 1, 5, 1, 2, True),)),
    ),
    "totals over a repair": data(
        TotalCopy(0, 1, TOTAL, True), TotalCopy(0, 1, TOTAL, False, True),
    ),
    "signs of life and suspicions": data(
        Ping(1_000_000, 4), Pong(1_000_000, True), Pong(1, False, LIST), Probe(1), Probed(1), Fenced(3),
        Suspect(Life("b2", 3), (Life("b1", 1),), True), Alive("b2"), Orphan(Life("b2", 3)), Gone(Life("b2", 3)),
    ),
    "the root, and waves": data(
        PreVote(1, DEAD, LIST), Vote(1, True), Enrol(2, 1, DEAD, LIST, LIST, Configuration()),
        Enrolled(2, 1, False, DEAD, LIST, (Configuration(),)), Decided(LIST),
        Tell(3, 2, (PLACE,)), Tell(4, 0, (), Registration(DEAD, LIST)), Told(3),
    ),
    "coming and going": data(
        JoinRequest("host:7403"), JoinElsewhere((Offer("b1", "host:7401", 3),)), JoinWithdrawn(), Leaving(),
        MoveAway((Offer("b1", "host:7401", 3), Offer("b2", ""))),
        Welcome(70, 1, LIST, "b0.1.00c0ffee"),
    ),
    "a repair": data(
        AttachRequest(7, DEAD), NotMember(7), Attach(7, "b2", DEAD, 70, 1),
        Grant(7, DEAD, ("b3", "b4"), 71, 1, LIST, True),
        ParcelRows((
            Item(bundle(), -1, 2, False), Stub("c1", "ordered", 2, 40, 41, 69, 1), SeenMark(MARK),
            AskedInterest(1, "bank/+", None, True), ServedInterest("#", "amount > 100"), KnownPlace(PLACE),
            Tombstone(DEAD[0]), Listener("c0", False), Listener("c1", True), KnownClient(Life("c0", 3)),
            KnownLock(0, 1, TOTAL), KnownLock(0, 1, TOTAL, -1, 7, 300), KnownLock(0, 1, TOTAL, active=True),
            KnownLock(0, 1, TOTAL, 70, is_scoped=True, root_ordered=True), RootOrderedTopic("data/1", True),
            LastTotal(MARK), KnownDurable(STATE), VALUE, OUTCOME, ValuesReached(41),
            KnownMessageIds(DurableIds("jobs", (IdBatch(1_800_000_000, bytes(24)),))),
        )),
        ParcelEnd(),
    ),
    "clients, from broker to broker": data(
        ListenersChanged(("c0",), ("c1",)),
        ListenersHeard(("c0",)), ClientBegan("c0", 3),
        Levels((9,), (6,), (), (4,), 2, (Ahead(0, 4, 5), Ahead(-1, 7, 7))),
    ),
    "positions in logs": data(
        AskPosition(5, "bank", "billing", 41, 3, True, "c0ffee"), AskPosition(6, "bank", "billing", -2),
        PositionTold(5, 41, 4, 99), PositionTold(6, -1, 0, 0, "no replica leads the log bank now", True),
        ChangeLog(7, LogChange.CREATE, "bank", "bank/#", ("b0", "b1"), 1 << 30, 0, Flush.ALWAYS, 1 << 24),
        LogChanged(7, "there is a log bank already; it keeps bank/#"),
    ),
    "last values": data(
        Subscribe(9, "state/#", None, retained=True), RetainedDelivery(VALUE.bundle(), 0, 0, None, False, 41, 9),
        AskValues(5, "$kv/cfg/#", "$kv/cfg/a", 4_096, False), ValuesTold(5, (VALUE,), 41, True),
        ValuesTold(6, (), -1, reason="c0 may not subscribe to $kv/cfg/#"),
        AskOutcome(7, 12), OutcomeTold(7, 41, False, 40), ValuesRecollected((VALUE,), (OUTCOME,), 41, True),
    ),
    "whether anybody listens": data(AskAudience(5, ("price/bread", "bank/fr")), AudienceTold(5, False)),
    "the past": data(
        ReadEvents(7, "bank/+", "amount > 100", "b2.0badcafe", 41, 0, 4_096),
        ReadEvents(8, "#", None, "", -1, 10**15, 1), ReadEvents(9, "a", None, "", -2, 0, 1, ("b/#", "c"), 99),
        EventRead(7, bundle(), None, -1, 41, 3, 10**15), EventRead(7, TOTAL, (0, 2), 1 << 40, 42, 3, 10**15 + 1),
        EventsEnd(7, "b2.0badcafe", 43, 12, 99, "", 3),
        EventsEnd(8, "b2.0badcafe", 0, 0, 0, "c0 may not subscribe to #"),
    ),
    "a durable subscription": data(
        Consume("jobs", TERMS, 64), Consume("jobs", TERMS, 64, 3, (SPAN,), (SPAN, SPAN)),
        Consume("jobs", Terms("#", None, False), 1, ends=True, dropped_upto=9, dropped_term=2),
        Consuming(Standing.CONSUMER, "", 3), Consuming(Standing.FENCED, "another consumer has taken over"),
        Consume("jobs", RETRIED, 10, action=DurableAction.PEEK),
        Consume("jobs", TERMS, 1, action=DurableAction.PURGE),
        Handed(bundle(), 2, 9, None, -1, False), Handed(TOTAL, 2, 9, (0,), 1 << 40, True, 3), DropsTold(7, 9, 2),
        Settle(Settlement.NACK, (SPAN,), 5_000_000), Settle(Settlement.TERM, (SPAN, SPAN), 0, "no such order"),
        Settle(Settlement.IN_PROGRESS, (SPAN,)), TakenBack((SPAN,)),
        FollowUp(SPAN, bundle()), FollowedUp(SPAN), FollowedUp(SPAN, "c1 may not publish on bank"),
        Acknowledge((SPAN,)), Acknowledge((SPAN,), 9), Acknowledged((MARK,)), Acknowledged((MARK,), False, (SPAN,)),
        Replayed(), EndSubscription(),
    ),
    "durable subscriptions, from broker to broker": data(
        DurableKnown(STATE), DurableHeard("jobs", 2, 5), DurableDone("jobs", 2, (MARK,), (SPAN,), Drops(9, 7)),
        DurableKnown(msgspec.structs.replace(STATE, tries=(TRIES,))), DurableDone("jobs", 2, (), tries=(TRIES,)),
        DurableIds("jobs", (IdBatch(1_800_000_000, bytes(range(48))), IdBatch(1_800_000_001, bytes(24)))),
    ),
    "publications that are not read": data(AskUnread(3, (MARK,), False), UnreadTold(3, True, False, (8,), False)),
    "after everything had stopped": data(
        Recollect(), Recollected("b2", bundle(), -1, ("b1",)), Recollected("b2", TOTAL, 1 << 40, ()),
        Recollection("b2", Roster("b0.1.00c0ffee", Life("b2", 3), 1, DEAD, DEAD, (), (WISH,), ("c1",))),
        Recollection("b3", None),
        Republished(bundle(), 1, -1, ("b2",)), Revived((Keeper(Life("b2", 3), "b2"),)),
        Whereabouts("b0.1.00c0ffee", False, "host:7402", (1, 3), 2, LIST, (LIST,), DEAD),
        Whereabouts("b0.1.00c0ffee", True),
    ),
    "names, copies and networks": data(
        Seek(5, ("b3", "b4")), Sought(5, (Namesake("b3", 2, "host:7403", "b1", True),), (1, 0), False),
        NameTaken("b3 lives"), SafeCopies("ordered", 8, 1),
    ),
    "a login": Login("teller", "a-nonce-of-a-client"),
    "its challenge": Challenge("a-nonce-of-a-client.and-of-a-broker", (Salt(b"salt", 4096), Salt(b"other", 600_000))),
    "its proof": ProofOfSecret((bytes(range(32)), bytes(32))),
    "its end": ProofAccepted(0, bytes(range(32))),
    "a member": MemberGreeting("b1", 7, bytes(range(32))),
    "its key": MemberProof("b0", 3, bytes(range(32)), bytes(32)),
    "goodbye": Goodbye("done"),
    "logs, between feeders and replicas": data(
        LogAsk("bank", "b1.4", 7), LogTold("bank", "b0.1", ("b0.1", "b1.4"), 3, 9), LogFound("bank", ("b0.1", "b1.4")),
        LogFeed("bank", "b2.3.1.1", 5, b"command"), LogFed("bank", "b2.3.1.1", 4, 5), LogLed("bank", "b0"),
        LogFetch("bank", 7, 65_536), LogEntries("bank", 7, (b"seven", b"eight"), 3, 9),
        LogSettle("bank", 6, "billing", 41, 3, True, "c0ffee"),
        LogSettled("bank", 6, 41, 4, 99, "b1", False, "not here"),
        LogRead("bank", 5, -1, 10**15, 65_536, True), LogPage("bank", 5, 41, (b"seven",), 12, 99, 10**15, 77),
        LogsDeclared((DeclaredLog("bank", "bank/#", ("b0",), 10**15, 2, 1 << 30, 0, Flush.NEVER, 1 << 24),), 77),
        LogCopyAsk("bank", 7, 3, 65_536), LogCopied("bank", 7, 41, 10**15, 5, 3, (b"seven",)),
    ),
    "a replicated log": data(
        Ask(GROUP, BALLOT), Willing(GROUP, BALLOT), Prepare(GROUP, BALLOT, 7),
        Promise(GROUP, BALLOT, 7, 8, (AcceptedEntry(9, BALLOT, SlotEntry(b"command")),)),
        Accept(GROUP, BALLOT, 10, (SlotEntry(b"command"), SlotEntry(lives=("b0.1", "b1.4"))), 9),
        Accepted(GROUP, BALLOT, 10, 11), Refuse(GROUP, BALLOT), Lead(GROUP, BALLOT, 9, 1_000_000, True),
        Follow(GROUP, BALLOT, 1_000_000), Fetch(GROUP, 8), Decisions(GROUP, 9, (SlotEntry(b"command"),)),
        Install(GROUP, Snapshot(8, ("b0.1",), b"state")), Known(GROUP, 9),
    ),
}  # fmt: skip


CODEC = make_codec(RESPROUT.messages)


def transcript() -> str:
    writer = FrameWriter(CODEC)
    return "".join(f"{name}\n  {writer.write(frame).hex()}\n" for name, frame in CONVERSATION.items())


def test_the_bytes_of_the_conversation_are_those_in_the_file() -> None:
    if os.environ.get("RESPROUT_REWRITE_GOLDEN"):
        FILE.write_text(transcript())
    assert transcript() == FILE.read_text()


def test_the_bytes_in_the_file_are_the_conversation() -> None:
    stream = b"".join(bytes.fromhex(line) for line in FILE.read_text().splitlines() if line.startswith("  "))
    assert FrameReader(CODEC).feed(stream) == list(CONVERSATION.values())


def test_the_conversation_leaves_no_message_type_out() -> None:
    said = {type(message) for frame in CONVERSATION.values() for message in getattr(frame, "messages", ())}
    assert said == set(RESPROUT.messages)
