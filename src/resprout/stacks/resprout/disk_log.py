"""The log of this broker on its disk: what makes `safe` mean *on disk at f + 1 brokers*.

An entry is written in the step that accepts it. What that step says of it (forwarding, reports, deliveries) leaves the
broker when the record is durable (`stacks.shell`). The record is forgotten when the entry has left the log: then
everybody who could need it from here has taken it. Records are forgotten from the oldest on, so those that are needed
are written again when they are the fewer ones.

Beside each bundle stands who was to have it, and before a record goes, that it was here: `former` reads that after a
restart.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from resprout.core.bundle import Origin, StowedBundle, whole
from resprout.core.message_fields import Mark, Marks, Reached, raise_to, to_marks
from resprout.core.seen import ORIGINS_KEPT
from resprout.edge.broker.sessions import ClientSessions
from resprout.edge.durable_messages import Drops, IdBatches, Spans, Tries
from resprout.filters.index import MatchIndex
from resprout.filters.predicate import Predicate
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.overlay.messages import Life
from resprout.stacks.resprout.durable_state import DurableState
from resprout.stacks.resprout.former import (
    Former,
    FormerWish,
    KeptDone,
    KeptDurable,
    KeptIds,
    KeptListeners,
    KeptMarks,
    KeptReached,
    KeptRoster,
    KeptWish,
    KeptWrite,
    Roster,
    bundle_record,
    encode,
)
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.values.store import AppliedWrite, LastValues

SLACK: Final = 16
"""So many records that nobody needs are not worth writing others again."""
LIVES_CARRIED: Final = 64
"""A restart of everything that fails adds its own life to those in the roster only up to here. The oldest lives count:
later ones served nobody."""


class DiskLog:
    def __init__(
        self,
        life: BrokerLife,
        links: dict[str, Link],
        sessions: ClientSessions,
        lost: LostBrokers,
        index: MatchIndex[str],
        durables: Callable[[], Iterable[DurableState]],
        values: Callable[[], LastValues],
        ids: Callable[[], Iterable[tuple[str, IdBatches]]],
    ) -> None:
        """`index` holds the subscriptions of clients and ghosts. `durables` returns all durable subscriptions, and
        `values` all last values, as they are now. `ids`: by subscription, of messages that came lately."""
        self._ids = ids
        self._index = index
        self._durables = durables
        self._values = values
        self._life = life
        self._links = links
        self._sessions = sessions
        self._lost = lost
        self.former = Former()
        self._old = 0
        """Records of the life before, which are kept until what they say is in the log again, or not needed."""
        self._kept: deque[tuple[Entry | None, tuple[str, ...]]] = deque()
        """What has a record, oldest first, and the neighbours that were to have it; None for what is no entry."""
        self._roster: Roster | None = None
        self._stands: tuple[Any, ...] = ()
        """What was looked at when it was written."""
        self._hidden: set[FormerWish] = set()
        """Subscriptions that are hidden from wildcards and have a record, in the roster or behind it."""
        self._gone: dict[tuple[str, str, int], int] = {}
        """How far origins had come in entries whose records are gone."""
        self._moved: dict[str, None] = {}
        self._listening: dict[str, None] = {}
        self._durable: set[str] = set()
        """Durable subscriptions that have a record."""
        self._base: tuple[dict[Origin, Reached], dict[Origin, Reached]] = ({}, {})
        """What was retained, and that with what has a record."""

    # -- what is written -----------------------------------------------------------------------------------------------

    def keep(self, entry: Entry, sent_to: Iterable[str]) -> None:
        """Write an entry that the log has accepted, with its readers and the neighbours that it goes to."""
        assert entry.bundle is not None
        neighbours = tuple(sent_to)
        readers = [session.name for session in entry.readers]
        self._kept.append((entry, neighbours))
        self._life.persist(bundle_record(whole(entry.bundle), entry.place, readers, neighbours))

    def moved(self, client: str) -> None:
        """Write that a client has come from another broker: it will be given what was shown before it came."""
        if client not in self._moved:
            self._moved[client] = None
            self._write_roster()

    def listeners(self, came: Sequence[str], went: Sequence[str]) -> None:
        """Write which clients with subscriptions this broker stands for from now on, and for which no longer."""
        self._listening.update(dict.fromkeys(came))
        for name in went:
            self._listening.pop(name, None)
        self._write(KeptListeners(tuple(came), tuple(went)))

    def durable(self, state: DurableState) -> None:
        """Write the state of a durable subscription."""
        self._durable.add(state.subscription)
        self._write(KeptDurable(state))

    def durable_done(
        self, subscription: str, term: int, marks: Marks, spans: Spans, drops: Drops, tries: tuple[Tries, ...]
    ) -> None:
        self._write(KeptDone(subscription, term, marks, spans, drops, tries))

    def durable_ids(self, subscription: str, ids: IdBatches) -> None:
        self._write(KeptIds(subscription, ids))

    def wrote(self, applied: AppliedWrite) -> None:
        """Write what a retained publication did."""
        self._write(KeptWrite(*applied))

    def all_values(self) -> None:
        """Write all last values and outcomes, in place of those that were written before."""
        values = self._values()
        if values.place >= 0:
            self._write(KeptReached(values.place))
            for value in values.values():
                self._write(KeptWrite(value.topic, value.revision, True, value, None))
            for outcome in values.outcomes():
                self._write(KeptWrite("", outcome.place, False, None, outcome))

    def asked(self, predicates: Iterable[Predicate]) -> None:
        """Write those subscriptions that a client has asked for in this step and that are hidden from wildcards."""
        for wish in [_wish(predicate) for predicate in predicates if _is_hidden(predicate)]:
            if wish not in self._hidden:
                self._hidden.add(wish)
                self._write(KeptWish(wish))

    def base(self, retained: dict[Origin, Reached]) -> dict[Origin, Reached]:
        """Of what becomes wanted now: how far origins had come here. What has left the log and still has a record comes
        up again when everything stops, and was never owed to whoever asks for it now. Not to be changed."""
        if self._base[0] is not retained:
            entries = (entry for entry, _ in self._kept if entry is not None)
            marks = (Mark(*entry.origin, entry.last) for entry in entries)
            gone = (Mark(*origin, last) for origin, last in self._gone.items())  # from here, and perhaps not elsewhere
            self._base = (retained, raise_to(raise_to(dict(retained), marks), gone))
        return self._base[1]

    def end(self) -> None:
        """Of a step: where this broker stands, when that has changed."""
        life, view = self._life, self._life.view
        stands = (*self._links.values(), view.network, view.epoch, view.looks_after, life.reviving)
        if life.attached and stands != self._stands:
            self._stands = stands
            self._write_roster()

    def tick(self) -> None:
        """From time to time: forget what nobody needs any more."""
        if self._life.attached and self._roster_now() != self._roster:
            self._write_roster()
        kept = self._kept
        needed = [(entry, sent_to) for entry, sent_to in kept if entry is not None and entry.bundle is not None]
        if (
            self._old
            or len(kept) <= SLACK + 2 * (len(needed) + len(self._durable) + self._values().count) + len(self._gone) // 4
        ):
            return
        needed = self._take_oldest()
        while len(self._gone) > ORIGINS_KEPT:
            del self._gone[next(iter(self._gone))]
        if self._gone:
            self._write(KeptMarks(to_marks(self._gone)))
        self._write_roster()
        self._write(KeptListeners(tuple(self._listening), ()))
        for state in self._durables():
            self._write(KeptDurable(state))
        for subscription, ids in self._ids():
            self._write(KeptIds(subscription, ids))
        self.all_values()
        for entry, sent_to in needed:
            self.keep(entry, sent_to)
        self._life.forget_records(len(kept))

    def _take_oldest(self) -> list[tuple[Entry, tuple[str, ...]]]:
        """Those whose records go now: all, but for what waits on disk only so many that they fit into the log when they
        are brought back to be written again. Returns the ones that are needed."""
        kept = self._kept
        needed: list[tuple[Entry, tuple[str, ...]]] = []
        room = self._life.options.log_room
        while kept:
            entry, sent_to = kept[0]
            if entry is not None and entry.bundle is not None:
                if type(entry.bundle) is StowedBundle:
                    room -= entry.bundle.cost
                    if room < 0 and needed:
                        break
                needed.append((entry, sent_to))
            elif entry is not None:
                raise_to(self._gone, (Mark(*entry.origin, entry.last),))
            kept.popleft()
        return needed

    def _write(
        self,
        kept: KeptRoster
        | KeptWish
        | KeptMarks
        | KeptListeners
        | KeptDurable
        | KeptDone
        | KeptIds
        | KeptWrite
        | KeptReached,
    ) -> None:
        self._kept.append((None, ()))
        self._life.persist(encode(kept))

    # -- where this broker stands --------------------------------------------------------------------------------------

    def _roster_now(self) -> Roster:
        life, view = self._life, self._life.view
        neighbours = tuple([Life(link.name, link.incarnation) for link in self._links.values()])
        others = tuple([place.life for name, place in view.places.items() if self._is_other(name)])
        moved = tuple([name for name in self._moved if name in self._sessions.all])
        roster = Roster(
            view.network,
            life.own,
            view.epoch,
            neighbours,
            others,
            view.looks_after,
            self._find_hidden(),
            moved,
            self._lost.given_up(),
        )
        before = self.former.roster
        return roster if before is None or not life.reviving else _carry_over(before, roster)

    def _find_hidden(self) -> tuple[FormerWish, ...]:
        """Return the subscriptions of clients, and of ghosts for clients that are not back, to topics with `$`."""
        wanted = (p for name in self._sessions.all for p in self._index.predicates_of(name) if _is_hidden(p))
        return tuple(dict.fromkeys(map(_wish, wanted)))

    def _is_other(self, name: str) -> bool:
        life = self._life
        return name != life.seat.name and name not in self._links and not life.view.is_dead(name)

    def _write_roster(self) -> None:
        if self._life.reviving and self.former.roster is None:
            return  # if everything stops again, others must find out again that the log of this broker is lost
        self._roster = self._roster_now()
        self._hidden = set(self._roster.hidden)
        self._write(KeptRoster(self._roster))

    # -- after a restart -----------------------------------------------------------------------------------------------

    def recovered(self, records: Sequence[bytes]) -> None:
        self.former = Former(records)
        self._old = len(records)
        if self.former.unreadable:
            self._life.note("recovery", f"{self.former.unreadable} records on disk cannot be read")

    def keep_marks(self) -> None:
        """Write how far origins had come in the life before: its records go, and all may stop again."""
        if self.former.seen:
            raise_to(self._gone, (Mark(*origin, reached) for origin, reached in self.former.seen.items()))
            self._write(KeptMarks(to_marks(self._gone)))

    def let_go(self) -> None:
        """What the life before had written is in this log again, or needed by nobody."""
        if self._old:
            self._old = 0
            self._write_roster()
            self._life.forget_records(len(self._kept))


def _is_hidden(predicate: Predicate) -> bool:
    return predicate.filter.startswith("$")


def _wish(predicate: Predicate) -> FormerWish:
    return FormerWish(predicate.filter, predicate.where_text)


def _carry_over(before: Roster, now: Roster) -> Roster:
    """Return the roster of a broker during a restart of everything, in case that everything stops again: with the
    brokers to wait for, the links on which bundles were on their way, and the lives whose clients are not back."""
    named = {now.life.name, *[life.name for life in now.neighbours]}
    neighbours = [life for life in before.neighbours if life.name not in named]
    named.update(life.name for life in neighbours)
    others = {life.name: life for life in (*before.others, *now.others) if life.name not in named}
    lives = before.looks_after
    if before.life not in lives and len(lives) < LIVES_CARRIED:
        lives = (*lives, before.life)
    return msgspec.structs.replace(
        now,
        neighbours=(*now.neighbours, *neighbours),
        others=tuple(others.values()),
        looks_after=lives,
        given_up=before.given_up,
    )
