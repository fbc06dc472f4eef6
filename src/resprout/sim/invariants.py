"""The invariants of the default protocol, as code that runs: read it beside "Why it is right" in `docs/protocol.md`.

Each function checks one invariant of one broker, or of one link between two brokers, at the end of a step. It raises
`InvariantError`, which names the broker, the invariant and the values. The checks compare every counter with the sum
that it stands for, so a leak shows in the step that causes it and not when memory runs out.

    bytes      log, links, publishers, subscribers, totals: each byte counter equals the sum over what it counts
    windows    what the stack believes it may send is what the session below it will take; both ends agree
    ladders    `reach`, `level` and every count behind them, recounted from the reports of each link
    I1         a watermark per origin: everything in the log is at or below it, and it never falls
    I2         what a reader has not taken is in the log, and in f others of the tree
    I5         both ends of a link number the same bundles in the same order
    I7         places, final stamps and deliveries of totals have one order, the same at every broker
    I9         the hold-back line: log order, nothing in it that could be shown, nothing passes a total

`resprout.sim.checking` decides when which broker is checked.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from resprout.core.bundle import STOWED_COST, Origin, StowedBundle
from resprout.core.message_fields import Reached
from resprout.core.seen import Ranges
from resprout.edge.broker.session import ENTRY_BYTES, ClientSession
from resprout.links.link import LinkSession
from resprout.order.entry import Entry, Follower
from resprout.order.link import Link, Track
from resprout.order.log_holdback import Line
from resprout.order.messages import TotalId
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.forwarding import crosses
from resprout.stacks.resprout.parts import BrokerParts
from resprout.stacks.resprout.values import ValueItem

Sessions = Mapping[str, LinkSession]
"""The sessions of a broker's links layer, by peer."""


class InvariantError(AssertionError):
    """A broker is in a state that the protocol excludes."""

    def __init__(self, broker: str, invariant: str, detail: str) -> None:
        super().__init__(f"{broker} breaks the invariant {invariant!r}: {detail}")
        self.broker = broker
        self.invariant = invariant


def check_broker(broker: ResproutBroker, sessions: Sessions) -> None:
    """Check everything that one broker knows of itself."""
    parts = broker.parts
    unread = unread_items(broker)
    check_log_bytes(parts)
    check_publisher_bytes(parts)
    check_subscriber_bytes(parts, unread)
    check_total_bytes(parts)
    check_windows(parts, sessions)
    check_ladders(parts, unread)
    check_seen(parts)
    check_hold_back(parts)
    check_places(parts)


# -- bytes: each counter is the sum over what it counts ----------------------------------------------------------------


def check_log_bytes(parts: BrokerParts) -> None:
    """The log counts each entry that it stores once, at its cost in memory."""
    log = parts.log
    stored = 0
    for no, entry in log.entries.items():
        bundle = entry.bundle
        if bundle is None or entry.no != no:
            raise _broken(parts, "bytes", f"place {no} of the log holds {entry!r} with place {entry.no}")
        if entry.cost != (STOWED_COST if type(bundle) is StowedBundle else bundle.cost):
            raise _broken(parts, "bytes", f"{entry!r} counts {entry.cost} bytes, its bundle {bundle.cost}")
        stored += entry.cost
    _equal(parts, "bytes", "bytes of the log", log.bytes_held, stored)
    _equal(parts, "bytes", "bytes that found no room on disk", log.stuck_bytes, sum(e.cost for e in log.stuck))


def check_publisher_bytes(parts: BrokerParts) -> None:
    """A local publisher is charged for what is not safe or waits for a link, a neighbour for what waits for a link."""
    log = parts.log
    local: Counter[str] = Counter()
    held: Counter[Link] = Counter()
    for entry in log.entries.values():
        if entry.source is None:
            if entry.waits or not entry.shown:
                local[entry.publisher] += entry.cost
        elif entry.waits:
            held[entry.source] += entry.cost
    _equal(parts, "bytes", "bytes charged to local publishers", log.local, dict(local))
    queued = 0
    for session in parts.sessions.all.values():
        waiting = sum(message.bundle.cost for message in session.waiting) if session.waiting else 0
        _equal(parts, "bytes", f"bytes that {session.name} has waiting", session.waiting_bytes, waiting)
        queued += waiting
    _equal(parts, "bytes", "bytes of all local publishers", log.local_bytes, sum(local.values()) + queued)
    for link in parts.links.values():
        _equal(parts, "bytes", f"bytes charged to {link.name}", link.held_bytes, held[link])


def check_subscriber_bytes(parts: BrokerParts, unread: Mapping[ClientSession, list[Entry]]) -> None:
    """A session counts the bytes that it keeps in the log: what its client was shown and has not taken, and what was
    dropped without an acknowledgement so far."""
    for session in parts.sessions.all.values():
        owed = 0
        for entry in unread[session]:
            is_kept = entry.no in parts.log.entries or type(entry) is ValueItem
            if entry.bundle is None or not is_kept or not entry.shown:
                raise _broken(parts, "I2", f"{session.name} has not taken {entry!r}, which is not in the log as shown")
            owed += ENTRY_BYTES + entry.bundle.cost
        counted = session.owed_bytes + session.dropped_bytes
        _equal(parts, "bytes", f"unread bytes of {session.name}", counted, owed)
        if not session.is_inner:
            _equal(parts, "bytes", f"deliveries to {session.name}", session.gave - session.taken, len(session.given))


def check_total_bytes(parts: BrokerParts) -> None:
    """Totals under way are counted for each publisher, and for all."""
    backlog = parts.totals.backlog
    if not backlog.count and not backlog._of:
        _equal(parts, "bytes", "bytes of totals under way", backlog._bytes, 0)
        return
    by_publisher = {name: sum(bundle.cost for bundle in own.values()) for name, own in backlog._of.items()}
    _equal(parts, "bytes", "bytes of totals under way by publisher", backlog._bytes_of, by_publisher)
    _equal(parts, "bytes", "bytes of totals under way", backlog._bytes, sum(by_publisher.values()))
    _equal(parts, "bytes", "totals under way", backlog.count, sum(map(len, backlog._of.values())))
    known = parts.totals.submissions.waiting.keys() | parts.totals.locks.undelivered.keys()
    _equal(parts, "bytes", "names of totals under way", {id for own in backlog._of.values() for id in own}, known)


# -- windows -----------------------------------------------------------------------------------------------------------


def check_windows(parts: BrokerParts, sessions: Sessions) -> None:
    """The stack knows exactly how much each session still takes; only what costs something waits, and only for room."""
    for peer, lane in parts.outbox._lanes.items():
        if lane.queue and (lane.room > 0 or not lane.queue[0].cost):
            raise _broken(parts, "windows", f"{lane.queue[0]!r} waits for {peer} with {lane.room} bytes of room")
        if (session := sessions.get(peer)) is not None:
            _equal(parts, "windows", f"room of {peer}", lane.room, session.announced - session.sent_bytes)
    for client in parts.sessions.all.values():
        if client.backlog and client.room > 0 and not client.is_inner:
            raise _broken(parts, "windows", f"{len(client.backlog)} deliveries wait for {client.name} with room")
        if (session := sessions.get(client.name)) is not None:
            _equal(parts, "windows", f"room of {client.name}", client.room, session.announced - session.sent_bytes)
    for session in sessions.values():
        check_session(parts.life.seat.name, session)


def check_session(name: str, session: LinkSession) -> None:
    """A session stores what is not acknowledged, and has sent no more than was granted, but for one message."""
    where = f"session with {session.peer}"
    waiting = session.sent - session.confirmed
    if not len(session.outbox) == len(session.ends) == len(session.weights) == waiting:
        raise InvariantError(name, "windows", f"{where}: {len(session.outbox)} messages for {waiting} unacknowledged")
    if not session.confirmed <= session.shipped <= session.sent or session.confirmed_bytes > session.sent_bytes:
        counts = (session.confirmed, session.shipped, session.sent)
        raise InvariantError(name, "windows", f"{where}: confirmed, shipped and sent are {counts}")
    if waiting and (session.ends[-1], session.weights[-1]) != (session.sent_bytes, session.weight):
        raise InvariantError(name, "windows", f"{where}: {session.ends[-1]} bytes queued of {session.sent_bytes}")
    if session.limit > session.grant or session.told_granted > session.granted:
        raise InvariantError(name, "windows", f"{where}: {session.limit} may be sent, {session.grant} is granted")


def check_session_ends(name: str, session: LinkSession, far: LinkSession) -> None:
    """What one end counts as sent, the other receives; neither is ahead of the other."""
    pairs = (
        ("messages acknowledged", session.confirmed, far.received, session.sent),
        ("bytes acknowledged", session.confirmed_bytes, far.received_bytes, session.sent_bytes),
        ("bytes granted", session.grant, far.told_granted, far.granted),
    )
    for what, low, middle, high in pairs:
        if not low <= middle <= high:
            detail = f"session with {session.peer}: {what} {low}, {middle} at the other end, {high} at most"
            raise InvariantError(name, "windows", detail)


# -- ladders -----------------------------------------------------------------------------------------------------------


class Expected:
    """The counts of one entry as the links and readers say."""

    __slots__ = ("lacking", "reach_lacking", "readers", "undone", "waits")

    def __init__(self, faults: int) -> None:
        self.reach_lacking = [0] * faults
        self.lacking = [0] * (faults + 1)
        self.undone = 0
        self.waits = 0
        self.readers = 0


def check_ladders(parts: BrokerParts, unread: Mapping[ClientSession, list[Entry]]) -> None:
    """Each count of an entry is the number of neighbours and readers that have not reported; levels follow counts."""
    faults = parts.life.faults
    for entry, expected in _recount(parts, unread).items():
        if entry.no < 0:
            continue  # a repeat, which is counted on its link and stored nowhere
        lacking = expected.lacking
        pins = expected.readers + (not entry.shown)
        lacking[0] += pins > 0
        counted = (entry.reach_lacking, entry.lacking, entry.pins, entry.undone, entry.waits)
        recounted = (expected.reach_lacking, lacking, pins, expected.undone, expected.waits)
        if counted != recounted:
            names = "reach_lacking, lacking, pins, undone, waits"
            raise _broken(parts, "ladders", f"{entry!r} counts {counted}, its links and readers {recounted} ({names})")
        if (entry.reach < faults and not entry.reach_lacking[entry.reach]) or (
            entry.level <= faults and not lacking[entry.level]
        ):
            raise _broken(parts, "ladders", f"{entry!r} may rise: reach {entry.reach}, {counted}")
        if min(entry.level, faults, 1) > entry.reach:
            raise _broken(parts, "ladders", f"{entry!r} is taken next door (level), and not there (reach 0)")
        if (entry.bundle is None) != (entry.level > faults) or (entry.bundle is not None) != (
            parts.log.entries.get(entry.no) is entry
        ):
            raise _broken(
                parts, "ladders", f"{entry!r} has level {entry.level} of {faults + 1}: it is stored until then"
            )


def _recount(parts: BrokerParts, unread: Mapping[ClientSession, list[Entry]]) -> dict[Entry, Expected]:
    faults, log = parts.life.faults, parts.log
    found = {entry: Expected(faults) for entry in log.entries.values()}

    def of(entry: Entry) -> Expected:
        expected = found.get(entry)
        if expected is None:
            expected = found[entry] = Expected(faults)
        return expected

    for link in parts.links.values():
        for number, entry in link.sent.entries.items():
            _count_sent(of(entry), link, number)
        for number, entry in link.arrived.entries.items():
            _count_arrived(of(entry), link, number)
        if link.cursor is not None:
            for entry in log.entries.values():
                if entry.no >= link.cursor and entry.source is not link and crosses(entry):
                    _count_waiting(of(entry))
    for id, entry in parts.total_acks.entries.items():
        expected = of(entry)
        for reach, level, done in parts.total_acks.heard[id].values():
            for at in range(faults):
                expected.reach_lacking[at] += reach < at
                expected.lacking[at + 1] += level < at + 1
            expected.lacking[0] += reach < 0
            expected.undone += not done
    for _, stand_in in parts.delivering.stand_ins.values():
        of(stand_in).undone += 1
    for entries in unread.values():
        for entry in entries:
            of(entry).readers += 1
            of(entry).undone += 1
    for followers in parts.log.repeats.followers.values():
        for follower in followers:
            _count_follower(of(follower.repeat), follower)
    for entry in parts.log.held_back:
        of(entry).readers += len(entry.readers)
        of(entry).undone += len(entry.readers)
    return found


def _count_sent(expected: Expected, link: Link, number: int) -> None:
    heard = link.heard
    for at, reported in enumerate(heard.firm):
        expected.reach_lacking[at] += heard.have[at] < number
        expected.lacking[at + 1] += number not in reported
    expected.lacking[0] += heard.have[0] < number
    expected.undone += number not in heard.done


def _count_arrived(expected: Expected, link: Link, number: int) -> None:
    heard = link.heard
    for at, count in enumerate(heard.back_have):
        expected.reach_lacking[at + 1] += count < number
    for at, reported in enumerate(heard.back_firm):
        expected.lacking[at + 1] += number not in reported


def _count_follower(expected: Expected, follower: Follower) -> None:
    for at in range(follower.reach, len(expected.reach_lacking)):
        expected.reach_lacking[at] += 1
    for at in range(follower.level, len(expected.lacking)):
        expected.lacking[at] += 1


def _count_waiting(expected: Expected) -> None:
    expected.reach_lacking = [count + 1 for count in expected.reach_lacking]
    expected.lacking = [count + 1 for count in expected.lacking]
    expected.undone += 1
    expected.waits += 1


def unread_items(broker: ResproutBroker) -> dict[ClientSession, list[Entry]]:
    """By session: what it was shown and has not taken, or what was dropped and the client has not acknowledged."""
    unread: dict[ClientSession, list[Any]] = {}
    for session in broker.parts.sessions.all.values():
        unread[session] = session.unfinished()
    for held in broker.parts.durables.consumers.held.values():
        queue = held.queue
        portions = [*queue.portions()]
        unread[queue.session] += {id(portion.item): portion.item for portion in portions}.values()
        unread[queue.session] += [*queue.dropped_items]
    return unread


# -- I1: a watermark per origin is an exact test for repeats -----------------------------------------------------------


def check_seen(parts: BrokerParts) -> None:
    """What is in the log was seen; of one origin, it came in order."""
    last: dict[Origin, int] = {}
    entries = parts.log.entries
    for no in sorted(entries):  # an entry that a repair took back stands at the end of the table
        entry = entries[no]
        origin = entry.origin
        if entry.last > parts.seen.mark(origin):
            raise _broken(parts, "I1", f"{entry!r} is in the log, and seen up to {parts.seen.mark(origin)}")
        if not entry.is_backup and entry.tseq < 0 and entry.restored is None:
            if entry.first <= last.get(origin, 0):
                raise _broken(parts, "I1", f"{entry!r} is behind {last[origin]} of its origin in the log")
            last[origin] = entry.last


def check_seen_grows(parts: BrokerParts, before: Mapping[Origin, Reached]) -> dict[Origin, Reached]:
    """Watermarks never fall. Returns them as they are now."""
    now = {mark.origin: mark.seq for mark in parts.seen.marks()}
    for origin, reached in before.items():
        if now.get(origin, 0) < reached:
            raise _broken(parts, "I1", f"{origin} was seen up to {reached}, now up to {now.get(origin)}")
    return now


# -- I2: nothing that was shown can vanish -----------------------------------------------------------------------------


def check_copies(brokers: Sequence[BrokerParts], is_forgotten: Callable[[Entry], bool]) -> None:
    """What a reader has not taken is at f + 1 brokers, or at all of a smaller tree. A repair copies it to neighbours
    only, so it is enough that a broker with fewer than f neighbours has it, and all of those (decision 10): the reader
    may be at one of them. `brokers` are all brokers of one tree, no repair is going on, and nothing is on its way
    between them.

    A bundle is where a log has it. A total is also where its lock is: the lock has the bundle, is part of every repair,
    and stays when the log forgets the total, until everybody is known to have taken it (`TotalAcks.forget`). So when a
    broker has dropped the lock, nobody is owed the total. A ghost may read it all the same, if reports about it were
    under way when a broker died: its clients have it, and say so when they return. `is_forgotten` tells whether some
    broker of the tree has dropped the lock of a total."""
    copies: Counter[tuple[Origin, int]] = Counter()
    kept: dict[str, set[tuple[Origin, int]]] = {}
    for parts in brokers:
        locks = {(record.bundle.origin, record.bundle.last) for record in parts.totals.locks.records.values()}
        mine = kept[parts.life.seat.name] = {(entry.origin, entry.last) for entry in parts.log.entries.values()} | locks
        copies.update(mine)
    for parts in brokers:
        enough = min(parts.life.faults + 1, len(brokers), 1 + len(parts.links))
        for entry in parts.log.entries.values():
            if not entry.shown or not entry.pins or copies[entry.origin, entry.last] >= enough:
                continue
            if entry.tseq >= 0:
                if _is_for_ghosts(parts, entry) and is_forgotten(entry):
                    continue
                holders = {name for name, mine in kept.items() if (entry.origin, entry.last) in mine}
            else:  # repeats may be bundled differently
                holders = {other.life.seat.name for other in brokers if _is_stored(entry, other)}
            count = len(holders)
            if count < enough and not _fills_neighbourhood(holders, brokers):
                raise _broken(parts, "I2", f"{entry!r} is unread here, and at {count} of {len(brokers)} brokers")


def _fills_neighbourhood(holders: set[str], brokers: Sequence[BrokerParts]) -> bool:
    """Whether one of these brokers has fewer than f neighbours, and all of those are among them."""
    few = [parts for parts in brokers if parts.life.seat.name in holders and len(parts.links) < parts.life.faults]
    return any(holders.issuperset(parts.links) for parts in few)


def _is_for_ghosts(parts: BrokerParts, entry: Entry) -> bool:
    """Whether nobody but ghosts has still to take it."""
    sessions = parts.sessions.all.values()
    return not any(entry in session.unfinished() for session in sessions if session.name not in parts.ghosts)


def _is_stored(entry: Entry, parts: BrokerParts) -> bool:
    """Whether the log of a broker has every publication of the entry."""
    missing = set(range(entry.first, entry.last + 1))
    for other in parts.log.entries.values():
        if other.origin == entry.origin:
            missing.difference_update(range(other.first, other.last + 1))
    return not missing


# -- I5: both ends of a link count alike -------------------------------------------------------------------------------


def check_link_ends(parts: BrokerParts, link: Link, far: Link) -> None:
    """`far` is the same link at the neighbour. What one end sent, the other took, under the same numbers."""
    _check_direction(parts, link.name, link.sent, far.arrived)
    heard, told = link.heard, far.told
    for what, low, high in (("have", heard.have, told.have), ("back_have", heard.back_have, told.back_have)):
        if any(one > other for one, other in zip(low, high, strict=True)):
            raise _broken(parts, "I5", f"{link.name} told {what} {high}, and {low} was heard of it")
    rungs = zip((heard.done, *heard.firm, *heard.back_firm), (told.done, *told.firm, *told.back_firm), strict=True)
    for heard_rung, told_rung in rungs:
        if not _is_within(heard_rung, told_rung):
            raise _broken(parts, "I5", f"{link.name} reported up to {told_rung.upto}, {heard_rung.upto} was heard")


def _check_direction(parts: BrokerParts, name: str, sent: Track, arrived: Track) -> None:
    if arrived.count > sent.count:
        raise _broken(parts, "I5", f"{sent.count} bundles were sent to {name}, {arrived.count} came")
    for number, entry in sent.entries.items():
        other = arrived.entries.get(number)
        if other is not None and (entry.origin, entry.last) != (other.origin, other.last):
            raise _broken(parts, "I5", f"number {number} to {name} is {entry!r} here and {other!r} there")


def _is_within(inner: Ranges, outer: Ranges) -> bool:
    return inner.upto <= outer.upto and all(outer.holds(first, last) for first, last in inner.islands())


# -- I7: places, stamps and deliveries of totals have one order --------------------------------------------------------


def check_places(parts: BrokerParts) -> None:
    """Undelivered totals stand in the order of their places, with growing floors; stamps of delivered ones grow."""
    locks = parts.totals.locks
    for one, next_one in pairwise(locks._line):
        if one.place >= next_one.place:
            raise _broken(parts, "I7", f"{one.id} at {one.place} stands before {next_one.id} at {next_one.place}")
        if next_one.active and (not one.active or 0 < one.floor >= next_one.floor):  # 0: from before this broker came
            floors = (one.floor, next_one.floor)
            raise _broken(parts, "I7", f"floors of {one.id} and {next_one.id} are {floors}, in the order of places")
    _equal(parts, "I7", "totals in line", [record.id for record in locks._line], list(_in_places(locks.undelivered)))
    delivered = sorted((r.place, r.stamp) for r in locks.records.values() if r.stamp is not None)
    for (place, stamp), (later, higher) in pairwise(delivered):
        if stamp >= higher:
            raise _broken(parts, "I7", f"the total at {place} has stamp {stamp}, the one at {later} has {higher}")

    shown = -1
    for no in sorted(parts.log.entries) if delivered else ():
        entry = parts.log.entries[no]
        # Totals without readers are copies for others. A ghost hands out what it reads in the order of stamps.
        if entry.tseq >= 0 and any(not reader.name.startswith("~") for reader in entry.readers):
            if entry.tseq <= shown:
                raise _broken(parts, "I7", f"{entry!r} is delivered at place {entry.tseq}, behind {shown}")
            shown = entry.tseq


def _in_places(records: Mapping[TotalId, Any]) -> list[TotalId]:
    return sorted(records, key=lambda id: records[id].place)


# -- I9: nothing is shown before what it depends on --------------------------------------------------------------------


def check_hold_back(parts: BrokerParts) -> None:
    """Whatever is not shown stands in line once, in log order; the first may not be shown yet."""
    log, line = parts.log, parts.log.held_back
    for each in (line._ordered, line._eventual):
        _check_line(parts, each)
    waiting = {entry.no for entry in line}
    _equal(parts, "I9", "places in line", waiting, {no for no, entry in log.entries.items() if not entry.shown})


def _check_line(parts: BrokerParts, line: Line) -> None:
    entries = line.entries
    if not entries:
        return
    first, behind_total = entries[0], False
    if first.shown or parts.log.is_safe(first):
        raise _broken(parts, "I9", f"{first!r} is first in line, and {'shown' if first.shown else 'safe'}")
    if line.free and line.free[0][0] < first.no and not line.free[0][2].shown:
        raise _broken(parts, "I9", f"{line.free[0][2]!r} may pass {first!r}, and waits")
    before = -1
    for entry in entries:
        if entry.no <= before:
            raise _broken(parts, "I9", f"{entry!r} stands in line behind place {before}")
        if entry.shown and behind_total:
            raise _broken(parts, "I9", f"{entry!r} has passed a total that is not shown")
        before, behind_total = entry.no, behind_total or (entry.tseq >= 0 and not entry.shown)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _broken(parts: BrokerParts, invariant: str, detail: str) -> InvariantError:
    return InvariantError(f"{parts.life.seat.name}.{parts.life.seat.incarnation}", invariant, detail)


def _equal(parts: BrokerParts, invariant: str, what: str, counted: Any, expected: Any) -> None:
    if counted != expected:
        raise _broken(parts, invariant, f"{what}: counted {counted}, really {expected}")
