"""All brokers of a tree stop and come back by themselves: one network, whatever is cut or crashes meanwhile. A few
seeds each, and hundreds in `make soak`."""

import random
from functools import partial

import pytest

from resprout.overlay.configurations import MembershipMemory, decode, encode
from resprout.overlay.messages import Configuration, Life, Voter
from resprout.overlay.view import MembershipView
from tests.soak import cases
from tests.stacks.council_claims import Watch, is_settled, run_until_settled
from tests.stacks.council_world import FORMED_LEASES, LEASE_US, CouncilWorld, draw_tree


def formed(seed: int, size: int, faults: int) -> tuple[CouncilWorld, random.Random]:
    """A tree of brokers that remember, watched."""
    chance = random.Random(f"reunion {seed}")
    world = CouncilWorld(seed, draw_tree(chance, size), faults, remembers=True)
    run_until_settled(world, least=1, most=FORMED_LEASES)
    assert is_settled(world)
    world.watch = Watch(world)
    return world, chance


def networks(world: CouncilWorld) -> set[str]:
    return {broker.life.view.network for broker in world.living() if broker.life.attached}


def stop_all(world: CouncilWorld) -> None:
    for name in list(world.brokers):
        if world.lives(name):
            world.crash(name, refuses=True)


@pytest.mark.parametrize(("size", "faults"), [(1, 1), (2, 1), (3, 1), (7, 1), (3, 2), (6, 2)])
def test_brokers_that_have_all_stopped_go_on_as_the_same_network(size: int, faults: int) -> None:
    for seed in range(cases(2, 60)):
        world, chance = formed(seed, size, faults)
        (network,) = networks(world)
        version = max(broker.life.view.decided.version for broker in world.living())
        stop_all(world)
        for name in world.brokers:
            world.after(chance.randrange(1, 2 * LEASE_US), partial(world.revive, name))
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and len(world.living()) == size
        assert networks(world) == {network}
        assert min(broker.life.view.configuration.version for broker in world.living()) > version


def test_voters_join_the_broker_that_they_made_the_root_however_late_they_speak_to_it() -> None:
    """A root that gathers its voters has no lease, and answered only those that spoke to it before its next heartbeat
    that it has a place. The others made another broker the root, and the first one was fenced."""
    for seed in (22, 23):
        world, chance = formed(seed, 6, 2)
        stop_all(world)
        for name in world.brokers:
            world.after(chance.randrange(1, 2 * LEASE_US), partial(world.revive, name))
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and not world.count("fenced"), f"seed {seed}"


def test_two_of_three_go_on_and_one_of_three_waits() -> None:
    for seed in range(cases(3, 60)):
        world, chance = formed(seed, 3, 1)
        (network,) = networks(world)
        first, second, third = chance.sample(list(world.brokers), 3)
        stop_all(world)
        world.revive(first)
        world.run(20)
        assert not networks(world), "one of three must not go on alone"
        world.revive(second)
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and networks(world) == {network}
        world.revive(third)
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and len(world.living()) == 3 and networks(world) == {network}


def test_one_that_lives_cut_off_from_a_majority_that_came_back_is_fenced_when_it_is_heard() -> None:
    for seed in range(cases(3, 60)):
        world, chance = formed(seed, 3, 1)
        (network,) = networks(world)
        alone = chance.choice(list(world.brokers))
        others = [name for name in world.brokers if name != alone]
        world.partition(others)
        for name in others:
            world.crash(name, refuses=True)
            world.revive(name)
        world.run(20)
        assert all(world.brokers[name].life.attached for name in others), "two of three go on"
        world.heal()
        run_until_settled(world, least=3, most=80)
        assert is_settled(world) and len(world.living()) == 3 and networks(world) == {network}
        assert world.was_fenced(alone)


def test_two_of_three_crash_at_once_and_the_third_goes_on_with_the_consent_of_one_that_returns() -> None:
    for seed in range(cases(3, 60)):
        world, chance = formed(seed, 3, 1)
        fallen = chance.sample(list(world.brokers), 2)
        for name in fallen:
            world.crash(name, refuses=True)
        world.run(10)
        (left,) = world.living()
        assert not is_settled(world), "the two others may come back and go on without it"
        assert set(left.parts.council.awaited_voters) == {Life(name, 1) for name in fallen}
        world.revive(fallen[0])
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and len(world.living()) == 2
        world.revive(fallen[1])
        run_until_settled(world, least=3, most=60)
        assert is_settled(world) and len(world.living()) == 3 and len(networks(world)) == 1


@pytest.mark.parametrize("faults", [1, 2])
def test_crashes_and_cuts_in_the_middle_of_it_never_make_two_networks(faults: int) -> None:
    for seed in range(cases(6, 400)):
        world, chance = formed(1_000 + seed, chance_size(seed, faults), faults)
        (network,) = networks(world)
        names = list(world.brokers)
        stop_all(world)
        for _ in range(chance.randint(3, 12)):
            _strike(world, chance, names)
            world.run(chance.choice((0.05, 0.3, 1, 3)))
        world.run(1.1)  # what was drawn for later has happened
        world.heal()
        for name in names:
            if not world.lives(name):
                world.revive(name)
        run_until_settled(world, least=5, most=150)
        assert is_settled(world), f"seed {seed}"
        assert len(world.living()) == len(names) and networks(world) == {network}


def chance_size(seed: int, faults: int) -> int:
    return random.Random(seed).randint(2, 3 + 3 * faults)


def _strike(world: CouncilWorld, chance: random.Random, names: list[str]) -> None:
    for name in chance.sample(names, chance.randint(1, len(names))):
        if not world.lives(name):
            world.after(chance.randrange(1, LEASE_US), partial(world.revive, name))
    kind = chance.choice(("crash", "crash", "partition", "sever", "heal", "nothing"))
    living = [name for name in names if world.lives(name)]
    if kind == "crash" and living:
        for name in chance.sample(living, chance.randint(1, len(living))):
            world.after(chance.randrange(1, LEASE_US), partial(world.crash, name))
    elif kind == "partition" and len(names) > 1:
        world.partition(chance.sample(names, chance.randint(1, len(names) - 1)))
    elif kind == "sever" and len(names) > 1:
        world.sever(*chance.sample(names, 2))
    elif kind == "heal":
        world.heal()


@pytest.mark.parametrize(
    ("voters", "faults", "least"), [(1, 1, 1), (2, 1, 2), (3, 1, 2), (3, 2, 3), (4, 2, 3), (5, 2, 3)]
)
def test_those_who_come_back_and_those_who_went_on_always_have_a_voter_in_common(
    voters: int, faults: int, least: int
) -> None:
    here = MembershipView("v0", 1, "", faults)
    configuration = Configuration(3, tuple([Voter(f"v{number}", 1, "", True) for number in range(voters)]))
    lives = [voter.life for voter in configuration.voters]
    for count in range(voters + 1):
        back, left = lives[:count], lives[count:]
        assert here.may_reunite(configuration, back) == (count >= least)
        alone = here.may_decide(configuration, left, left, lambda life: True)
        assert not (here.may_reunite(configuration, back) and alone)
        lent = here.may_decide(configuration, back, [Life("child", 1)], lambda life: True)
        assert not (lent and alone), "with votes of later lives, less than a majority is not enough"


def test_a_memory_that_is_damaged_is_none() -> None:
    memory = MembershipMemory("b0.1.0", (1, 2), 3, Configuration(2, (Voter("b0", 1, "", True),)))
    assert decode(encode(memory)) == memory
    assert decode(encode(memory)[:-3]) is None
