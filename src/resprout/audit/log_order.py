"""Rule `log_order`: whether the order of a log agrees with the order that subscribers saw.

A log must obey the rules for a subscriber that received its messages in the order of offsets:

- FIFO: ordered publications of one client and lane have offsets in the order in which they were made.
- Causal order: a `causal` or `total` publication has no lower offset than one that it depends on (`audit.causal`).
- Totals that are bound to each other have offsets in the order of their places, as subscribers were told. The place
  that the log records for a total is the one that subscribers were told.
- Barriers: for each pair of topic and key, a publication that is before a total in the log is not behind that total or
  a later one at any subscriber, nor the reverse.

Totals and barriers are judged only where places prove the order of deliveries.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from resprout.audit.causal import DirectCauses, latest_of, overtaken_by, sources_of
from resprout.audit.history import History
from resprout.audit.logs import LoggedMessage, LogRecord
from resprout.audit.records import PublicationRecord, pair_name
from resprout.audit.totals import ByLife, TotalOrder
from resprout.audit.verdict import Anomaly
from resprout.core.bundle import Pair
from resprout.core.guarantee import Guarantee

RULE: Final = "log_order"
FAR: Final = 1 << 62


class Between(NamedTuple):
    """Places of the totals next to a publication, on one pair of topic and key."""

    after: int = -1
    """Place of the last total before it; -1 if there is none."""
    before: int = FAR
    """Place of the first total behind it."""


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
    """Return the publications of the log in its order, each at its first offset."""
    found: dict[int, tuple[LoggedMessage, PublicationRecord]] = {}
    for message in log.agreed().values():
        p = history.published(message.id)
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
    """Return the place of a total as subscribers were told, or else as the log records it."""
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
    """Return the places of the totals next to each publication that is not a total itself."""
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
