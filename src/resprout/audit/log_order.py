"""Whether a log agrees with the order that subscribers saw.

A log is held against the rules of a subscriber that was given its messages in the order of offsets:

- FIFO: the ordered publications of one client, and of one lane, come in the order they were made.
- Causal order: a `causal` or `total` publication does not come before anything in the log that it depends on; see
  `audit.causal` for what that is.
- Totals that are bound to each other come in the order of the places that subscribers were told; what the log says of
  the place of a total is what subscribers were told.
- Barriers: for each pair of topic and key, no publication is before a total in the log, and behind it or a later one at
  a subscriber, nor the other way round.

Totals and barriers are judged where the places prove the order of deliveries, and contradict no log.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from resprout.audit.causal import DirectCauses, latest_of, overtaken_by, sources_of
from resprout.audit.history import History
from resprout.audit.logs import LoggedMessage, LogRecord, published
from resprout.audit.records import PublicationRecord, pair_name
from resprout.audit.totals import ByLife, TotalOrder
from resprout.audit.verdict import Anomaly
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee

RULE: Final = "log_order"
FAR: Final = 1 << 62


class Between(NamedTuple):
    """The places of the totals around a publication, on one pair."""

    after: int = -1
    """Of the last one before it, -1 for none."""
    before: int = FAR
    """Of the first one behind it."""


Sequence = list[tuple[LoggedMessage, PublicationRecord]]


def check_order(
    history: History, log: LogRecord, links: DirectCauses, groups: Mapping[Pair, ByLife], order: TotalOrder
) -> Iterator[Anomaly]:
    line = sequence_of(history, log)
    yield from _fifo(history, log, line)
    yield from _causal(history, log, line, links)
    if order.witnessed:
        wrong = list(_totals(history, log, line))
        yield from wrong
        if not wrong:
            yield from _barriers(history, log, line, groups)


def sequence_of(history: History, log: LogRecord) -> Sequence:
    """What was published, each publication where the log has it first."""
    found: dict[int, tuple[LoggedMessage, PublicationRecord]] = {}
    for message in log.agreed().values():
        p = published(history, message.id)
        if p is not None:
            found.setdefault(p.number, (message, p))
    return list(found.values())


def _fifo(history: History, log: LogRecord, line: Sequence) -> Iterator[Anomaly]:
    newest: dict[tuple[str, str], tuple[tuple[str, int, str, int], int]] = {}
    for message, p in line:
        if p.ordered and (later := overtaken_by(newest, (p.id[0], p.lane), p.id, message.position)) is not None:
            other = history.naming.message(later[0])
            what = f"behind {other} at {later[1]}, though {p.id[0]} published it first"
            yield _anomaly(history, log, message, p, what, other)


def _causal(history: History, log: LogRecord, line: Sequence, links: DirectCauses) -> Iterator[Anomaly]:
    places = [-1] * len(history.publications)
    for message, p in line:
        if p.ordered:
            places[p.number] = message.position
    latest = latest_of(links, places)
    late = [
        (message, p) for message, p in line if p.guarantee >= Guarantee.CAUSAL and latest[p.number] > message.position
    ]
    sources = sources_of(links, places) if late else []
    for message, p in late:
        cause = sources[p.number]
        other = history.name(cause)
        yield _anomaly(history, log, message, p, f"before {other} at {places[cause]}, on which it depends", other)


def place_of(history: History, message: LoggedMessage, p: PublicationRecord) -> int | None:
    """What subscribers were told of a total, or else the log."""
    told = history.tseq.get(p.number)
    return told if told is not None else message.tseq


def _totals(history: History, log: LogRecord, line: Sequence) -> Iterator[Anomaly]:
    highest: dict[Pair, tuple[int, LoggedMessage]] = {}
    for message, p in line:
        if p.guarantee is not Guarantee.TOTAL:
            continue
        told = history.tseq.get(p.number)
        if told is not None and message.tseq is not None and told != message.tseq:
            what = f"as the total at {message.tseq}, and subscribers were told {told}"
            yield _anomaly(history, log, message, p, what)
        place = place_of(history, message, p)
        if place is None:
            continue
        wrong: tuple[Pair, int, LoggedMessage] | None = None
        for pair in p.lines:
            before = highest.get(pair)
            if before is not None and before[0] > place:
                wrong = wrong or (pair, *before)
            else:
                highest[pair] = (place, message)
        if wrong is not None:
            pair, other_place, behind = wrong
            other = history.naming.message(behind.id)
            what = f"behind {other} at {behind.position}, though their places are {place} and {other_place}"
            yield _anomaly(history, log, message, p, f"{what} (both name {pair_name(pair)})", other)


def _barriers(history: History, log: LogRecord, line: Sequence, groups: Mapping[Pair, ByLife]) -> Iterator[Anomaly]:
    at = {p.number: message for message, p in line}
    kept = {p.number: place_of(history, message, p) for message, p in line if p.guarantee is Guarantee.TOTAL}
    of_pair: dict[Pair, list[int]] = {}
    for _, p in line:
        for pair in p.lines if p.ordered else ():
            if pair in groups:
                of_pair.setdefault(pair, []).append(p.number)
    for pair, numbers in of_pair.items():
        mine = around(history, numbers, kept)
        seen: dict[int, tuple[Between, int]] = {}
        for life, heard in groups[pair].items():
            for number, between in around(history, heard, history.tseq).items():
                if number in mine and number not in seen and _contradict(between, mine[number]):
                    seen[number] = (between, life)
        for number, (_, life) in seen.items():
            p = history.publications[number]
            name = history.lives[life].name
            what = f"on the other side of a total than {name} was given it (both name {pair_name(pair)})"
            yield _anomaly(history, log, at[number], p, what)


def around(history: History, numbers: list[int], places: Mapping[int, int | None]) -> dict[int, Between]:
    """For each publication but totals, the places of the totals around it."""
    found: dict[int, Between] = {}
    waiting: list[int] = []
    last = -1
    for number in numbers:
        if history.publications[number].guarantee is not Guarantee.TOTAL:
            found[number] = Between(last)
            waiting.append(number)
        elif (place := places.get(number)) is not None:
            for before in waiting:
                found[before] = Between(found[before].after, place)
            waiting.clear()
            last = place
    return found


def _contradict(one: Between, other: Between) -> bool:
    return one.after >= other.before or other.after >= one.before


def _anomaly(
    history: History, log: LogRecord, message: LoggedMessage, p: PublicationRecord, what: str, *others: str
) -> Anomaly:
    name = history.name(p.number)
    text = f"{log.name}: it has {name} at {message.position}, {what}"
    return Anomaly(RULE, message.time_us, log.name, (name, *others), text)
