"""What one broker knows about the tree around it: who stands where, who died, who follows the root.

Views reach `reach` hops. That is far enough to see every broker that may have to be repaired from here together with
all its neighbours, and for the root to find 2f+1 voters even in a chain.

A name may return under a higher incarnation while its earlier life is dead but not yet repaired. The place of the
earlier life is then still needed to repair it, so the new one waits in line (`learn`), and a broker that is asked for
a place by the newcomer should wait as well (`admits`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from resprout.core.message_fields import NUMBER_MAX
from resprout.overlay import lineage
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import (
    LEAP_MAX,
    LIVES_MAX,
    Configuration,
    Declared,
    Life,
    Place,
    Registration,
    Voter,
    is_among,
)

__all__ = ["Configuration", "Life", "MembershipView", "Place", "Registration", "Voter"]

PLACES_MAX: Final = 16_384
"""Places known at a time; further brokers are not noticed until others are forgotten."""
TOMBSTONES_MAX: Final = 16_384
"""Names of the dead; the oldest tombstones are forgotten first."""
REPAIRED_MAX: Final = 4096


class MembershipView:
    def __init__(self, name: str, incarnation: int, address: str, faults: int, remembers: bool = False) -> None:
        self.name: Final = name
        self.incarnation: Final = incarnation
        self.address: Final = address
        self.faults: Final = faults
        self.remembers: Final = remembers
        """The next life of this broker will know what this one has agreed to."""
        self.own_lives: tuple[int, ...] = (incarnation,)
        """Incarnations of this broker whose consents are known here: this life may vote for each of them."""
        self.reach: Final = max(faults + 1, 2 * faults)
        """Hops that a new place must travel (`Waves.start`). For the repair f + 1 would do."""
        self.network = ""
        """What tells this tree from any other; from its founder. Empty until this broker has a place."""
        self.parent: str | None = None
        self.neighbours: dict[str, bool] = {}
        """Name -> open. False: dead and in repair; what is owed to it waits for its replacement."""
        self.places: dict[str, Place] = {}
        """The own place included, once it was published."""
        self.tombstones: dict[str, int] = {}
        """Name -> highest dead incarnation, the latest last."""
        self.replaced: dict[str, int] = {}
        """Name -> highest incarnation whose repair is finished."""
        self.outlived = 0
        """The highest life of this broker's own name that somebody has called dead."""
        self.sessions: dict[str, int] = {}
        """Name -> incarnation of the latest session with it."""
        self.attached: dict[str, str] = {}
        """Dead neighbour -> the coordinator that this broker follows in its repair. Kept by whoever runs repairs."""
        self.epoch = 0
        self.configuration = Configuration()
        """The latest configuration that this broker has heard of."""
        self.decided = Configuration()
        """The latest of which it is known that majorities have agreed to it."""
        self.forgotten: dict[Life, None] = {}
        """Lives that never return, as the operator says: majorities do without them."""
        self.looks_after: tuple[Life, ...] = ()
        """Dead brokers whose clients are looked after here; told with the place, so that whoever replaces this broker
        knows whom it looks after then."""
        self.version = 0
        self._bonds: dict[str, int] = {}
        """Neighbours with their incarnations, as published last."""
        self._in_line: dict[str, Place] = {}
        self._is_swept = True

    def found(self, mark: int = 0, version: int = 1) -> None:
        """Begin a network of which this broker is the root. `mark`: drawn, because numbers of lives may return.
        `version`: of its first configuration, above all that this broker remembers."""
        network = f"{self.name}.{self.incarnation}.{mark:08x}"
        self.lead(network, Configuration(version, (self.as_voter(),)))

    def lead(self, network: str, configuration: Configuration) -> None:
        """This broker is the root of a network without any other broker so far. The configuration is decided."""
        self.parent = None
        self.network = network
        self.configuration = self.decided = configuration
        self.publish_place()

    def as_voter(self) -> Voter:
        return Voter(self.name, self.incarnation, self.address, self.remembers)

    def bury(self, lives: Iterable[Life]) -> None:
        """Nobody has to repair these lives: they ended before this tree began."""
        names = []
        for life in lives:
            if life.name != self.name:
                self.mark_dead(life.name, life.incarnation)
                names.append(life.name)
        self.mark_replaced(names)

    # -- lives and deaths ----------------------------------------------------------------------------------------------

    def incarnation_of(self, name: str) -> int:
        """Of the life that stands in the tree; 0 when unknown."""
        if name == self.name:
            return self.incarnation
        place = self.places.get(name)
        return place.incarnation if place is not None else self.sessions.get(name, 0)

    def life(self, name: str) -> Life:
        return Life(name, self.incarnation_of(name))

    def lives(self, names: Iterable[str]) -> tuple[Life, ...]:
        return tuple([self.life(name) for name in sorted(names)])

    def dead_lives(self, names: Iterable[str]) -> tuple[Life, ...]:
        """Of brokers that were declared dead: the lives that were, even where a later one of the name has its place."""
        return tuple([Life(name, self.tombstones.get(name, self.incarnation_of(name))) for name in sorted(names)])

    def is_dead(self, name: str) -> bool:
        """The life that stands in the tree under this name was declared dead."""
        return name in self.tombstones and self.incarnation_of(name) <= self.tombstones[name]

    def is_dead_speaker(self, name: str) -> bool:
        """The life that we have a session with was declared dead. It may be a later one than stands in the tree."""
        return name in self.tombstones and self._met(name) <= self.tombstones[name]

    def is_replaced(self, name: str) -> bool:
        """The repair of the life that stands in the tree is finished."""
        return name in self.replaced and self.incarnation_of(name) <= self.replaced[name]

    def liveness(self, life: Life) -> Liveness:
        """As far as others have spoken about it: whether it is heard is for the failure detector to tell."""
        if life.incarnation <= self.replaced.get(life.name, -1):
            return Liveness.REPLACED
        if life.incarnation <= self.tombstones.get(life.name, -1):
            return Liveness.DECLARED_DEAD
        return Liveness.FORGOTTEN if life in self.forgotten else Liveness.HEARD

    def mark_dead(self, name: str, incarnation: int) -> None:
        """A tombstone for this life: it and all before it are dead."""
        if name == self.name and 0 <= incarnation <= NUMBER_MAX:
            self.outlived = max(self.outlived, incarnation)
        if name == self.name or not 0 <= incarnation <= NUMBER_MAX or incarnation <= self.tombstones.get(name, -1):
            return
        self.tombstones.pop(name, None)
        self.tombstones[name] = incarnation
        if len(self.tombstones) > TOMBSTONES_MAX:
            del self.tombstones[next(iter(self.tombstones))]

    def declare(self, names: Sequence[str]) -> Declared:
        """Mark these as dead and return the outcome that starts their repair. They are marked at once, so that the
        overlay does not declare them a second time before the broker acts on the outcome."""
        for name in names:
            self.mark_dead(name, self.incarnation_of(name))
        return Declared(tuple(names))

    def mark_replaced(self, names: Iterable[str]) -> None:
        """Note that the repair of these is finished here."""
        for life in self.dead_lives(names):
            self.replaced[life.name] = max(life.incarnation, self.replaced.pop(life.name, -1))
        while len(self.replaced) > REPAIRED_MAX:
            del self.replaced[next(iter(self.replaced))]
        self._let_in()

    def record(self, registration: Registration) -> bool:
        """Mark what somebody registers as dead. False when that is this broker itself."""
        for life in registration.dead:
            self.mark_dead(life.name, life.incarnation)
        if is_among(self.name, self.incarnation, registration.dead):
            return False
        self.follow(registration.configuration)
        return True

    def follow(self, configuration: Configuration) -> None:
        """Somebody follows this configuration: take it over when it is newer."""
        known = self.configuration.version
        is_newer = known < configuration.version and (not known or configuration.version <= known + LEAP_MAX)
        if is_newer and configuration.is_sound():
            self.configuration = configuration

    def follow_decided(self, configuration: Configuration) -> None:
        """Somebody knows that this configuration was decided. A rival of the same version then never was."""
        known = self.decided.version
        is_newer = known < configuration.version and (not known or configuration.version <= known + LEAP_MAX)
        if is_newer and configuration.is_sound():
            self.decided = configuration
            if configuration.version >= self.configuration.version:
                self.configuration = configuration

    def is_majority(
        self,
        configuration: Configuration,
        lives: Collection[Life],
        is_ended: Callable[[Life], bool] = lambda life: False,
    ) -> bool:
        """More than half of the voters, those aside that the operator has forgotten (all of them, perhaps); half of
        them with the root, if the others were declared dead; or all that are not certainly gone (`is_ended`). Whoever
        else could have decided would be among the gone: all of a majority, and more than f."""
        voters = [voter.life for voter in configuration.voters if voter.life not in self.forgotten]
        if 2 * sum(life in lives for life in voters) > len(voters) or (configuration.voters and not voters):
            return True
        others = [life for life in voters if life not in lives]
        if self.is_half_with_root(configuration, lives) and all(self.is_dead_life(life) for life in others):
            return True
        return bool(lives) and all(is_ended(life) for life in others)

    def may_decide(
        self,
        configuration: Configuration,
        lives: Collection[Life],
        first_hand: Collection[Life],
        is_ended: Callable[[Life], bool],
    ) -> bool:
        """Like `is_majority`, where later lives may have voted for all of these but those in `first_hand`. Only the
        latter have never ended, so only they may do with less than those who come back need (`may_reunite`), and only
        if the voters that are certainly gone could not come back and decide without them."""
        if self.is_majority(configuration, first_hand):
            return True
        if self.is_strict_majority(configuration, lives) and self.may_reunite(configuration, lives):
            return True
        heirs = [voter.life for voter in configuration.voters if voter.remembers and voter.life not in first_hand]
        return self.is_majority(configuration, first_hand, is_ended) and not self.may_reunite(configuration, heirs)

    def is_strict_majority(self, configuration: Configuration, lives: Collection[Life]) -> bool:
        """More than half of the voters, those aside that the operator has forgotten (all of them, perhaps)."""
        voters = [voter.life for voter in configuration.voters if voter.life not in self.forgotten]
        return 2 * sum(life in lives for life in voters) > len(voters) or bool(configuration.voters and not voters)

    def may_reunite(self, configuration: Configuration, lives: Collection[Life]) -> bool:
        """After all of them have ended: may the next lives of these voters go on as the same network? More than half,
        and more than f, because all but f may have gone on while f were certainly gone (`may_decide`)."""
        return self.missing_for_reunion(configuration, lives) == 0

    def missing_for_reunion(self, configuration: Configuration, lives: Collection[Life]) -> int:
        """How many more voters are needed."""
        voters = [voter.life for voter in configuration.voters if voter.life not in self.forgotten]
        least = max(len(voters) // 2 + 1, min(self.faults + 1, len(voters)))
        return max(0, least - sum(life in lives for life in voters))

    def is_half_with_root(self, configuration: Configuration, lives: Collection[Life]) -> bool:
        """At least half of the voters, the root among them. Any two such halves have the root in common, and each has
        a voter in common with every majority: nobody can decide against them."""
        voters = [voter.life for voter in configuration.voters if voter.life not in self.forgotten]
        has_root = bool(configuration.voters) and configuration.voters[0].life in lives
        return has_root and 2 * sum(life in lives for life in voters) >= len(voters)

    def is_dead_life(self, life: Life) -> bool:
        """It was declared dead, whatever stands in the tree under its name."""
        return life.incarnation <= self.tombstones.get(life.name, -1)

    @property
    def leads_configuration(self) -> bool:
        """This life is the first of the configuration that it follows."""
        return self.configuration.root == self.name and self.configuration.holds(self.name, self.incarnation)

    def recent_tombstones(self, count: int) -> tuple[Life, ...]:
        """The latest ones, oldest first."""
        return tuple([Life(name, number) for name, number in list(self.tombstones.items())[-count:]])

    # -- places --------------------------------------------------------------------------------------------------------

    def learn(self, *places: Place) -> bool:
        """The newer (incarnation, version) wins. True when any is news."""
        news = [place for place in places if self._learn(place, self.places.get(place.name))]
        self._is_swept = self._is_swept and not news
        return bool(news)

    def _learn(self, place: Place, known: Place | None) -> bool:
        if not self.is_credible(place):
            return False
        if place.name == self.name:
            # A coordinator may have spoken in our name: what we publish next must be newer than that.
            if place.incarnation == self.incarnation and place.version <= self.version + LEAP_MAX:
                self.version = max(self.version, place.version)
            return False
        if known is None:
            if len(self.places) >= PLACES_MAX:
                return False
        elif not place.is_newer(known):
            return False
        elif place.incarnation > known.incarnation and self._awaits_repair(place.name):
            waiting = self._in_line.get(place.name)
            if waiting is None or place.is_newer(waiting):
                self._in_line[place.name] = place
            return False
        self.places[place.name] = place
        for name, incarnation in place.bonds():
            if name != place.parent:
                self._expect(name, incarnation, place.name)
        return True

    def is_credible(self, place: Place) -> bool:
        """Whether a place is sound and agrees with what this broker knows of its own links. A neighbour is next to this
        broker, and its child unless it is its parent; a broker that is no neighbour is no child. Otherwise two brokers
        would judge whether one lives, and each would blame the other for it."""
        if not place.is_sound() or place.name == self.name:
            return place.is_sound()
        if self.neighbours.get(place.name) and place.incarnation == self.bonds()[place.name]:
            is_child = place.name != self.parent
            return self.name in place.neighbours and (place.parent == self.name) == is_child
        here = self.places.get(self.name)
        is_linked = place.name in self.neighbours or (here is not None and place.name in here.neighbours)
        return place.parent != self.name or is_linked or dict(place.bonds())[self.name] not in (0, self.incarnation)

    def publish_place(self, joining: str | None = None) -> Place:
        """The own place as it is now, under the next version; `joining` is a newcomer that will become a child once
        everybody knows. The place still has to be told (`Waves.start`)."""
        bonds = self.bonds()
        self._bonds = dict(bonds)
        if joining is not None:
            bonds[joining] = self._met(joining)
        self.version += 1
        here = Place(
            self.name, self.incarnation, self.version, self.parent, tuple(bonds), self.address, tuple(bonds.values()),
            self.looks_after[-LIVES_MAX:], self.remembers,
        )  # fmt: skip
        self.places[self.name] = here
        for name, incarnation in bonds.items():
            if name != self.parent:
                self._expect(name, incarnation, self.name)
        self._is_swept = False
        return here

    def sweep(self) -> None:
        """Once per heartbeat: forget what is more than a hop beyond reach. What is dead but not repaired is still
        listed by its neighbours, so it stays; what was repaired is listed by nobody and goes."""
        if self._is_swept:
            return
        # Across the dead brokers of a repair, others are nearer than they look.
        margin = 0 if all(self.neighbours.values()) else self.faults
        near = lineage.branches(self, self.reach + 1 + margin)
        if any(name not in near for name in self.places):
            self.places = {name: place for name, place in self.places.items() if name in near}
        self._let_in()
        self._is_swept = not self._in_line and not margin

    def admits(self, name: str, incarnation: int) -> bool:
        """May this life be given a place here? Not while an earlier life of the name still stands in our view, and not
        if this life has told a place of its own: an honest one has one place, and begins another life to move."""
        self.sweep()
        if incarnation <= max(self.tombstones.get(name, -1), self.replaced.get(name, -1)) or name in self.neighbours:
            return False
        known = self.places.get(name)
        is_foretold = known is not None and known.incarnation == incarnation and known.version == 0
        return known is None or is_foretold or self.is_replaced(name)

    def bonds(self) -> dict[str, int]:
        """Neighbours with their incarnations."""
        return {name: self._bonds[name] if name in self._bonds else self._met(name) for name in self.neighbours}

    def is_linked(self, name: str) -> bool:
        """What this peer says, it says as our neighbour: the link is open, and it is not a later life of that name."""
        met = self._met(name)
        return self.neighbours.get(name, False) and self._bonds.get(name, met) == met

    def _met(self, name: str) -> int:
        return self.sessions[name] if name in self.sessions else self.incarnation_of(name)

    def _expect(self, name: str, incarnation: int, parent: str) -> None:
        """Its parent knows this child, but it has not spoken yet. It may die before it does, and then somebody must be
        responsible for it all the same."""
        known = self.places.get(name)
        is_ours = name in self.neighbours and parent != self.name
        if name == self.name or is_ours or (known is None and len(self.places) >= PLACES_MAX):
            return
        place = Place(name, incarnation, 0, parent, (parent,), "", (self.incarnation_of(parent),))
        if known is None or (known.version == 0 and known.incarnation == incarnation):
            self.places[name] = place  # the last host that took it in
        elif known.incarnation < incarnation:
            if self._awaits_repair(name):
                self._in_line.setdefault(name, place)
            else:
                self.places[name] = place

    def _awaits_repair(self, name: str) -> bool:
        """The known life, dead or not, still has its place: somebody near lists it."""
        if self.is_replaced(name):
            return False
        return name in self.neighbours or name in lineage.branches(self, self.reach + 1)

    def _let_in(self) -> None:
        for name, place in list(self._in_line.items()):
            known = self.places.get(name)
            is_newer = known is None or place.is_newer(known)
            if not is_newer or known is None or not self._awaits_repair(name):
                del self._in_line[name]
                if is_newer:
                    self.places[name] = place

    # -- the tree ------------------------------------------------------------------------------------------------------

    def component(self, name: str) -> tuple[str, ...]:
        """The dead around a dead broker, itself included, that are not yet repaired."""
        return lineage.component(self, name)

    def coordinator(self, dead: Iterable[str]) -> str | None:
        """Who leads the repair of a component: the parent of its topmost broker; when it holds the root, the living
        broker nearest to it, by the order of its links."""
        return lineage.coordinator(self, frozenset(dead))

    def members(self, dead: Iterable[str]) -> tuple[str, ...]:
        """The living neighbours of a component in this view, this broker excluded."""
        return lineage.members(self, frozenset(dead))
