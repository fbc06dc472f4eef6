"""What must hold in every world: always, and some time after the last fault."""

import random

from resprout.overlay.messages import Configuration, Life
from tests.stacks.council_world import FORMED_LEASES, HEARTBEAT_US, LEASE_US, CouncilWorld, Witness, draw_tree


def draw_world(seed: int, faults: int) -> tuple[CouncilWorld, random.Random, dict[str, str | None]]:
    """A tree that has formed and is watched, the chance of its faults, and every broker's parent."""
    chance = random.Random(seed)
    parents = draw_tree(chance, chance.randint(4 * faults, 4 + 5 * faults))
    world = CouncilWorld(seed, parents, faults)
    run_until_settled(world, least=1, most=FORMED_LEASES)
    assert is_settled(world) and not world.history
    assert {name: broker.life.view.parent for name, broker in world.brokers.items()} == parents
    world.watch = Watch(world)
    return world, chance, parents


def run_until_settled(world: CouncilWorld, least: float, most: float = 40) -> None:
    """At least and at most so many leases."""
    world.run(least)
    end_us = world.now_us + int((most - least) * LEASE_US)
    while not is_settled(world) and world.now_us < end_us:
        world.run(0.5)
    world.run(4 * HEARTBEAT_US / LEASE_US)


class Watch:
    """Looks at a world again and again: there is never more than one root with a majority, and never more than one
    decided configuration of a version."""

    def __init__(self, world: CouncilWorld) -> None:
        self.world = world
        self.decided: dict[int, Configuration] = {}

    def __call__(self) -> None:
        roots = 0
        for broker in self.world.brokers.values():
            known = broker.life.view.decided
            if self.decided.setdefault(known.version, known) is not known:
                assert self.decided[known.version] == known
            if broker.parts.council.is_root and self.world.lives(broker.name):
                roots += self._has_majority(broker)
        assert roots <= 1

    def _has_majority(self, broker: Witness) -> bool:
        mine = broker.life.view.configuration
        voters = [voter for voter in mine.voters if self.world.lives(voter.name)]
        followers = [
            voter.life
            for voter in voters
            if self.world.brokers[voter.name].incarnation == voter.incarnation
            and self.world.brokers[voter.name].life.view.configuration == mine
        ]
        return broker.life.view.is_majority(mine, followers)


def is_settled(world: CouncilWorld) -> bool:
    """No repair is running, everybody has a place and hears the root, both ends agree on every link, and the
    configuration is whole again."""
    living = world.living()
    for broker in living:
        here = broker.life.view
        if not broker.life.attached or broker.life.leading or not all(here.neighbours.values()):
            return False
        if not broker.parts.council.leased:
            return False
        for name in here.neighbours:
            if not world.lives(name) or broker.name not in world.brokers[name].life.view.neighbours:
                return False
    roots = [broker for broker in living if broker.life.view.parent is None]
    return len(roots) == 1 and len(_under(world, roots[0].name)) == len(living) and _is_list_whole(world, roots[0])


def _is_list_whole(world: CouncilWorld, root: Witness) -> bool:
    voters = root.life.view.configuration.voters
    if len(voters) != min(2 * world.faults + 1, len(world.living())):
        return False
    return all(
        world.lives(voter.name) and world.brokers[voter.name].incarnation == voter.incarnation for voter in voters
    )


def _under(world: CouncilWorld, root: str) -> set[str]:
    found = {root}
    ends = [root]
    while ends:
        here = ends.pop()
        for name, broker in world.brokers.items():
            if name not in found and world.lives(name) and broker.life.view.parent == here:
                found.add(name)
                ends.append(name)
    return found


def check_peace(world: CouncilWorld) -> None:
    """What must be true some time after the last fault."""
    assert is_settled(world)
    living = world.living()
    for broker in living:
        here = broker.life.view
        for name, incarnation in here.tombstones.items():
            assert world.brokers[name].incarnation > incarnation or not world.lives(name), (
                "a living broker was declared dead"
            )
        for name, distance in _distances(world, broker.name).items():
            if distance <= world.faults + 1:
                there = world.brokers[name].life.view
                place = here.places[name]
                assert (place.incarnation, place.parent) == (there.incarnation, there.parent)
                assert set(place.neighbours) == set(there.neighbours)
    for life in {life for _, _, what, lives in world.history if what == "repaired" for life in lives}:
        assert len(leaders_of(world, life)) <= 1


def leaders_of(world: CouncilWorld, life: Life) -> set[str]:
    """The brokers that repaired it and still live that life."""
    return {
        who
        for _, who, what, lives in world.history
        if what == "repaired" and life in lives and world.lives(who) and not world.was_fenced(who)
    }


def _distances(world: CouncilWorld, start: str) -> dict[str, int]:
    found = {start: 0}
    for here in (queue := [start]):
        for name in world.brokers[here].life.view.neighbours:
            if name not in found:
                found[name] = found[here] + 1
                queue.append(name)
    return found
