"""Everything has stopped and starts again: what was on the disks becomes the log of all.

One broker founds the network anew, as an operator says; the others join it as they always do. Until all are back that
were in the tree, nobody is served. Each broker hands up what its disk holds (`Recollected`, `Recollection`), along the
links to the root, which pieces it together: one set, in the order of stamps. It publishes that once more, through the
tree, to everybody (`Republished`), and then says `Revived`: from there on clients are served again.

On each broker a ghost reads all of that, and wants whatever is published before its clients are back. A client of the
life before claims its share there: what it asked for, has not received, and was owed (`former`). Brokers keep the old
records until the new ones are written; if anything goes wrong in between, all can be started again.

Where no more than f brokers are missing, they are not waited for for ever: what was safe is on another disk. A broker
that comes with an empty disk counts as back. But who was still owed what stood in that log alone: a bundle may be
found where it had come, and nobody can say any more where else it was on its way to, and where it was passed over
because it was not asked for. So nobody looks after clients then, and those with subscriptions are told, as always when
what they missed cannot be made good: a loss that is told, and no hole in the order of what they are given.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from resprout.core.contract import ProtocolMessage, SetTimer
from resprout.core.errors import PeerError
from resprout.edge.broker.ghosts import GhostOver, Ghosts
from resprout.edge.broker.session import ClientSession
from resprout.edge.broker.sessions import ClientSessions
from resprout.filters.predicate import parse_predicate
from resprout.order.clock import Clock
from resprout.order.entry import Entry
from resprout.order.link import Link
from resprout.order.log import Log
from resprout.order.messages import Republished, epoch_of
from resprout.order.reports import Reports
from resprout.order.totals.totals import Totals
from resprout.overlay.messages import Life
from resprout.overlay.waves import Waves
from resprout.stacks.peers import Peer, Peers
from resprout.stacks.resprout.client_book import ClientBook
from resprout.stacks.resprout.delivering import Delivering
from resprout.stacks.resprout.disk_log import DiskLog
from resprout.stacks.resprout.former import BundleKey, Former, FormerWish, Owing, Roster, in_order, key_of
from resprout.stacks.resprout.forwarding import Forwarding
from resprout.stacks.resprout.life import BrokerLife
from resprout.stacks.resprout.lost_brokers import LostBrokers
from resprout.stacks.resprout.messages import (
    NOBODY,
    Keeper,
    Recollect,
    Recollected,
    Recollection,
    Revived,
    Settled,
    ValuesRecollected,
)
from resprout.stacks.resprout.repair.parcels import ROWS_MAX, in_parts
from resprout.stacks.resprout.speaking import Speaking
from resprout.stacks.resprout.values import ValueDesk
from resprout.stacks.resprout.waiting import listed
from resprout.stacks.routes import Routes
from resprout.values.rows import KnownOutcome, KnownValue, ValueRow, is_retained

if TYPE_CHECKING:
    from resprout.edge.broker.ports import HeldBundle

EVERYTHING: Final = "#"
AGAIN_LEASES: Final = 4
"""What was handed up is handed up again after so long: somebody on the way may have died."""


class Revival:
    def __init__(
        self,
        life: BrokerLife,
        peers: Peers,
        waves: Waves,
        links: dict[str, Link],
        log: Log,
        clock: Clock,
        sessions: ClientSessions,
        routes: Routes,
        reports: Reports,
        delivering: Delivering,
        totals: Totals,
        speaking: Speaking,
        forwarding: Forwarding,
        lost: LostBrokers,
        disk: DiskLog,
        ghosts: Ghosts,
        book: ClientBook,
        values: ValueDesk,
    ) -> None:
        self._life = life
        self._peers = peers
        self._waves = waves
        self._links = links
        self._log = log
        self._clock = clock
        self._sessions = sessions
        self._routes = routes
        self._reports = reports
        self._delivering = delivering
        self._totals = totals
        self._speaking = speaking
        self._forwarding = forwarding
        self._lost = lost
        self._disk = disk
        self._ghosts = ghosts
        self._book = book
        self._values = values
        self._value_rows: dict[str, list[ValueRow]] = {}
        """By neighbour: last values of which more parts follow."""
        self._ghost = f"~revival of {life.seat.name}"
        self._gathering: _Gathering | None = None
        """At the root."""
        self._told_by = ""
        """Who says that everything had stopped."""
        self._said_us = 0
        """When this broker handed up what it has."""
        self._on_its_way: dict[BundleKey, bool] = {}
        """Of each bundle that was restored: whether it was on its way to this broker."""

    # -- beginning -----------------------------------------------------------------------------------------------------

    def recovered(self, records: Sequence[bytes]) -> None:
        """The disk of a broker that has just started. One that has founded a network leads."""
        self._disk.recovered(records)
        roster = self._disk.former.roster
        if self._life.attached and roster is not None:
            self._life.view.network = roster.network  # it is the same one
            self._lead()

    def lead_again(self) -> None:
        """This broker leads the network after all have stopped, by the consent of those who are back."""
        self._lead()

    def told(self, peer: Peer, message: Recollect) -> None:
        """By whoever is about to take this broker in."""
        self._told_by = peer.name

    def joined(self, parent: str) -> None:
        """This broker has its place. In a network that lives, others have what it had."""
        life = self._life
        roster = self._disk.former.roster
        if self._told_by == parent:
            self._begin()
            self._hand_up()
        elif roster is not None and roster.network != life.view.network and self._disk.former.entries:
            life.refuse(
                f"the log on the disk of {life.seat.name} is that of the network {roster.network}, and this one is"
                f" {life.view.network}: start the brokers of that one together, or give it an empty folder"
            )
        else:
            self._disk.let_go()

    def _begin(self) -> None:
        life = self._life
        if not life.reviving:
            life.reviving = True
            for state in self._disk.former.durables:
                self._book.durables.learn(state, "")
            for name, ids in self._disk.former.ids():
                self._book.durables.say_ids(name, ids)
            self._values.adopt(self._disk.former.values())
            roster = self._disk.former.roster
            wanted = (FormerWish(EVERYTHING, None), *(roster.hidden if roster is not None else ()))
            predicates = [parse_predicate(wish.filter, wish.where) for wish in wanted]
            self._ghosts.add(self._ghost, frozenset(), predicates, life.out)
            self._book.listeners.check((self._ghost,))
            self._routes.forget()

    def tick(self) -> None:
        life = self._life
        self._disk.tick()
        if not life.reviving or not life.attached:
            return
        if life.view.parent is not None:
            self._gathering = None
            if life.now_us - self._said_us > AGAIN_LEASES * life.options.lease_us:
                self._hand_up()
        elif self._gathering is None:
            self._lead()  # whoever led has died
        else:
            self._check()

    # -- gathering -----------------------------------------------------------------------------------------------------

    def _hand_up(self) -> None:
        life = self._life
        self._said_us = life.now_us
        former = self._disk.former
        name = life.seat.name
        for entry in former.entries.values():
            self._say_up(Recollected(name, entry.bundle, entry.tseq, tuple(sorted(entry.sent_to))))
        parent = life.view.parent
        if parent is not None and self._peers.is_up(parent):
            self._say_values(parent, partial(self._peers.post, parent))
        self._say_up(Recollection(name, former.roster))

    def _say_values(self, name: str, say: Callable[[ProtocolMessage], object]) -> None:
        """Say all last values to a neighbour."""
        place = self._values.store.place
        parts = list(in_parts(self._values.rows()))
        for part in parts:
            values = tuple([row for row in part if isinstance(row, KnownValue)])
            outcomes = tuple([row for row in part if isinstance(row, KnownOutcome)])
            say(ValuesRecollected(values, outcomes, place, part is parts[-1]))

    def values_told(self, link: Link, message: ValuesRecollected) -> None:
        """Take the last values of a neighbour if they are later than those here. Those of a child are handed up, those
        of the parent handed down."""
        rows = self._value_rows.setdefault(link.name, [])
        rows += message.rows
        if len(rows) > ROWS_MAX:
            raise PeerError(f"more than {ROWS_MAX} rows of last values")
        if not message.is_last:
            return
        del self._value_rows[link.name]
        if not self._life.reviving:
            return
        is_news, parent = self._values.adopt(rows), self._life.view.parent
        if parent == link.name:
            self._hand_down(link)
        elif is_news and parent is not None and self._peers.is_up(parent):
            self._say_values(parent, partial(self._peers.post, parent))

    def _hand_down(self, source: Link | None) -> None:
        """Say all last values to every neighbour but this one."""
        for name, link in self._links.items():
            if link is not source:
                self._say_values(name, partial(self._speaking.say_in_order, name))

    def recollected(self, link: Link, message: Recollected) -> None:
        if self._life.reviving:
            self._say_up(message)
        if self._gathering is not None:
            self._gathering.add(message.broker, message)

    def recollection(self, link: Link, message: Recollection) -> None:
        if self._life.reviving:
            self._say_up(message)
        if self._gathering is not None:
            if (
                message.broker not in self._gathering.rosters
            ):  # what is handed up again is no sign of one that is missing
                self._gathering.latest_us = self._life.now_us
            self._gathering.rosters[message.broker] = message.roster
            self._check()

    def _say_up(self, message: Recollected | Recollection) -> None:
        """To the parent. What is lost with its session is handed up again."""
        parent = self._life.view.parent
        if parent is not None and self._peers.is_up(parent):
            self._peers.post(parent, message)

    def _lead(self) -> None:
        life = self._life
        self._begin()
        former = self._disk.former
        gathering = self._gathering = _Gathering(life.now_us)
        for entry in former.entries.values():
            gathering.add(
                life.seat.name,
                Recollected(life.seat.name, entry.bundle, entry.tseq, tuple(sorted(entry.sent_to))),
            )
        gathering.rosters[life.seat.name] = former.roster
        life.note("revival", "the logs on the disks of all brokers are being merged")
        self._check()

    def _check(self) -> None:
        life, gathering = self._life, self._gathering
        assert gathering is not None
        missing = gathering.missing()
        waited_us = life.now_us - gathering.latest_us
        if not missing or (len(missing) <= life.faults and waited_us > life.options.ghost_us):
            self._publish(gathering, missing)
        elif missing != gathering.noted and waited_us > life.options.lease_us:
            gathering.noted = missing
            life.note("revival", f"waits for {listed([one.name for one in missing])} with the logs on their disks")

    # -- once more -----------------------------------------------------------------------------------------------------

    def _publish(self, gathering: "_Gathering", missing: tuple[Life, ...]) -> None:
        """Everything, in one order, behind nothing else; then the word that it was all."""
        life = self._life
        self._gathering = None
        self._clock.raise_to(max((each.bundle.stamp for each in gathering.former.entries.values()), default=0))
        epoch = max(life.view.epoch, gathering.epoch(), epoch_of(self._values.store.place))
        self._totals.become_root(epoch + 1)
        owing = Owing(roster for roster in gathering.rosters.values() if roster is not None)
        without = f", without {listed([one.name for one in missing])}" if missing else ""
        life.note("revival", f"{len(gathering.former.entries)} bundles are published once more{without}")
        self._hand_down(None)
        for entry in in_order(gathering.former.entries.values()):
            key = key_of(entry.bundle)
            owed = owing.regions(gathering.holders[key])
            self._take(Republished(entry.bundle, 0, entry.tseq, owed), None)
        unread = gathering.unread()
        if unread:
            life.note(
                "revival",
                f"the log of {listed(unread)} is not there: clients with subscriptions are told that deliveries may be"
                " missing",
            )
            lives = (*missing, *[keeper.life for keeper in gathering.keepers()])
            self._revive(tuple([Keeper(one, NOBODY) for one in lives]), None)
        else:
            self._revive(tuple(gathering.keepers()), None)

    def restored(self, link: Link, message: Republished) -> None:
        entry = self._take(message, link)
        if entry is not None:
            self._reports.arrived(entry, link)
        self._delivering.show()

    def _take(self, message: Republished, link: Link | None) -> Entry | None:
        life = self._life
        self._on_its_way[key_of(message.bundle)] = life.seat.name in message.owed
        self._forwarding.restoring = message
        entry = self._forwarding.accept(message.bundle, link, None, message.hops, False)
        self._forwarding.restoring = None
        if is_retained(message.bundle):
            self._values.apply_rest(message.bundle, message.tseq)
        ghost = self._sessions.all[self._ghost]
        if entry is not None and ghost not in entry.readers:
            self._log.add_reader(entry, ghost)
        return entry

    def revived(self, link: Link, message: Revived) -> None:
        if self._life.reviving:
            self._revive(message.keepers, link)

    def _revive(self, keepers: tuple[Keeper, ...], source: Link | None) -> None:
        """Clients are served from here on."""
        life, ghosts = self._life, self._ghosts
        for name, link in self._links.items():
            if link is not source:
                self._speaking.say_in_order(name, Revived(keepers))
        life.reviving = False
        # Only now: a bundle that was published once more would have counted as known. Without these marks a producer
        # that repeats what was forgotten before the restart would be taken for one that says something new.
        for origin, reached in self._disk.former.seen.items():
            self._forwarding.raise_seen(origin, reached)
        self._disk.keep_marks()
        self._lost.assign(keepers)
        lives = frozenset(keeper.life for keeper in keepers if keeper.broker == life.seat.name)
        roster = self._disk.former.roster
        own = {roster.life, *roster.looks_after} if roster is not None else set()
        awaited = self._disk.former.listeners if lives <= own else None  # nobody knows the clients of the missing
        if (
            not lives and not self._lost.given_up()
        ):  # those who are told of a loss are told before others hear `delivered`
            awaited = frozenset()
        ghosts.stand_for(self._ghost, lives, self._log.next_no - 1, awaited, self._allows)
        self._book.listeners.check((self._ghost, *(awaited or ())))
        life.view.looks_after = ghosts.lives()
        life.out.append(SetTimer(GhostOver(self._ghost), self._lost.kept_until_us))
        self._waves.start(life.view.publish_place(), life.view.reach, lambda: None)
        self._disk.let_go()
        self._delivering.show()
        life.outcomes.append(Settled())

    def _allows(self, session: ClientSession, home: Life, item: "HeldBundle") -> bool:
        """What was published since is for everybody who asked for it."""
        assert item.bundle is not None
        on_its_way = self._on_its_way.get(key_of(item.bundle))
        return on_its_way is None or self._disk.former.is_owed(session.name, home, item.bundle, on_its_way)


class _Gathering:
    """What the root has been handed."""

    def __init__(self, now_us: int) -> None:
        self.former = Former()
        self.holders: dict[BundleKey, dict[str, frozenset[str]]] = {}
        self.rosters: dict[str, Roster | None] = {}
        """Of brokers that are back; None where the disk was empty."""
        self.latest_us = now_us
        """When the last one came for the first time."""
        self.noted: tuple[Life, ...] = ()

    def add(self, broker: str, message: Recollected) -> None:
        self.former.add(message.bundle, message.tseq, (), message.sent_to)
        self.holders.setdefault(key_of(message.bundle), {})[broker] = frozenset(message.sent_to)

    def missing(self) -> tuple[Life, ...]:
        """Lives that somebody who is back knew, and whose names are not back."""
        return tuple(sorted(life for life in self._lives() if life.name not in self.rosters))

    def unread(self) -> list[str]:
        """Brokers of the life before whose logs nobody can read: they are not back, or came with an empty disk."""
        return sorted({life.name for life in self._lives() if self.rosters.get(life.name) is None})

    def _lives(self) -> set[Life]:
        """All that somebody who is back knew, the latest of each name."""
        latest: dict[str, int] = {}
        for roster in self.rosters.values():
            for life in (*roster.neighbours, *roster.others) if roster is not None else ():
                latest[life.name] = max(life.incarnation, latest.get(life.name, 0))
        return {Life(name, incarnation) for name, incarnation in latest.items()}

    def epoch(self) -> int:
        epochs = [roster.epoch for roster in self.rosters.values() if roster is not None]
        return max([*epochs, *(epoch_of(entry.tseq) for entry in self.former.entries.values())], default=0)

    def keepers(self) -> list[Keeper]:
        """Each broker looks after the clients of its life before, and of those that it looked after then. Where a disk
        was empty, the neighbours know which life that was. Whom nobody could look after then, nobody can now."""
        found = {life: life.name for life in self._lives() if life.name in self.rosters}
        for name, roster in self.rosters.items():
            if roster is not None:
                found.update(dict.fromkeys((roster.life, *roster.looks_after), name))
        for roster in self.rosters.values():
            found.update(dict.fromkeys(roster.given_up if roster is not None else (), NOBODY))
        return [Keeper(life, name) for life, name in sorted(found.items())]
