"""FIFO: at each subscriber, the ordered publications of one client, and of one lane, come in the order of (incarnation,
seq).

Every publication that comes after a later one of its client is an anomaly. The eventual stream may overtake, and is not
looked at.
"""

from collections.abc import Iterator

from resprout.audit.history import History
from resprout.audit.verdict import Anomaly


def check_fifo(history: History) -> Iterator[Anomaly]:
    publications = history.publications
    for life in history.lives:
        newest: dict[tuple[str, str], int] = {}
        for number in life.sequence:
            p = publications[number]
            if not p.ordered:
                continue
            publisher, incarnation, _, seq = p.id
            last = newest.get((publisher, p.lane))
            if last is None:
                newest[publisher, p.lane] = number
                continue
            other = publications[last].id
            if (incarnation, seq) > (other[1], other[3]):
                newest[publisher, p.lane] = number
                continue
            d, name, later = life.first[number], history.name(number), history.name(last)
            text = (
                f"{life.name} delivered {name} at {d.position} after {later} at {life.first[last].position}, "
                f"though {publisher} published it first"
            )
            yield Anomaly("fifo", d.time_us, life.node, (name, later), text)
