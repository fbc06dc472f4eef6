"""Partition islands and barriers, as seed 001 describes them.

An *island* is a row of up to delta dead brokers: it is passed over, and who returns from it is told what it missed
before it is sent anything (`recovery`). Whatever goes around an island is confirmed as if nothing had happened.

A *barrier* is a row of more. Nobody beyond it can be reached, or is even known here. The broker in front of it is its
detector. Subscriptions that should have gone beyond it are confirmed all the same, with the name of the barrier on
their confirmation, and kept here. When one of the barrier's brokers is back, they are sent on; when all of them are
confirmed, the barrier is over, and everybody is told (`RoutedHeal`). Until then, what is published beyond and comes
through those brokers is marked with the barrier: it has passed brokers that may not know those subscriptions, so
whoever has one that was confirmed with the same name is not shown it. Otherwise somebody could be shown the first and
the third of three publications, because of what others want, and never the second.
"""

from resprout_lab.delta.forwarding import Transit
from resprout_lab.delta.messages import BarrierId, HopPath


class PartitionTable:
    """The barriers that this broker has detected, each with what could not be told beyond."""

    def __init__(self, delta: int) -> None:
        self._delta = delta
        self._kept: dict[BarrierId, dict[int, Transit]] = {}
        """By number here."""
        self._sending: dict[BarrierId, dict[int, None]] = {}
        """Barriers that are open: what is not known beyond yet."""

    def cut(self, transit: Transit, path: HopPath) -> None:
        """Everybody on the path is dead."""
        if len(path) > self._delta:
            barrier = tuple(sorted(path))
            transit.barriers[barrier] = None
            kept = self._kept.setdefault(barrier, {})
            if (undone := transit.message.cancels) is not None:  # those beyond may never have heard of it
                for no in [no for no, one in kept.items() if one.message.key == undone]:
                    del kept[no]
            kept[transit.no] = transit
            self._sending.pop(barrier, None)

    def of(self, name: str) -> tuple[BarrierId, ...]:
        """The barriers that this broker belongs to: what comes from it is marked with them."""
        return tuple(barrier for barrier in self._kept if name in barrier)

    def open(self, name: str) -> list[Transit]:
        """This broker is back: what is to be sent on, in order."""
        found: dict[int, Transit] = {}
        for barrier in self.of(name):
            for no, transit in self._kept[barrier].items():
                transit.barriers.pop(barrier, None)
                found[no] = transit
            self._sending[barrier] = dict.fromkeys(self._kept[barrier])
        return [found[no] for no in sorted(found)]

    def done(self, transit: Transit) -> list[BarrierId]:
        """It is confirmed: which barriers are over."""
        over = []
        for barrier, sending in list(self._sending.items()):
            if sending.pop(transit.no, 0) is None and not sending:
                del self._sending[barrier], self._kept[barrier]
                over.append(barrier)
        return over
