"""Questions about the tree as one broker sees it: components of the dead, who leads a repair, who is above whom.

Nothing here changes anything; answers follow sorted names and the order of links, never the order of a set.

`Liveness` says how far a life is from being heard, on one scale. A greater value is further away. A message of the life
itself brings it back from `UNRESPONSIVE` and `SILENT`; from `ENDED` on there is no way back for a life, only for its
name, under a higher incarnation.
"""

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resprout.overlay.view import MembershipView


class Liveness(IntEnum):
    HEARD = 0
    """Its connection stands and its stack speaks: whatever it says keeps it here."""
    UNRESPONSIVE = 1
    """Its connection stands, and its stack has said nothing for a lease: the failure detector finds that by itself."""
    SILENT = 2
    """Its connection is broken or cannot be made. Only the links report this."""
    ENDED = 3
    """Certainly over: its own host says that the process is gone, it said farewell, or a later life has spoken."""
    FORGOTTEN = 4
    """It never returns: the operator says so, and majorities do without it."""
    DECLARED_DEAD = 5
    """It has a tombstone: only its authority may put it there, and everybody who hears of it follows."""
    REPLACED = 6
    """Its repair is finished here: the coordinator puts it there, and every member when it has its Grant."""


def parent_of(view: "MembershipView", name: str) -> str | None:
    place = view.places.get(name)
    return place.parent if place is not None else None


def around(view: "MembershipView", name: str) -> tuple[str, ...]:
    """Neighbours in the order of its links."""
    place = view.places.get(name)
    return place.neighbours if place is not None else ()


def branches(view: "MembershipView", hops: int) -> dict[str, tuple[int, str]]:
    """Everybody that is named within so many hops, nearest first: how far, and behind which neighbour. A place of an
    earlier life than its neighbours speak of is no longer there."""
    found = {view.name: (0, view.name)}
    level = [(name, name) for name, life in view.bonds().items() if _stands(view, name, life)]
    for distance in range(1, hops + 1):
        following: list[tuple[str, str]] = []
        for name, way in level:
            if name not in found:
                found[name] = (distance, way)
                place = view.places.get(name)
                for other, life in () if place is None else place.bonds():
                    if other not in found and _stands(view, other, life):
                        following.append((other, way))
        level = following
    return found


def _stands(view: "MembershipView", name: str, incarnation: int) -> bool:
    place = view.places.get(name)
    return place is None or place.incarnation >= incarnation


def component(view: "MembershipView", name: str) -> tuple[str, ...]:
    """Return the piece of this dead broker: the dead brokers connected with it whose repair is not finished."""
    found = {name}
    open_ends = [name] if view.is_dead(name) else []
    while open_ends:
        here = open_ends.pop()
        above = parent_of(view, here)
        for other in (*around(view, here), *(() if above is None else (above,))):
            if other not in found and view.liveness(view.life(other)) is Liveness.DECLARED_DEAD:
                found.add(other)
                open_ends.append(other)
    return tuple(sorted(found))


def members(view: "MembershipView", dead: Collection[str]) -> tuple[str, ...]:
    """Return the living brokers next to these dead brokers, without this one."""
    near = {other for name in dead if view.is_dead(name) for other in around(view, name)}
    return tuple(sorted(x for x in near if x not in dead and x != view.name and not view.is_dead(x)))


def coordinator(view: "MembershipView", dead: Collection[str]) -> str | None:
    tops = [name for name in sorted(dead) if parent_of(view, name) not in dead]
    for name in tops:
        if (above := parent_of(view, name)) is not None:
            return above
    for name in tops:
        found = nearest(view, (name,), view.is_dead)
        if found is not None:
            return found
    return None


def authority(
    view: "MembershipView", suspect: str, is_unanswering: Callable[[str], bool]
) -> tuple[str | None, frozenset[str]]:
    """Return the broker that may declare a suspect dead: its parent, or the next ancestor that is neither dead nor
    unanswering; beyond the root, the nearest such broker in the order of links. Also return the suspect with all
    brokers that were passed over on the way. They are judged together, so that only one broker follows the root."""
    passed = {suspect}

    def is_passed(name: str) -> bool:
        return view.is_dead(name) or is_unanswering(name)

    while True:
        above = [parent_of(view, name) for name in sorted(passed)]
        found = next((name for name in above if name is not None and name not in passed), None)
        if found is None:
            tops = [name for name in sorted(passed) if name in view.places and parent_of(view, name) is None]
            found = nearest(view, tops or sorted(passed), lambda name: name in passed or is_passed(name), passed)
            return found, frozenset(passed)
        if not is_passed(found):
            return found, frozenset(passed)
        passed.add(found)


def nearest(
    view: "MembershipView", start: Iterable[str], is_passed: Callable[[str], bool], passed: set[str] | None = None
) -> str | None:
    """The first broker that is not passed over, level by level, going on only through those that are; they are added
    to `passed`, except where their repair is finished."""
    level = list(start)
    seen = set(level)
    while level:
        following: list[str] = []
        for here in level:
            for name in around(view, here):
                if name in seen:
                    continue
                seen.add(name)
                if not is_passed(name):
                    return name
                following.append(name)
                if passed is not None and not view.is_replaced(name):
                    passed.add(name)
        level = following
    return None


def successors(view: "MembershipView", root: str, count: int) -> tuple[str, ...]:
    """Return up to `count` brokers that would lead the repair of the root: the first one, then the one that would if
    the first died too, and so on."""
    found: list[str] = []
    while len(found) < count:
        name = nearest(view, (root,), lambda name: name in found or view.is_dead(name))
        if name is None:
            break
        found.append(name)
    return tuple(found)
