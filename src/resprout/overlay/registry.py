"""What must be known elsewhere before a repair may end (rule R3 of docs/protocol.md).

A coordinator registers the dead with its parent, from f = 2 on with everybody within f hops. A root, or a candidate
for the root, registers them together with the next configuration, at majorities of the voters (`configurations`). Any
two coordinators that could replace overlapping parts of the tree meet in one broker that way, and whoever has
registered a broker as dead answers it `Fenced`: of two that suspect each other, one cannot finish.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.overlay.configurations import UNDECIDED_MAX, Configurations
from resprout.overlay.lease_detector import LeaseDetector
from resprout.overlay.messages import (
    Configuration,
    Decided,
    Enrol,
    Enrolled,
    Expelled,
    Life,
    Registered,
    Registration,
    check_lives,
    is_among,
)
from resprout.overlay.view import MembershipView
from resprout.overlay.waves import Waves

HEIRS_MAX: Final = 1024
TOMBSTONES_TOLD_MAX: Final = 256
"""Deaths that a voter tells a candidate: the latest. Older ones have long been repaired everywhere."""


class _Entry:
    """One registration on its way."""

    __slots__ = (
        "asked_us",
        "dead",
        "done",
        "first_hand",
        "heirs",
        "is_new",
        "lives",
        "needed",
        "new",
        "number",
        "parent",
        "spread",
        "toward",
        "yes",
    )

    def __init__(self, number: int, dead: frozenset[str], view: MembershipView, now_us: int) -> None:
        self.number = number
        self.dead = dead
        self.lives = view.dead_lives(dead)
        self.parent = view.parent
        self.asked_us = now_us
        self.new: Configuration | None = None
        self.needed: dict[tuple[int, str], Configuration] = {}
        """Configurations of which majorities must agree to the new one, itself included."""
        self.yes: set[Life] = {Life(view.name, incarnation) for incarnation in view.own_lives}
        self.first_hand: set[Life] = {Life(view.name, view.incarnation)}
        """Those of them that have agreed themselves, and not by a later life that remembers them."""
        self.heirs: dict[str, tuple[Heir, Enrolled]] = {}
        """Later lives that have agreed for those that they remember, and what they told, by name."""
        self.toward: tuple[str, ...] = ()
        self.spread = False
        self.done = False
        self.is_new = True
        """While this is so, whoever registers learns from the call itself that it is done."""


class Heir(msgspec.Struct, frozen=True):
    """A later life of a voter, which remembers what the earlier ones have agreed to."""

    session: str
    """Under which it is spoken to."""
    lives: frozenset[Life]

    def has_withdrawn(self, configuration: Configuration, answer: Enrolled) -> bool:
        """An earlier life of this broker has proposed a configuration that was not decided, as its answer shows: nobody
        but the proposer can tell that one is, and it writes that down first (`Configurations.withdraw`)."""
        proposer = configuration.voters[0].life
        if proposer not in self.lives or proposer == max(self.lives):
            return False
        return configuration.version > answer.decided.version and configuration not in answer.undecided


BelievedDeaths = Callable[[str, Sequence[Life], int], tuple[Life, ...]]
"""(peer, dead, now_us): those that a voter may call dead."""
MayFollow = Callable[[str, Configuration, int, int], bool]
"""(peer, configuration, known version, now_us): whether a configuration of which a voter tells counts here."""


class Registry:
    def __init__(
        self,
        view: MembershipView,
        detector: LeaseDetector,
        waves: Waves,
        post: Callable[[str, ProtocolMessage], None],
        outcomes: deque[Outcome],
        keep: Callable[[], None] = lambda: None,
        believed_deaths: BelievedDeaths = lambda peer, dead, now_us: tuple(dead),
        may_follow: MayFollow = lambda peer, configuration, known, now_us: True,
    ) -> None:
        self._view = view
        self._detector = detector
        self._waves = waves
        self._post = post
        self._outcomes = outcomes
        self._believed_deaths = believed_deaths
        self._may_follow = may_follow
        self.configurations = self._configurations = Configurations(view, detector, keep)
        self._heirs: dict[str, Heir] = {}
        """Later lives of voters, by name. They look for a place, and may vote for the lives that they remember."""
        self._entry: _Entry | None = None
        self._number = 0
        self.wanted: frozenset[str] | None = None
        """The dead that the running repair wants registered."""
        self.handlers: dict[type, Callable[[str, Any, int], None]] = {
            Enrol: self._on_enrol, Enrolled: self._on_enrolled, Decided: self._on_decided,
        }  # fmt: skip

    def register(self, dead: frozenset[str], now_us: int) -> bool:
        """True when it is done; otherwise `Registered` comes when it is."""
        self.wanted = dead
        entry = self._begin(dead, now_us)
        return entry is not None and entry.done

    def drop(self) -> None:
        """The repair is over, or somebody else leads it."""
        self.wanted = None
        self._entry = None

    def tick(self, now_us: int) -> None:
        entry = self._entry
        if entry is None:
            if self.wanted is not None and self.register(self.wanted, now_us):
                self._outcomes.append(Registered())
        elif not entry.done and now_us - entry.asked_us > self._detector.patience_us:
            entry.asked_us = now_us
            self._ask(entry)
            self._ask_next_lives(entry)

    def met_heir(self, heir: Heir, name: str) -> None:
        """A later life of a voter looks for a place: ask it, if a registration needs its consent."""
        if name in self._heirs or len(self._heirs) < HEIRS_MAX:
            self._heirs[name] = heir
        entry = self._entry
        if entry is not None and not entry.done:
            self._ask_heir(entry, heir)

    def missing(self) -> tuple[Life, ...]:
        """Voters without which the running registration cannot end, although they are certainly gone: their next lives
        may decide without this broker."""
        entry = self._entry
        if entry is None or entry.new is None or entry.done:
            return ()
        here, is_ended = self._view, self._detector.is_ended
        almost = [x for x in entry.needed.values() if here.is_majority(x, entry.yes, is_ended)]
        stuck = [x for x in almost if not here.may_decide(x, entry.yes, entry.first_hand, is_ended)]
        return tuple(sorted({voter.life for x in stuck for voter in x.voters if voter.remembers} - entry.yes))

    def look_again(self) -> None:
        """Check again whether the registration is complete: a host has reported that one of its processes has ended."""
        entry = self._entry
        if entry is not None and self._check(entry):
            self._outcomes.append(Registered())

    def refresh_list(self, now_us: int) -> None:
        """At the root, while nothing is repaired: replace voters that are lost, and fill the configuration."""
        here, configurations = self._view, self._configurations
        if self.wanted is not None or (self._entry is not None and not self._entry.done):
            return
        voters = here.configuration.voters
        is_lost = any(configurations.has_lost(voter, now_us) for voter in voters if voter.name != here.name)
        is_short = len(voters) < 2 * here.faults + 1 and len(configurations.propose(frozenset(), now_us).voters) > len(
            voters
        )
        # Some have agreed to a proposal of another broker, made while it looked for this network. It has joined since.
        is_overtaken = here.decided.root == here.name and not here.leads_configuration
        if is_lost or is_short or is_overtaken:
            self._entry = None
            self._begin(frozenset(), now_us)

    # -- on its way ----------------------------------------------------------------------------------------------------

    def _begin(self, dead: frozenset[str], now_us: int) -> _Entry | None:
        here = self._view
        entry = self._entry
        if entry is not None and entry.dead == dead and entry.parent == here.parent:
            return entry
        self._entry = None
        if here.parent is not None and here.parent not in dead and not here.neighbours.get(here.parent):
            return None  # first the own parent must be replaced
        self._number += 1
        entry = self._entry = _Entry(self._number, dead, here, now_us)
        if here.parent is None or here.parent in dead:
            self._propose(entry, now_us)
        else:
            open_links = [name for name, is_open in here.neighbours.items() if is_open and name not in dead]
            entry.toward = tuple([name for name in open_links if here.faults >= 2 or name == here.parent])
            registration = Registration(entry.lives, here.configuration)
            self._waves.start(registration, max(1, here.faults), lambda: self._spread(entry), entry.toward)
        entry.is_new = False
        return self._entry

    def _propose(self, entry: _Entry, now_us: int) -> None:
        here, configurations = self._view, self._configurations
        entry.new = configurations.propose(entry.dead, now_us)
        self._need(entry, (here.decided, *configurations.undecided(), entry.new))
        configurations.agree(entry.new)
        self._ask(entry)
        self._spread(entry)

    def _need(self, entry: _Entry, configurations: tuple[Configuration, ...]) -> bool:
        """True when there are more configurations than before."""
        before = len(entry.needed)
        for configuration in configurations:
            if configuration.voters and configuration.is_sound():
                entry.needed[configuration.label] = configuration
        decided = self._view.decided.version
        needed = [x for x in entry.needed.values() if x.version >= decided]
        needed = [x for x in needed if not any(heir.has_withdrawn(x, answer) for heir, answer in entry.heirs.values())]
        entry.needed = {x.label: x for x in needed}
        return len(entry.needed) > before

    def _ask(self, entry: _Entry) -> None:
        """Every voter that has not agreed."""
        here = self._view
        if entry.new is None:
            return
        voters = {voter.life for configuration in entry.needed.values() for voter in configuration.voters}
        for name, incarnation in sorted((life.name, life.incarnation) for life in voters - entry.yes):
            if incarnation > here.tombstones.get(name, -1):
                question = Enrol(entry.number, incarnation, entry.lives, entry.new, here.configuration, here.decided)
                self._post(name, question)

    def _ask_heir(self, entry: _Entry, heir: Heir) -> None:
        asked = {voter.life for configuration in entry.needed.values() for voter in configuration.voters} & heir.lives
        if entry.new is not None and asked - entry.yes:
            here, incarnation = self._view, min(asked - entry.yes).incarnation
            question = Enrol(entry.number, incarnation, entry.lives, entry.new, here.configuration, here.decided)
            self._post(heir.session, question)

    def _ask_next_lives(self, entry: _Entry) -> None:
        """Of voters that are dead and remember: their next lives may be elsewhere in the tree, or in the one that has
        gone on without this broker, and then they say so."""
        here = self._view
        if entry.new is None:
            return
        voters = {voter for configuration in entry.needed.values() for voter in configuration.voters}
        for voter in sorted(voters, key=lambda voter: voter.life):
            if voter.remembers and voter.life not in entry.yes and here.is_dead_life(voter.life):
                question = Enrol(
                    entry.number, voter.incarnation, entry.lives, entry.new, here.configuration, here.decided
                )
                self._post(voter.name, question)

    def _spread(self, entry: _Entry) -> None:
        entry.spread = True
        if self._check(entry) and not entry.is_new:
            self._outcomes.append(Registered())

    def _check(self, entry: _Entry) -> bool:
        """True when it became done just now, and somebody waits for it."""
        here = self._view
        if self._entry is not entry or entry.done or not entry.spread:
            return False
        if entry.new is not None:
            configurations, is_ended = entry.needed.values(), self._detector.is_ended
            if not all(
                here.may_decide(configuration, entry.yes, entry.first_hand, is_ended)
                for configuration in configurations
            ):
                return False
            here.follow_decided(entry.new)
            self._configurations.keep()
            for name in entry.new.names:
                if name != here.name:
                    self._post(name, Decided(entry.new))
        elif entry.parent != here.parent or entry.parent not in entry.toward or not here.neighbours.get(entry.parent):
            self._entry = None  # the one who had to know it is gone; begin again with the next
            return False
        entry.done = True
        return self.wanted is not None

    # -- messages ------------------------------------------------------------------------------------------------------

    def _on_enrol(self, peer: str, message: Enrol, now_us: int) -> None:
        here, configurations = self._view, self._configurations
        check_lives(message.dead)
        if is_among(here.name, here.incarnation, message.dead):
            self._outcomes.append(Expelled(f"{peer} registers this broker as dead"))
            return
        if message.incarnation not in here.own_lives:
            return
        tombstones = here.recent_tombstones(TOMBSTONES_TOLD_MAX)
        decided, undecided = here.decided, configurations.undecided()
        yes = configurations.answer(peer, message)
        entry = self._entry
        if yes and entry is not None and entry.new is not None and not entry.done and entry.new != message.new:
            self._entry = None  # overtaken
        self._post(peer, Enrolled(message.number, message.incarnation, yes, tombstones, decided, undecided))

    def _on_enrolled(self, peer: str, message: Enrolled, now_us: int) -> None:
        here = self._view
        entry = self._entry
        if entry is None or entry.new is None or entry.number != message.number or entry.done:
            return
        if Life(here.name, here.incarnation) in message.tombstones:
            self._outcomes.append(Expelled(f"{peer} has registered this broker as dead"))
            return
        if self._may_follow(peer, message.decided, here.decided.version, now_us):
            here.follow_decided(message.decided)
        configurations = message.undecided[: UNDECIDED_MAX + 1]
        if message.yes:
            entry.yes.add(Life(peer, message.incarnation))
            heir = self._heirs.get(peer)
            latest = max(heir.lives).incarnation if heir is not None else message.incarnation
            if heir is not None and Life(peer, message.incarnation) in heir.lives and message.incarnation < latest:
                entry.yes.update(heir.lives)
                entry.heirs[peer] = heir, message
            elif here.sessions.get(peer, message.incarnation) <= message.incarnation:
                entry.first_hand.add(Life(peer, message.incarnation))
                self._detector.pinged(peer, now_us)
            for life in self._believed_deaths(peer, message.tombstones[:TOMBSTONES_TOLD_MAX], now_us):
                here.mark_dead(life.name, life.incarnation)
            if self._need(entry, (message.decided, *configurations)):
                self._ask(entry)
        elif any(x.version >= entry.new.version and x != entry.new for x in (message.decided, *configurations)):
            for configuration in configurations:
                # The root follows no rival: it would lose its lease, because it does not hear the rival's voters.
                is_rival = here.parent is None and here.decided.root == here.name != configuration.root
                if not is_rival and self._may_follow(peer, configuration, here.configuration.version, now_us):
                    here.follow(configuration)
                else:
                    self._configurations.exceed(configuration)
            if message.decided.version > here.decided.version:  # it is not followed here
                self._configurations.exceed(message.decided)
            self._entry = None  # begin again after the newer configuration
            return
        if self._check(entry):
            self._outcomes.append(Registered())

    def _on_decided(self, peer: str, message: Decided, now_us: int) -> None:
        if message.configuration.root == peer:
            self._view.follow_decided(message.configuration)
