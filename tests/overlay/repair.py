"""A broker of which nothing but its council is there: it repairs the tree, but there is nothing to pool or to grant.

The order of steps is that of a real repair (request, attach, grant), so councils meet the races that they will meet
in a broker. The messages of this file never travel on a wire.

It stays beside the real one (`stacks/resprout/repair`), though it does the same steps: with a view, waves and a council
and nothing else, storms of faults are cheap enough to draw by the hundred, and no log, pool or client stands between a
mistake of a council and the checks. `tests/stacks/test_repair.py` and `test_crashes.py` have all of it together.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay.council import Council
from resprout.overlay.messages import Fenced
from resprout.overlay.outcomes import Declared, Expelled, Registered
from resprout.overlay.places import Configuration, Life, Place, is_among
from resprout.overlay.status import CouncilOptions
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Waves


class AttachRequest(ProtocolMessage, frozen=True, tag=200):
    dead: tuple[Life, ...]


class NotMember(ProtocolMessage, frozen=True, tag=201):
    pass


class Attach(ProtocolMessage, frozen=True, tag=202):
    number: int
    lost: str
    dead: tuple[Life, ...]
    places: tuple[Place, ...]


class Grant(ProtocolMessage, frozen=True, tag=203):
    number: int
    lost: str
    dead: tuple[Life, ...]
    places: tuple[Place, ...]
    configuration: Configuration


class Join(ProtocolMessage, frozen=True, tag=204):
    incarnation: int


class Welcome(ProtocolMessage, frozen=True, tag=205):
    places: tuple[Place, ...]
    tombstones: tuple[Life, ...]
    configuration: Configuration


class Declined(ProtocolMessage, frozen=True, tag=206):
    """To a host that was too late: somebody else has given me a place."""


class Repair(msgspec.Struct):
    dead: set[str]
    got: dict[str, Attach]
    asked: dict[str, int]
    strangers: set[str]


class Broker:
    """`post` and `note` belong to the world around; `note(kind, names)` tells it what was decided."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        faults: int,
        options: CouncilOptions,
        post: Callable[[str, ProtocolMessage], None],
        note: Callable[[str, tuple[Life, ...]], None],
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.is_ended = False
        self.view = MembershipView(name, incarnation, "", faults)
        self.outcomes: deque[Outcome] = deque()
        self.waves = Waves(self.view, self._post, self.outcomes)
        self.council = Council(self.view, options, self._post, self.outcomes, self.waves)
        self.repair: Repair | None = None
        self.now_us = 0
        self._send = post
        self._note = note
        self._attachments: dict[str, int] = {}
        self._number = 0
        self.handlers: dict[type, Callable[[str, Any], None]] = {
            AttachRequest: self._on_attach_request, NotMember: self._on_not_member, Attach: self._on_attach,
            Grant: self._on_grant, Join: self._on_join, Welcome: self._on_welcome,
            Declined: self._on_declined,
        }  # fmt: skip

    @property
    def is_joined(self) -> bool:
        return self.name in self.view.places

    # -- from the world ------------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> None:
        self.now_us = now_us
        self.council.tick(now_us)
        self.act()
        repair = self.repair
        if repair is None or self.is_ended:
            return
        for member in self._members(repair):
            late = member in repair.asked and member not in repair.got
            if late and self.council.overdue(member, repair.asked[member], now_us):
                self._declared((member,))
            if self.repair is not repair:
                return
        self._check()
        self.act()

    def silent(self, peer: str, refused: bool, now_us: int) -> None:
        self.now_us = now_us
        self.council.silent(peer, refused, now_us)
        self.act()

    def connected(self, peer: str, now_us: int, incarnation: int | None = None) -> None:
        self.now_us = now_us
        self.council.connected(peer, now_us, incarnation)
        self.act()

    def receive(self, peer: str, message: ProtocolMessage, now_us: int) -> None:
        self.now_us = now_us
        self.council.heard(peer, now_us)
        kind = type(message)
        if kind in self.waves.handlers:
            if self.view.is_linked(peer):
                self.waves.handlers[kind](peer, message, now_us)
        elif kind in self.council.handlers:
            self.council.handlers[kind](peer, message, now_us)
        else:
            self.handlers[kind](peer, message)
        self.act()

    # -- from the council ----------------------------------------------------------------------------------------------

    def _post(self, peer: str, message: ProtocolMessage) -> None:
        if not self.is_ended:
            self._send(peer, message)

    def act(self) -> None:
        """On what was found out."""
        while self.outcomes:
            match self.outcomes.popleft():
                case Declared(names):
                    self._declared(names)
                case Registered():
                    self._registered()
                case Expelled(reason):
                    self._fenced(reason)

    def _fenced(self, reason: str) -> None:
        if not self.is_ended:
            self.is_ended = True
            self._note("fenced", (Life(self.name, self.incarnation),))

    def _declared(self, names: tuple[str, ...]) -> None:
        if self.is_ended:
            return
        self._note("declared", self.view.lives(names))
        for name in names:
            self._shut(name, self.view.incarnation_of(name))
        if self.repair is None:
            self.repair = Repair(set(), {}, {}, set())
        self.repair.dead.update(names)
        self._check()

    def _registered(self) -> None:
        if self.repair is not None:
            self._check()

    def _shut(self, name: str, incarnation: int) -> None:
        here = self.view
        here.bury(name, incarnation)
        if here.neighbours.get(name) and here.is_dead(name):
            here.neighbours[name] = False
        self._post(name, Fenced(incarnation))
        self.waves.unwait(name)

    # -- the repair ----------------------------------------------------------------------------------------------------

    def _members(self, repair: Repair) -> list[str]:
        return [name for name in self.view.members(repair.dead) if name not in repair.strangers]

    def _check(self) -> None:
        repair, here = self.repair, self.view
        if repair is None or self.is_ended:
            return
        for name in sorted(repair.dead):
            repair.dead.update(here.component(name))
        members = self._members(repair)
        for member in members:
            if member not in repair.asked:
                repair.asked[member] = self.now_us
                self._post(member, AttachRequest(here.dead_lives(repair.dead)))
        done = self.council.register(frozenset(repair.dead), self.now_us)
        if done and self.repair is repair and all(member in repair.got for member in members):
            self._finish(repair, members)

    def _finish(self, repair: Repair, members: list[str]) -> None:
        here = self.view
        self.repair = None
        self.council.drop_registration()
        lives = here.dead_lives(repair.dead)
        self._note("repaired", lives)
        here.mark_replaced(repair.dead)
        for name in [name for name in here.neighbours if name in repair.dead]:
            del here.neighbours[name]
            here.attached.pop(name, None)
        if here.parent in repair.dead:
            here.parent = None
            here.epoch += 1
        for member in members:
            here.neighbours[member] = True
        centre = Life(self.name, self.incarnation)
        for member in members:
            told = {place.name: place for place in repair.got[member].places}
            place = here.places[member] if here.places[member].is_newer(told[member]) else told[member]
            here.learn(place.rewired(repair.dead, centre))
        mine = here.publish_place()
        view = tuple(here.places.values())
        for member in members:
            attach = repair.got[member]
            self._post(member, Grant(attach.number, attach.lost, lives, view, here.configuration))
        self.waves.start(mine, here.reach, lambda: None)
        self.waves.share(behind=members)

    def _on_attach_request(self, peer: str, message: AttachRequest) -> None:
        here = self.view
        if here.is_dead_speaker(peer):
            self._post(peer, Fenced(here.tombstones[peer]))
            return
        if is_among(self.name, self.incarnation, message.dead):
            self._fenced(f"{peer} repairs this broker")
            return
        dead = {life.name: life.incarnation for life in message.dead}
        hits = [name for name in here.neighbours if dead.get(name, -1) >= here.incarnation_of(name)]
        for name, is_open in here.neighbours.items():
            if not is_open and name not in dead and here.attached.get(name) in dead:
                hits.append(name)
                dead[name] = here.incarnation_of(name)
        if not hits:
            self._post(peer, NotMember())
            return
        for name in sorted(dead):
            self._shut(name, dead[name])
        for name in hits:
            if here.neighbours.get(name) is False and here.attached.get(name) != peer:
                here.attached[name] = peer
                self._number += 1
                self._attachments[name] = self._number
                lives = tuple([Life(other, dead[other]) for other in sorted(dead)])
                places = {**here.places, self.name: here.publish_place()}
                self._post(peer, Attach(self._number, name, lives, tuple(places.values())))

    def _on_not_member(self, peer: str, message: NotMember) -> None:
        if self.repair is not None and not self.council.has_ended(peer):
            self.repair.strangers.add(peer)
            self._check()

    def _on_attach(self, peer: str, message: Attach) -> None:
        here = self.view
        here.learn(*message.places)
        if here.is_dead_speaker(peer):
            self._post(peer, Fenced(here.tombstones[peer]))
            return
        for life in message.dead:
            self._shut(life.name, life.incarnation)
        if self.repair is not None and not self.council.has_ended(peer):
            self.repair.dead.update(life.name for life in message.dead)
            self.repair.got[peer] = message
            self._check()

    def _on_grant(self, peer: str, message: Grant) -> None:
        here = self.view
        if here.is_dead_speaker(peer):
            self._post(peer, Fenced(here.tombstones[peer]))
            return
        lost = message.lost
        if self._attachments.get(lost) != message.number or here.neighbours.get(lost) is not False:
            return
        del here.neighbours[lost], self._attachments[lost], here.attached[lost]
        dead = {life.name for life in message.dead}
        for life in message.dead:
            here.bury(life.name, life.incarnation)
        here.mark_replaced(dead)
        if here.parent in dead:
            here.parent = peer
        here.follow(message.configuration)
        if self.repair is not None and self.repair.dead <= dead:
            self.repair = None
            self.council.drop_registration()
        here.neighbours[peer] = True
        here.learn(*message.places)
        self.waves.start(here.publish_place(), here.reach, lambda: None)
        self.waves.exchange(peer)

    # -- joining -------------------------------------------------------------------------------------------------------

    def _on_join(self, peer: str, message: Join) -> None:
        here = self.view
        busy = self.repair is not None or not all(here.neighbours.values()) or not self.is_joined
        if busy or not here.admits(peer, message.incarnation):
            return
        before = set(here.neighbours)
        place = here.publish_place(joining=peer)
        self.waves.start(place, here.reach, lambda: self._admit(peer, message.incarnation, before))

    def _admit(self, peer: str, incarnation: int, before: set[str]) -> None:
        here = self.view
        busy = self.repair is not None or not all(here.neighbours.values())
        same = set(here.neighbours) == before and here.sessions.get(peer) == incarnation
        if busy or not same or not here.admits(peer, incarnation):
            self.waves.start(here.publish_place(), here.reach, lambda: None)
            return
        here.neighbours[peer] = True
        place = here.publish_place()
        tombstones = here.recent_tombstones(256)
        self._post(peer, Welcome(tuple(here.places.values()), tombstones, here.configuration))
        self.waves.start(place, here.reach, lambda: None)

    def _on_welcome(self, peer: str, message: Welcome) -> None:
        here = self.view
        if self.is_joined:
            if peer not in here.neighbours:
                self._post(peer, Declined())
            return
        here.parent = peer
        here.neighbours[peer] = True
        for life in message.tombstones:
            here.bury(life.name, life.incarnation)
        here.configuration = message.configuration
        here.learn(*message.places)
        self.waves.start(here.publish_place(), here.reach, lambda: None)

    def _on_declined(self, peer: str, message: Declined) -> None:
        here = self.view
        if here.is_linked(peer) and peer != here.parent:
            del here.neighbours[peer]
            self.waves.unwait(peer)
            self.waves.start(here.publish_place(), here.reach, lambda: None)
