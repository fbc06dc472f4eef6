"""The clients of one broker: what they publish, what they are given, their receipts, and those of dead brokers.

A client publishes through one queue: what a total holds waits in it, and everything behind that waits too. Its receipts
are watermarks: `safe` when a neighbour has a publication, `delivered` when it is stable.

The clients of a dead broker are expected (`Ghost`): what they may have missed is kept until they come and say how far
they got, or for a while.
"""

from collections import deque

from resprout.core.bundle import Bundle, pick
from resprout.core.contract import Hold, Release, Send, SetTimer, Timer
from resprout.core.errors import PeerError, UsageError
from resprout.core.guarantee import Guarantee, Receipt
from resprout.core.marks import from_marks, is_beyond
from resprout.edge.messages import (
    Attend,
    Delivery,
    Publish,
    Refuge,
    Serving,
    Subscribe,
    Subscribed,
    SubscribeRefused,
    Taken,
    Unsubscribe,
    Unsubscribed,
)  # fmt: skip
from resprout.filters.predicate import Predicate, parse_predicate
from resprout.stacks.ginger.core import Core
from resprout.stacks.ginger.guest import Ghost, Guest, causally, check_next, matching, predicate_of
from resprout.stacks.ginger.messages import TotalRequest
from resprout.stacks.ginger.totals import Totals
from resprout.stacks.ginger.window import Entry, id_of
from resprout.stacks.ginger.wishes import Confirmed
from resprout.wire.columns import check_columns
from resprout.wire.sizes import ordering_bytes

SUBSCRIPTIONS_MAX = 100_000


class GhostDue(Timer, frozen=True):
    """When to stop waiting for the clients of a dead broker."""

    broker: str


class Guests:
    def __init__(self, core: Core, totals: Totals) -> None:
        self._core = core
        self._totals = totals
        self.all: dict[str, Guest] = {}
        self.ghosts: dict[str, Ghost] = {}
        self.directions: dict[str, None] = {}
        """Those that stand for ghosts."""
        self._restless: dict[str, Guest] = {}
        """Those with receipts or ends of subscriptions to be told."""
        core.show = self._show
        core.stable = self._stable
        core.is_reader = lambda direction: direction in self.all or direction in self.directions
        core.count_local = self._count

    # -- coming and going ----------------------------------------------------------------------------------------------

    def serve(self, guest: Guest, message: Attend, refuges: tuple[Refuge, ...]) -> None:
        core = self._core
        guest.attended = True
        guest.received = from_marks(message.received)
        core.clock = max(core.clock, message.clock)
        ghosts = [self.ghosts[name] for name in message.tried if name in self.ghosts]
        resumed = not message.subscriptions or bool(ghosts)
        serving = Serving("ginger", tuple(Guarantee), 1, refuges, resumed)
        core.out.append(Send(guest.name, serving))
        self._recall(guest)
        if resumed:
            self._resume(guest, message)
        for ghost in ghosts:
            ghost.clients.pop(guest.name, None)
            if not ghost.clients:
                self.dismiss(ghost.direction[1:])

    def _recall(self, guest: Guest) -> None:
        """What it published through other brokers and is not stable: later receipts include these."""
        bundles = [entry.bundle for entry in self._core.log.values()]
        bundles += [total.bundle for total in self._totals.in_progress.values()]
        mine = [b for b in bundles if b.publisher == guest.name and b.incarnation == guest.incarnation]
        for bundle in sorted(mine, key=lambda bundle: bundle.first):
            guest.unturned.setdefault(bundle.stream, deque()).append((bundle.last, id_of(bundle)))

    def _resume(self, guest: Guest, message: Attend) -> None:
        """Give what it missed: all that is kept, matches, and lies beyond what it received and what was never owed."""
        core = self._core
        for held in message.subscriptions:
            guest.subscriptions[held.id] = predicate_of(held)
            core.wishes.want(guest.name, guest.subscriptions[held.id], core.says, recorded=True)
        if not message.subscriptions:
            return
        wanted = [(guest.subscriptions[held.id], from_marks(held.base)) for held in message.subscriptions]
        for entry in sorted(core.log.values(), key=causally):
            bundle = entry.bundle
            if not is_beyond(bundle, guest.received):
                continue
            owed = [predicate for predicate, base in wanted if is_beyond(bundle, base)]
            offsets = matching(bundle, owed)
            if not offsets:
                continue
            entry.waiting[guest.name] = None
            if len(offsets) < bundle.count:
                entry.picks[guest.name] = offsets
            if entry.shown:
                self._give(guest, entry)
            else:
                entry.readers.append(guest.name)

    def leave(self, name: str) -> None:
        """Nothing is owed to it any more."""
        core = self._core
        del self.all[name]
        self._restless.pop(name, None)
        core.wishes.drop_all(name, core.says)
        for entry in list(core.log.values()):
            core.through(entry, name)

    def expect(self, broker: str, clients: tuple[str, ...], predicates: tuple[Predicate, ...]) -> None:
        """A broker died. What was wanted in its direction stays wanted for its clients."""
        core = self._core
        ghost = self.ghosts[broker] = Ghost(broker, clients)
        self.directions[ghost.direction] = None
        for predicate in predicates:
            core.wishes.want(ghost.direction, predicate, core.says, recorded=True)
        core.out.append(SetTimer(GhostDue(broker), core.now_us + core.options.client_timer_us))

    def ghosts_wanting(self, bundle: Bundle) -> dict[str, None]:
        if not self.directions:
            return {}
        wanting = self._core.wishes.readers(bundle)
        return dict.fromkeys(direction for direction in self.directions if direction in wanting)

    def keep_for_ghosts(self, entry: Entry) -> None:
        """Nobody here wanted it when it passed, but the clients of a dead broker may."""
        core = self._core
        entry.taken_in = entry.shown = True
        ghosts = self.ghosts_wanting(entry.bundle)
        if ghosts:
            entry.waiting.update(ghosts)
            core.log[entry.id] = entry

    def dismiss(self, broker: str) -> None:
        ghost = self.ghosts.pop(broker, None)
        if ghost is None:
            return
        core = self._core
        del self.directions[ghost.direction]
        core.wishes.drop_all(ghost.direction, core.says)
        for entry in list(core.log.values()):
            core.through(entry, ghost.direction)

    # -- publishing ----------------------------------------------------------------------------------------------------

    def publish(self, guest: Guest, message: Publish) -> None:
        bundle = message.bundle
        check_next(guest, bundle)
        check_columns(bundle)
        self._restless[guest.name] = guest
        guest.turn(bundle.stream, Receipt.ACCEPTED, bundle.last)
        guest.prompt |= message.prompt
        guest.unturned.setdefault(bundle.stream, deque()).append((bundle.last, id_of(bundle)))
        if bundle.guarantee is Guarantee.EVENTUAL and not self._core.options.eventual_waits:
            self._publish_now(guest, message)
        else:
            guest.queue.append(message)
            self.drain(guest)

    def drain(self, guest: Guest) -> None:
        """As much of its queue as no total holds."""
        while guest.queue:
            bundle = guest.queue[0].bundle
            if bundle.guarantee is not Guarantee.TOTAL and self._totals.has_of(guest.name):
                return
            if bundle.guarantee in (Guarantee.FIFO, Guarantee.CAUSAL) and self._totals.holds(bundle):
                return
            self._publish_now(guest, guest.queue.popleft())

    def drain_all(self) -> None:
        for guest in self.all.values():
            if guest.queue:
                self.drain(guest)

    def _publish_now(self, guest: Guest, message: Publish) -> None:
        core = self._core
        bundle = message.bundle
        self._count(guest.name, bundle.count)
        if core.is_old(bundle) or self._totals.knows(id_of(bundle)):
            self._count(guest.name, -bundle.count)  # it came through another broker before
            entry = core.log.get(id_of(bundle))
            if entry.shown if entry is not None else core.is_old(bundle):
                guest.turn(bundle.stream, Receipt.SAFE, bundle.last)
            self._turn_delivered(guest, bundle.stream)
            return
        core.clock += 1
        stamped = bundle.stamped(core.clock)
        if bundle.guarantee is Guarantee.TOTAL:
            self._totals.request(TotalRequest(stamped, 0, message.prompt))
        else:
            core.take_in_new(Entry(stamped, 0, None, message.prompt))

    def _count(self, publisher: str, count: int) -> None:
        """All that a client has under way, for pushing it back."""
        guest = self.all.get(publisher)
        if guest is None:
            return
        guest.unstable = max(0, guest.unstable + count)
        buffer = self._core.options.buffer
        if guest.unstable > buffer and not guest.held:
            guest.held = True
            self._core.out.append(Hold(guest.name))
        elif guest.held and guest.unstable <= buffer // 2:
            guest.held = False
            self._core.out.append(Release(guest.name))

    # -- subscribing ---------------------------------------------------------------------------------------------------

    def subscribe(self, guest: Guest, message: Subscribe) -> None:
        core = self._core
        if message.id in guest.subscriptions:
            raise PeerError(f"subscription {message.id} exists already")
        try:
            if len(guest.subscriptions) >= SUBSCRIPTIONS_MAX:
                raise UsageError(f"{SUBSCRIPTIONS_MAX} subscriptions are the most one client may have")
            predicate = parse_predicate(message.filter, message.where)
        except UsageError as error:
            core.out.append(Send(guest.name, SubscribeRefused(message.id, str(error))))
            return
        wanted = predicate in guest.subscriptions.values()
        guest.subscriptions[message.id] = predicate
        if wanted and predicate not in guest.unconfirmed:
            core.out.append(Send(guest.name, Subscribed(message.id, core.marks())))
            return
        guest.unconfirmed.setdefault(predicate, []).append(message.id)
        if not wanted:
            self.confirm(core.wishes.want(guest.name, predicate, core.says))

    def confirm(self, confirmed: Confirmed) -> None:
        for name, predicate in confirmed:
            if (guest := self.all.get(name)) is not None:
                for id in guest.unconfirmed.pop(predicate, ()):
                    self._core.out.append(Send(name, Subscribed(id, self._core.marks())))

    def unsubscribe(self, guest: Guest, message: Unsubscribe) -> None:
        core = self._core
        predicate = guest.subscriptions.pop(message.id, None)
        if predicate is None:  # it was refused, and the client had not heard yet
            core.out.append(Send(guest.name, Unsubscribed(message.id)))
            return
        if message.id in guest.unconfirmed.get(predicate, ()):
            guest.unconfirmed[predicate].remove(message.id)
        if predicate not in guest.subscriptions.values():
            guest.unconfirmed.pop(predicate, None)
            core.wishes.drop(guest.name, predicate, core.says)
        guest.endings.append((core.taken_in, message.id))
        self._restless[guest.name] = guest

    # -- being given ---------------------------------------------------------------------------------------------------

    def _show(self, entry: Entry) -> None:
        for name in entry.readers:
            if (guest := self.all.get(name)) is None or name not in entry.waiting:
                continue
            if guest.received and not is_beyond(entry.bundle, guest.received):
                self._core.through(entry, name)
            else:
                self._give(guest, entry)
        bundle = entry.bundle
        publisher = self._publisher(bundle)
        if publisher is not None:
            publisher.turn(bundle.stream, Receipt.SAFE, bundle.last)
            publisher.prompt |= entry.prompt
            self._turn_delivered(publisher, bundle.stream)

    def _give(self, guest: Guest, entry: Entry) -> None:
        if guest.backlog or guest.room <= 0:
            guest.backlog.append(entry)
            return
        bundle = entry.bundle
        offsets = entry.picks.get(guest.name)
        if offsets is not None:
            bundle = pick(bundle, offsets)
        guest.gave += 1
        guest.given.append(entry)
        guest.room -= bundle.cost
        ordering = ordering_bytes(bundle, entry.hops)
        delivery = Delivery(bundle, entry.hops, ordering, offsets, entry.prompt, entry.place)
        self._core.out.append(Send(guest.name, delivery))

    def writable(self, guest: Guest, room: int) -> None:
        guest.room = room
        backlog, guest.backlog = guest.backlog, deque()
        while backlog and guest.room > 0:
            self._give(guest, backlog.popleft())
        guest.backlog = backlog

    def hear_taken(self, guest: Guest, message: Taken) -> None:
        if not guest.taken <= message.deliveries <= guest.gave:
            raise PeerError(f"{message.deliveries} deliveries taken of {guest.gave} given, {guest.taken} before")
        for _ in range(message.deliveries - guest.taken):
            self._core.through(guest.given.popleft(), guest.name)
        guest.taken = message.deliveries

    # -- receipts ------------------------------------------------------------------------------------------------------

    def _stable(self, entry: Entry) -> None:
        guest = self._publisher(entry.bundle)
        if guest is not None:
            guest.prompt |= entry.prompt
            self._turn_delivered(guest, entry.bundle.stream)

    def _publisher(self, bundle: Bundle) -> Guest | None:
        """If it is served here, whichever broker it published through."""
        guest = self.all.get(bundle.publisher)
        if guest is None or not guest.attended or guest.incarnation != bundle.incarnation:
            return None
        self._restless[guest.name] = guest
        return guest

    def _turn_delivered(self, guest: Guest, stream: str) -> None:
        """Cumulative: a receipt waits for the publications before it."""
        waiting = self._core.log
        queued = {id_of(message.bundle) for message in guest.queue} if guest.queue else ()
        unturned = guest.unturned.get(stream, ())
        while unturned:
            seq, id = unturned[0]
            if id in waiting or id in queued or self._totals.knows(id):
                return
            unturned.popleft()
            guest.turn(stream, Receipt.DELIVERED, seq)

    def flush(self, everything: bool) -> bool:
        """Tell receipts that are waited for, or all, and ends of subscriptions. True when receipts are left."""
        left = False
        for guest in list(self._restless.values()):
            self._tell_endings(guest)
            if guest.turned and not guest.prompt and not everything:
                left = True
                continue
            self._core.out.extend(Send(guest.name, turned) for turned in guest.take_turned())
            if not guest.endings:
                del self._restless[guest.name]
        return left

    def _tell_endings(self, guest: Guest) -> None:
        unshown = self._core.unshown
        first = min(
            unshown[0].no if unshown else self._core.taken_in + 1,
            guest.backlog[0].no if guest.backlog else self._core.taken_in + 1,
        )
        while guest.endings and guest.endings[0][0] < first:
            self._core.out.append(Send(guest.name, Unsubscribed(guest.endings.popleft()[1])))
