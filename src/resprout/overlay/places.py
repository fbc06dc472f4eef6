"""The values that brokers tell each other about the tree, and how large they may be.

A *life* is one incarnation of a broker: it ends once, and never again. Names return, lives do not, so everything that
must not be confused over a restart (the dead, the voters of the configuration) speaks of lives.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from resprout.core import limits
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX, BoundedNumber

NEIGHBOURS_MAX: Final = 4096
"""Of one place. As many as a node keeps sessions."""
SEATS_MAX: Final = 64
"""Of one configuration: enough for f = 31."""
LIVES_MAX: Final = 1024
"""That one message may call dead."""
LEAP_MAX: Final = 1 << 20
"""By so much a version may be ahead of the one known before: a liar must not use up the numbers."""


class Life(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One incarnation of a broker."""

    name: str
    incarnation: BoundedNumber


def is_among(name: str, incarnation: int, dead: tuple[Life, ...]) -> bool:
    """This life, or a later one of the same name, is listed."""
    return any(life.name == name and life.incarnation >= incarnation for life in dead)


def check_lives(dead: tuple[Life, ...]) -> None:
    """PeerError when a message names more lives than any honest one."""
    if len(dead) > LIVES_MAX:
        raise PeerError(f"{len(dead)} brokers called dead at once; at most {LIVES_MAX}")


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a broker stands, as it says itself (or as the coordinator of a repair says in its name)."""

    name: str
    incarnation: BoundedNumber
    version: BoundedNumber
    """Counts the places of one incarnation; the newer wins."""
    parent: str | None
    neighbours: tuple[str, ...]
    """Parent and children, oldest link first, those in repair included."""
    address: str
    lives: tuple[BoundedNumber, ...] = ()
    """Incarnations of the neighbours, in the same order."""
    looks_after: tuple[Life, ...] = ()
    """Dead brokers whose clients are looked after here."""
    remembers: bool = False
    """Its next life will know what this one has agreed to (`configurations`)."""

    @property
    def life(self) -> Life:
        return Life(self.name, self.incarnation)

    def rewired(self, dead: Collection[str], centre: Life) -> "Place":
        """This broker after a repair: the dead are no longer next to it, their replacement is."""
        kept = [(name, life) for name, life in self.bonds() if name not in dead and name != centre.name]
        bonds = [*kept, (centre.name, centre.incarnation)]
        return msgspec.structs.replace(
            self,
            version=self.version + 1,
            parent=centre.name if self.parent in dead else self.parent,
            neighbours=tuple([name for name, _ in bonds]),
            lives=tuple([life for _, life in bonds]),
        )

    def bonds(self) -> list[tuple[str, int]]:
        """Neighbours with their incarnations; 0 where it is not said."""
        return list(zip(self.neighbours, self.lives or (0,) * len(self.neighbours), strict=True))

    def is_newer(self, other: "Place") -> bool:
        return (self.incarnation, self.version) > (other.incarnation, other.version)

    def is_sound(self) -> bool:
        """Within all bounds, and a neighbour of its own parent."""
        return (
            0 <= self.incarnation <= NUMBER_MAX
            and 0 <= self.version <= NUMBER_MAX
            and len(self.neighbours) <= NEIGHBOURS_MAX
            and len(self.lives) in (0, len(self.neighbours))
            and all(0 <= number <= NUMBER_MAX for number in self.lives)
            and self.name not in self.neighbours
            and (self.parent is None or self.parent in self.neighbours)
            and len(self.looks_after) <= LIVES_MAX
            and all(0 <= life.incarnation <= NUMBER_MAX for life in self.looks_after)
            and _are_names((self.name, *self.neighbours, *[life.name for life in self.looks_after]))
        )


class Voter(msgspec.Struct, frozen=True, array_like=True):
    """A life that votes about the root, and where it is reached."""

    name: str
    incarnation: BoundedNumber
    address: str
    remembers: bool = False
    """Its next life may vote in its place: it keeps on disk what it has agreed to (`configurations`)."""

    @property
    def life(self) -> Life:
        return Life(self.name, self.incarnation)


class Configuration(msgspec.Struct, frozen=True, array_like=True):
    """The root and those who vote when it dies: 2f+1 lives at most. The first is the root."""

    version: BoundedNumber = 0
    voters: tuple[Voter, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([voter.name for voter in self.voters])

    @property
    def root(self) -> str | None:
        return self.voters[0].name if self.voters else None

    @property
    def label(self) -> tuple[int, str]:
        """Tells configurations apart: a root never makes two of one version."""
        return self.version, self.root or ""

    def holds(self, name: str, incarnation: int) -> bool:
        """Only this life may vote: another one of the same name remembers nothing of what it had accepted."""
        return any(voter.name == name and voter.incarnation == incarnation for voter in self.voters)

    def is_sound(self) -> bool:
        names = self.names
        return (
            0 <= self.version <= NUMBER_MAX
            and len(names) <= SEATS_MAX
            and len(set(names)) == len(names)
            and all(0 <= voter.incarnation <= NUMBER_MAX for voter in self.voters)
            and _are_names(names)
        )


class Registration(msgspec.Struct, frozen=True, array_like=True):
    """These are dead and about to be replaced; the configuration that its author follows rides along."""

    dead: tuple[Life, ...]
    configuration: Configuration


def _are_names(names: tuple[str, ...]) -> bool:
    return all(0 < len(name) <= limits.NAME_BYTES for name in names)
