"""Clients of a dead broker miss nothing (section 4.2 of the report: all non-faulty confirmed subscribers receive a
publication; there clients are nodes of the graph).

*To keep.* Both ends of a link count the publications that cross it (`blocks.crossing`). A broker is *through* with one
when it is confirmed, its readers here have taken it, and all brokers in other directions are through with it. It tells
the other end of the link so, within 10 ms and with others (`Progress`). A publication is kept until every direction is
through with it. So each of the brokers that it passed keeps what clients of a dead broker may lack, and what is
published for these clients after the death, for `return_us`.

*To ask.* A client that comes from a dead broker is served when its new broker has asked everybody
(`RoutedClaim`). The new broker subscribes for it first. On each path the claim comes after the subscription: what a
broker passes on later comes by itself, and what it keeps from before it sends to the new broker (`RoutedHandover`). A
broker confirms the claim when its answers are confirmed. Then the client is handed what it lacks, in order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from resprout.core.contract import SetTimer, Timer
from resprout.core.errors import PeerError
from resprout.core.message_fields import from_marks, to_marks
from resprout.edge.broker.ghosts import home_of
from resprout.edge.broker.owed import Owed, read_held
from resprout.edge.broker.session import ClientSession
from resprout.edge.messages import Attend
from resprout.overlay.messages import Life
from resprout.stacks.peers import Peer
from resprout_lab.blocks.crossing import Progress
from resprout_lab.blocks.retention import KeptItem
from resprout_lab.delta.forwarding import HopLink, Transit
from resprout_lab.delta.messages import RoutedClaim, RoutedHandover, SubscriptionId
from resprout_lab.delta.operations import FloodOperation, Parts

OWED_KEPT: Final = 10_000
"""Most publications kept for the clients of one dead broker. With more, these are told that they may miss some."""
KEPT_MAX: Final = 100_000
"""Most publications kept in all, which a reader that takes nothing may cause. With more the oldest are given up, and
clients of dead brokers are told that they may miss some, until readers have taken all the others."""
ENDED_KEPT: Final = 1_024
"""Dead brokers for whose clients nothing is kept any more that are remembered."""


class ReturnOver(Timer, frozen=True):
    """When to stop keeping publications for clients of a dead broker."""

    name: str
    life: int


class KeptPublications:
    def __init__(self, parts: Parts, return_us: int) -> None:
        self._parts = parts
        self.earlier_lives = Life(parts.seat.name, 0)
        """Stands for all earlier lives of this broker."""
        self._return_us = return_us
        self._kept: dict[object, Transit] = {}
        """By key, in the order in which they came."""
        self._owed: dict[Life, deque[Transit]] = {}
        """By broker that is dead, or whose link is over: what its readers, and those behind it, may lack."""
        self._ended: dict[Life, None] = {}
        self._has_given_up = False

    def __iter__(self) -> Iterator[Transit]:
        return iter([transit for transit in self._kept.values() if not transit.done_but_for("")])

    def has_ended(self, life: Life) -> bool:
        """Whether publications for clients of this broker were kept, and are no more."""
        if life.name == self._parts.seat.name and life.incarnation < self._parts.seat.incarnation:
            life = self.earlier_lives
        return not self._return_us or self._has_given_up or life in self._ended

    def begin_return(self) -> None:
        """This broker is back: keep what clients of its earlier lives may lack."""
        self._begin(self.earlier_lives)  # without a time to keep, this only withdraws what they wanted
        for transit in list(self._kept.values()):
            self._owe_returning(transit)

    def _owe_returning(self, transit: Transit) -> None:
        own = self._parts.seat.name
        if self.earlier_lives in self._owed and own in self._parts.known.wanted_by(transit.message.bundle):
            self._owe(self.earlier_lives, own, transit)

    # -- links ---------------------------------------------------------------------------------------------------------

    def sent(self, transit: Transit, link: HopLink) -> None:
        if self._return_us:
            transit.unthrough[link.name] = link.branch
            link.crossed.sent.add(transit)
            self._keep(transit)

    def came(self, transit: Transit, link: HopLink) -> None:
        """A publication, for the first time or again."""
        if not self._return_us:
            return
        known = self._keep(transit)
        known.unthrough[link.name] = link.branch
        link.crossed.received.add(known)
        self._owe_returning(known)

    def published(self, transit: Transit) -> None:
        """A publication of a client here."""
        self._owe_returning(transit)

    def came_again(self, message: Any, link: HopLink) -> None:
        known = self._kept.get(message.key)
        if known is not None:
            self.came(known, link)
        elif self._return_us:
            link.crossed.received.add(Transit(0, message, link.name, is_done=True))

    def _keep(self, transit: Transit) -> Transit:
        known = self._kept.setdefault(transit.message.key, transit)
        if len(self._kept) > KEPT_MAX:
            oldest = self._kept.pop(next(iter(self._kept)))
            oldest.is_given_up = self._has_given_up = True
        return known

    def hear(self, peer: Peer, message: Progress) -> None:
        link = self._parts.forwarding.links[peer.name]
        for transit in link.crossed.hear(message)[1]:
            transit.unthrough.pop(link.name, None)

    def lost(self, link: HopLink) -> None:
        """The link is over: what its other end was not through with is owed to those behind it."""
        lanes = (link.crossed.sent, link.crossed.received)
        transits = {transit.no: transit for lane in lanes for transit in lane.after(lane.theirs)}
        for no in sorted(transits):
            transit = transits[no]
            if transit.unthrough.pop(link.name, None) is not None:
                self._owe(self._last_life(link.name), link.branch, transit)

    def cut(self, transit: Transit, path: tuple[str, ...]) -> None:
        """All brokers on the path are dead: the publication is for readers of the last one."""
        self._owe(self._last_life(path[-1]), path[0], transit)

    def _last_life(self, name: str) -> Life:
        """Return the life that is over, or else the latest one."""
        tree = self._parts.tree
        return Life(name, tree.dead.get(name, 0) or tree.life(name))

    def _begin(self, life: Life) -> None:
        self._owed[life] = deque()
        due = ReturnOver(life.name, life.incarnation)
        self._parts.step.out.append(SetTimer(due, self._parts.step.now_us + self._return_us))

    def _owe(self, life: Life, branch: str, transit: Transit) -> None:
        ghost = f"{life.name}/{life.incarnation}"
        if not self._return_us or life in self._ended or ghost in transit.unthrough:
            return
        if life not in self._owed:
            self._begin(life)
        self._owed[life].append(transit)
        transit.unthrough[ghost] = branch
        self._keep(transit)
        if len(self._owed[life]) > OWED_KEPT:
            self._end(life)

    def return_over(self, timer: ReturnOver) -> bool:
        """Return whether it is over for clients of earlier lives of this broker."""
        life = Life(timer.name, timer.life)
        self._end(life)
        return life == self.earlier_lives

    def _end(self, life: Life) -> None:
        for transit in self._owed.pop(life, ()):
            transit.unthrough.pop(f"{life.name}/{life.incarnation}", None)
        self._ended[life] = None
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    # -- news ----------------------------------------------------------------------------------------------------------

    def tell(self, everything: bool) -> bool:
        """Tell neighbours what this broker is through with. Return whether something is left to tell soon."""
        links = self._parts.forwarding.links.values()
        if everything:
            for link in links:
                if (report := link.crossed.report()) is not None:
                    self._parts.outbox.pass_by(link.name, report)
            while self._kept and (first := next(iter(self._kept.values()))).done_but_for(""):
                del self._kept[first.message.key]
            self._has_given_up = self._has_given_up and bool(self._kept)
        return any(link.is_behind for link in links)


class _Claim(msgspec.Struct, eq=False):
    """Of a client that waits to be served."""

    number: int
    session: ClientSession
    attend: Attend
    owed: Owed
    found: list[KeptItem] = []
    is_sent: bool = False
    is_answered: bool = False
    is_whole: bool = True
    """All that the client may lack was kept."""

    @property
    def ghost(self) -> str:
        """Reads for the client meanwhile. No client is called like this."""
        return f"~{self.session.name}"


class ReturningClients:
    def __init__(self, parts: Parts, kept: KeptPublications) -> None:
        self._parts = parts
        self._kept = kept
        self._claims: dict[str, _Claim] = {}
        """By client."""
        self._last = 0

    def is_ready(self, session: ClientSession, attend: Attend) -> bool:
        """Whether everything has come that the client may lack. The first call asks for it."""
        claim = self._claims.get(session.name)
        if claim is None or claim.session is not session:
            claim = self._begin(session, attend)
        return claim.is_answered

    def _begin(self, session: ClientSession, attend: Attend) -> _Claim:
        self._end(session.name)
        self._last += 1
        claim = self._claims[session.name] = _Claim(self._last, session, attend, Owed(attend))
        self._parts.sessions.arrive(claim.ghost, 0, 0)
        for predicate in dict.fromkeys(held.predicate for held in read_held(attend.subscriptions)):
            self._parts.sessions.confirm(
                self._parts.wishes.want(claim.ghost, predicate, confirmed=True), self._parts.step.out
            )
        claim.is_whole = not self._kept.has_ended(home_of(attend))
        for transit in self._kept:
            self._find(claim, transit.message.bundle, transit.message.hops)
        if not self._parts.tree.frontier():
            claim.is_sent = claim.is_answered = True  # nobody is left to ask
        return claim

    def _find(self, claim: _Claim, bundle: Any, hops: int) -> None:
        if claim.owed.offsets(bundle):
            item = KeptItem(bundle, hops, None, False)
            item.shown = True
            claim.found.append(item)

    def _end(self, name: str) -> None:
        if (claim := self._claims.pop(name, None)) is not None:
            self._parts.sessions.leave(claim.ghost, self._parts.step.out)

    def ask(self, originate: Callable[[RoutedClaim], None]) -> None:
        """At the end of a step, after subscriptions have been sent."""
        for name, claim in list(self._claims.items()):
            if claim.session.gone:
                self._end(name)
            elif not claim.is_sent:
                claim.is_sent = True
                attend, seat = claim.attend, self._parts.seat
                wish = self._parts.wishes.number_of(read_held(attend.subscriptions)[0].predicate)
                originate(
                    RoutedClaim(
                        0, 0, (), None, SubscriptionId(seat.name, seat.incarnation, wish), claim.number,
                        home_of(attend), attend.received, attend.subscriptions,
                    )
                )  # fmt: skip

    def hear(self, message: RoutedHandover) -> None:
        claim = next((one for one in self._claims.values() if one.number == message.number), None)
        if claim is not None and message.bundle is None:
            claim.is_whole = False
        elif claim is not None:
            self._find(claim, message.bundle, message.hops)

    def answered(self, number: int) -> None:
        for claim in self._claims.values():
            if claim.number == number:
                claim.is_answered = True

    def welcome(self, session: ClientSession, attend: Attend) -> None:
        """Hand over what the client lacks, in the order of each publisher."""
        sessions, out = self._parts.sessions, self._parts.step.out
        successors = self._parts.tree.successors
        claim = self._claims.get(session.name)
        if claim is None or not claim.is_whole:
            sessions.welcome(session, attend, successors, not attend.subscriptions, out)
            self._end(session.name)
            return
        reached = from_marks(attend.received)
        given = []
        lacking: list[Any] = [*claim.found, *sessions.all[claim.ghost].backlog]
        for item in sorted(lacking, key=_in_order):
            bundle = item.bundle
            if bundle.first > reached.get(bundle.origin, 0) and (offsets := claim.owed.offsets(bundle)):
                reached[bundle.origin] = bundle.last
                given.append((item, offsets))
        attend = msgspec.structs.replace(attend, received=to_marks(reached))
        sessions.welcome(session, attend, successors, True, out)
        for item, offsets in given:
            if not item.no:
                self._parts.kept.place(item)
            sessions.hand_over(session, item, offsets, out)
        self._end(session.name)


def _in_order(item: Any) -> tuple[str, int, int, int]:
    bundle = item.bundle
    return bundle.publisher, bundle.incarnation, bundle.stamp, bundle.first


class HandoverOperation(FloodOperation):
    """A publication for one client of a dead broker, to the broker where that client is now."""

    def __init__(self, parts: Parts, returning: ReturningClients) -> None:
        super().__init__(parts)
        self._returning = returning

    def begin(self, claim: Transit, bundle: Any) -> None:
        message = RoutedHandover(0, 0, (), None, claim.message.wish, claim.message.number, bundle)
        transit = self._parts.forwarding.make(message)
        claim.answers += 1
        transit.answer_to = claim
        self._keep(transit, None)
        self._parts.forwarding.begin(transit, self._parts.forwarding.recipients(transit))

    def rcpt(self, transit: Transit) -> Iterable[str]:
        source = self._parts.known.source_of(transit.message.wish)
        return () if source is None else (source,)

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        self._keep(transit, link.name)
        wish, seat = transit.message.wish, self._parts.seat
        if (wish.name, wish.life) == (seat.name, seat.incarnation):
            self._returning.hear(transit.message)

    def _keep(self, transit: Transit, source: str | None) -> None:
        if transit.message.bundle is not None:
            transit.item = KeptItem(transit.message.bundle, transit.message.hops, source, False)
            self._parts.kept.keep(transit.item)

    def send(self, transit: Transit, name: str, message: RoutedHandover) -> None:
        if transit.item is None:
            super().send(transit, name, message)
        else:
            self._parts.passing.pass_on(name, transit.item, message)

    def confirmed(self, transit: Transit) -> None:
        if transit.item is not None:
            self._parts.kept.let_go(transit.item)
        if (claim := transit.answer_to) is not None:
            claim.answers -= 1
            self._parts.forwarding.check_done(claim)


class ClaimOperation(FloodOperation):
    """Asks everybody for what a client of a dead broker may lack."""

    def __init__(
        self, parts: Parts, kept: KeptPublications, returning: ReturningClients, handover: HandoverOperation
    ) -> None:
        super().__init__(parts)
        self._kept = kept
        self._returning = returning
        self._handover = handover

    def check(self, message: RoutedClaim) -> None:
        self._owed(message)

    def update_routing_information(self, transit: Transit, link: HopLink) -> None:
        message, owed = transit.message, self._owed(transit.message)
        if self._kept.has_ended(message.home):
            self._handover.begin(transit, None)
            return
        for one in self._kept:
            if owed.offsets(one.message.bundle):
                self._handover.begin(transit, one.message.bundle)

    def confirmed(self, transit: Transit) -> None:
        if transit.came_from is None:
            self._returning.answered(transit.message.number)

    def _owed(self, message: RoutedClaim) -> Owed:
        if not message.subscriptions:
            raise PeerError("a claim without subscriptions")
        return Owed(Attend(0, received=message.received, subscriptions=message.subscriptions))
