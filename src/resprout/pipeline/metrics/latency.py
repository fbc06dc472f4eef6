"""How long publications took, by guarantee and phase: before, during and after the trouble of a run.

The latency of a delivery is the time since the publish row of the same publication; a delivery belongs to the phase in
which it was *published*. Percentiles are nearest-rank, as in `trace.summary`: always a latency that was observed.

The trouble begins with the first fault that a repair had to answer, and lasts until the last of those repairs has
ended at the last broker. Planned moves, and brokers that leave in good order, are no trouble.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from resprout.core.guarantee import Guarantee
from resprout.pipeline.metrics.observed import Numbers, Observed, ObservedEvent, ObservedPublications
from resprout.pipeline.metrics.repairs import ObservedRepair
from resprout.pipeline.metrics.setting import RunKey
from resprout.pipeline.tables import LatencyRow
from resprout.trace import kinds

ALL: Final = "all"
BEFORE: Final = "before"
DURING: Final = "during"
AFTER: Final = "after"

_FAULTS: Final = frozenset((kinds.CRASH, kinds.FREEZE, kinds.CUT, kinds.PARTITION))


class Trouble(msgspec.Struct, frozen=True):
    begin_us: int
    end_us: int | None
    """None when a repair never ended: there is no after."""

    def phases(self, published_us: Numbers) -> dict[str, npt.NDArray[np.bool_]]:
        before = published_us < self.begin_us
        after = np.zeros_like(before) if self.end_us is None else published_us > self.end_us
        return {BEFORE: before, DURING: ~before & ~after, AFTER: after}


def trouble_in(
    events: Iterable[ObservedEvent], repairs: Sequence[ObservedRepair], clients: frozenset[str]
) -> Trouble | None:
    """None when nothing had to be repaired."""
    forced = [repair for repair in repairs if not repair.is_planned]
    if not forced:
        return None
    begin_us = min(repair.began_us for repair in forced)
    faults_us = [event.time_us for event in events if event.kind in _FAULTS and event.node not in clients]
    ends_us = [repair.ended_us for repair in forced]
    end_us = None if None in ends_us else max(end_us for end_us in ends_us if end_us is not None)
    return Trouble(min([begin_us, *faults_us]), end_us)


class DeliveryWaits(msgspec.Struct, frozen=True):
    """One of each delivery whose publication is known."""

    guarantee: Numbers
    published_us: Numbers
    wait_us: Numbers


def latency_rows(run: RunKey, observed: Observed, trouble: Trouble | None) -> list[LatencyRow]:
    waits = _waits(observed.publications, observed.deliveries)
    rows: list[LatencyRow] = []
    for number, guarantee in _in_order(observed.guarantees):
        chosen = waits.guarantee == number
        published_us, wait_us = waits.published_us[chosen], waits.wait_us[chosen]
        phases: dict[str, npt.NDArray[np.bool_] | slice] = {ALL: slice(None)}
        if trouble is not None:
            phases |= trouble.phases(published_us)
        for phase, of_phase in phases.items():
            if len(phase_us := wait_us[of_phase]):
                rows.append(_row(run, guarantee, phase, phase_us))
    return rows


def _waits(publications: ObservedPublications, deliveries: ObservedPublications) -> DeliveryWaits:
    """Joins deliveries with the first publish row of their publication, which must stand before them."""
    seqs = np.unique(publications.seq)
    ranks = len(seqs) + 1  # the key is one number: of the source, and the rank of the sequence number, however large
    keys, first = np.unique(publications.source * ranks + np.searchsorted(seqs, publications.seq), return_index=True)
    rank = np.searchsorted(seqs, deliveries.seq)
    wanted = deliveries.source * ranks + rank
    place = np.searchsorted(keys, wanted)
    known = _equals(seqs, rank, deliveries.seq) & _equals(keys, place, wanted)
    publication = first[place[known]]
    later = publications.row[publication] < deliveries.row[known]
    published_us = publications.time_us[publication][later]
    delivered_us = deliveries.time_us[known][later]
    return DeliveryWaits(deliveries.guarantee[known][later], published_us, delivered_us - published_us)


def _equals(ordered: Numbers, place: Numbers, values: Numbers) -> npt.NDArray[np.bool_]:
    if not len(ordered):
        return np.zeros(len(values), dtype=np.bool_)
    found: npt.NDArray[np.bool_] = (place < len(ordered)) & (ordered[np.minimum(place, len(ordered) - 1)] == values)
    return found


def _in_order(found: list[str]) -> Iterator[tuple[int, str]]:
    """Known guarantees first, weakest first; words nobody knows after them."""
    labels = [guarantee.label for guarantee in Guarantee]
    for word in [*labels, *sorted(set(found) - set(labels))]:
        if word in found:
            yield found.index(word), word


def _row(run: RunKey, guarantee: str, phase: str, wait_us: Numbers) -> LatencyRow:
    ordered = np.sort(wait_us)
    n = len(ordered)
    median_us, p90_us, p95_us, p99_us, p999_us = (
        int(ordered[-(-n * thousandths // 1000) - 1]) for thousandths in (500, 900, 950, 990, 999)
    )
    return LatencyRow(
        **run,
        guarantee=guarantee,
        phase=phase,
        count=n,
        mean_us=int(ordered.sum()) / n,
        median_us=median_us,
        p90_us=p90_us,
        p95_us=p95_us,
        p99_us=p99_us,
        p999_us=p999_us,
        max_us=int(ordered[-1]),
    )
