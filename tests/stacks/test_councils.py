"""Whole trees of brokers under every kind of fault: who is declared dead, by whom, and that there is one root. A few
seeds each, and hundreds in `make soak`."""

import random
from collections.abc import Callable

import pytest

from resprout.overlay.messages import Life
from tests.soak import cases
from tests.stacks.council_claims import check_peace, draw_world, is_settled, run_until_settled
from tests.stacks.council_world import LEASE_US, CouncilWorld, Forget, draw_tree
from tests.stacks.stage import Accuse


@pytest.mark.parametrize(("faults", "seeds"), [(1, cases(8, 300)), (2, cases(4, 100)), (3, cases(2, 60))])
def test_a_crashed_broker_is_declared_once_and_replaced(faults: int, seeds: int) -> None:
    for seed in range(seeds):
        world, chance, parents = draw_world(seed, faults)
        name = chance.choice(list(parents))
        world.crash(name)
        run_until_settled(world, least=1)
        check_peace(world)
        assert world.count("declared") == world.count("repaired") == 1
        assert world.count("fenced") == 0


@pytest.mark.parametrize("faults", [2, 3])
def test_adjacent_brokers_that_crash_together_are_all_replaced(faults: int) -> None:
    for seed in range(cases(2, 50)):
        world, chance, parents = draw_world(seed, faults)
        name = chance.choice(list(parents))
        piece = {name}
        while len(piece) < faults:
            edge = [
                other for x in sorted(piece) for other in world.brokers[x].life.view.neighbours if other not in piece
            ]
            piece.add(chance.choice(edge))
        for other in sorted(piece):
            world.after(
                chance.choice((0, chance.randrange(LEASE_US // 20), chance.randrange(LEASE_US))), _crash(world, other)
            )
        run_until_settled(world, least=2)
        check_peace(world)
        assert world.dead() == piece
        assert world.count("fenced") == 0


@pytest.mark.parametrize("faults", [1, 2])
def test_the_death_of_the_root_makes_one_root_with_a_later_configuration(faults: int) -> None:
    for seed in range(cases(2, 60)):
        world, _, parents = draw_world(seed, faults)
        old = next(iter(parents))
        before = world.brokers[old].life.view.configuration.version
        world.crash(old)
        run_until_settled(world, least=1)
        check_peace(world)
        root = next(broker for broker in world.living() if broker.parts.council.is_root)
        assert root.life.view.configuration.version > before
        assert root.life.view.decided == root.life.view.configuration


@pytest.mark.parametrize("faults", [1, 2])
def test_a_broker_that_returns_at_once_gets_a_new_place_and_its_old_one_is_repaired(faults: int) -> None:
    for seed in range(cases(2, 50)):
        world, chance, parents = draw_world(seed, faults)
        name = chance.choice(list(parents))
        world.crash(name)
        delay_us = chance.choice(
            (chance.randrange(1, LEASE_US // 20), chance.randrange(1, LEASE_US // 2), chance.randrange(1, 3 * LEASE_US))
        )
        world.after(delay_us, lambda world=world, name=name: world.revive(name))  # type: ignore[misc]
        run_until_settled(world, least=4)
        check_peace(world)
        assert world.brokers[name].incarnation == 2
        assert len(world.living()) == len(parents)
        assert [lives for _, _, what, lives in world.history if what == "repaired"] == [(Life(name, 1),)]


@pytest.mark.parametrize("faults", [1, 2])
def test_a_frozen_broker_that_wakes_was_never_declared_or_is_fenced(faults: int) -> None:
    fenced, tried = 0, cases(4, 50)
    for seed in range(tried):
        world, chance, parents = draw_world(seed, faults)
        name = next(iter(parents)) if seed % 3 == 0 else chance.choice(list(parents))
        world.freeze(name)
        leases = chance.choice((chance.uniform(0.2, 1), chance.uniform(1, 1.6), chance.uniform(1, 4)))
        world.after(int(leases * LEASE_US), lambda world=world, name=name: world.thaw(name))  # type: ignore[misc]
        run_until_settled(world, least=8)
        check_peace(world)
        assert world.count("fenced") == world.count("declared") <= 1
        fenced += world.count("fenced")
    assert 0 < fenced < tried


@pytest.mark.parametrize("faults", [1, 2])
def test_up_to_f_brokers_that_are_cut_off_together_are_fenced_like_dead_ones(faults: int) -> None:
    for seed in range(cases(2, 50)):
        world, chance, parents = draw_world(seed, faults)
        name = next(iter(parents)) if seed % 3 == 0 else chance.choice(list(parents))
        world.partition(frozenset((name,)))
        world.after(int(chance.uniform(0.2, 6) * LEASE_US), world.heal)
        run_until_settled(world, least=9)
        check_peace(world)
        assert {who for _, who, what, _ in world.history if what == "fenced"} <= {name}


def test_more_silent_brokers_than_may_crash_are_a_partition_that_heals_by_itself() -> None:
    for seed in range(cases(2, 60)):
        world, chance, parents = draw_world(seed, 1)
        # A whole subtree, so that no broker outside is cut from its parent, with a configuration that keeps its
        # majority.
        tops = [name for name in parents if 2 <= len(_below(parents, name)) <= len(parents) - 3]
        voters = world.brokers["b00"].life.view.configuration.names
        tops = [name for name in tops if sum(voter in _below(parents, name) for voter in voters) <= 1]
        if not tops:
            continue
        below = _below(parents, chance.choice(tops))
        world.partition(frozenset(below))
        waiting: set[str] = set()
        for _ in range(8):
            world.run(1)
            for broker in world.living():
                waiting.update(broker.parts.council.status(world.now_us).cut_off)
        assert waiting & below
        assert not world.brokers[max(below)].parts.council.leased
        world.heal()
        run_until_settled(world, least=3)
        check_peace(world)
        assert not world.history
        assert {name: broker.life.view.parent for name, broker in world.brokers.items()} == parents


@pytest.mark.parametrize("faults", [1, 2])
def test_of_two_neighbours_that_lose_only_each_other_at_most_one_is_fenced(faults: int) -> None:
    for seed in range(cases(2, 50)):
        world, chance, parents = draw_world(seed, faults)
        child = chance.choice(list(parents)[1:])
        parent = parents[child]
        assert parent is not None
        world.sever(child, parent)
        world.after(int(chance.uniform(0.2, 6) * LEASE_US), world.heal)
        run_until_settled(world, least=9)
        check_peace(world)
        assert world.count("fenced") <= 1


def test_forced_mutual_suspicion_ends_in_one_tree_and_fences_nobody_far_away() -> None:
    """One who was asked to replace a neighbour that lives, by somebody who is declared dead before that is done, has a
    tombstone for that neighbour: in the end it is fenced itself."""
    for seed in range(cases(2, 60)):
        world, chance, parents = draw_world(seed, 2)
        child = chance.choice(list(parents)[1:])
        parent = parents[child]
        assert parent is not None
        near = {child, parent, *world.brokers[child].life.view.neighbours, *world.brokers[parent].life.view.neighbours}
        for one, other in ((child, parent), (parent, child)):
            world.after(chance.randrange(LEASE_US // 10), _accuse(world, one, other))
        run_until_settled(world, least=5)
        check_peace(world)
        fenced = {who for _, who, what, _ in world.history if what == "fenced"}
        assert fenced & {child, parent} and fenced <= near


@pytest.mark.parametrize("faults", [1, 2, 3])
def test_no_storm_of_faults_makes_two_roots_or_buries_the_living(faults: int) -> None:
    settled, tried = 0, cases(4, 25)
    for seed in range(tried):
        world, chance, parents = draw_world(seed, faults)
        names = list(parents)
        at = 0
        for _ in range(chance.randint(2, 6)):
            at += chance.randrange(4 * LEASE_US)
            _strike(world, chance.choice(("crash", "crash", "freeze", "cut", "sever", "force")), at, names)
        world.run(at / LEASE_US + 12)
        if is_settled(world):
            settled += 1
            for broker in world.living():
                for name, incarnation in broker.life.view.tombstones.items():
                    assert world.brokers[name].incarnation > incarnation or not world.lives(name)
    assert settled >= tried // 2


def test_the_operator_can_forget_a_lost_majority() -> None:
    for seed in range(cases(3, 20)):
        world, _, parents = draw_world(seed, 1)
        lost = world.brokers["b00"].life.view.configuration.names[:2]
        for name in lost:
            world.crash(name, refuses=False)
        world.run(10)
        assert not any(broker.parts.council.is_root for broker in world.living())
        left = [broker for broker in world.living() if set(broker.life.view.neighbours) & set(lost)]
        for broker in left:
            world.ask(broker.name, Forget(lost))
        run_until_settled(world, least=3)
        assert is_settled(world)
        assert len(world.living()) == len(parents) - 2


def test_equal_seeds_give_equal_histories() -> None:
    def history(seed: int) -> object:
        world, chance, parents = draw_world(seed, 2)
        for _ in range(4):
            _strike(
                world, chance.choice(("crash", "freeze", "cut", "force")), chance.randrange(9 * LEASE_US), list(parents)
            )
        world.run(15)
        return world.history, [broker.life.view.places for broker in world.brokers.values()]

    assert history(7) == history(7)


def test_trees_are_of_many_shapes() -> None:
    depths = set()
    for seed in range(50):
        parents = draw_tree(random.Random(seed), 10)
        depths.add(max(_depth(parents, name) for name in parents))
    assert min(depths) <= 3
    assert max(depths) >= 7


# -- small words -------------------------------------------------------------------------------------------------------


def _crash(world: CouncilWorld, name: str) -> Callable[[], None]:
    return lambda: world.crash(name)


def _accuse(world: CouncilWorld, one: str, other: str) -> Callable[[], None]:
    def act() -> None:
        if world.lives(one) and one != other:
            world.ask(one, Accuse(other))

    return act


def _strike(world: CouncilWorld, what: str, at_us: int, names: list[str]) -> None:
    chance = world.random
    one, other = chance.choice(names), chance.choice(names)
    end_us = at_us + chance.randrange(1, 4 * LEASE_US)
    if what == "crash":
        world.after(at_us, _crash(world, one))
        world.after(end_us, lambda: world.revive(one))
    elif what == "freeze":
        world.after(at_us, lambda: world.freeze(one))
        world.after(end_us, lambda: world.thaw(one))
    elif what == "cut":
        world.after(at_us, lambda: world.partition(frozenset((one, other))))
        world.after(end_us, world.heal)
    elif what == "sever" and one != other:
        world.after(at_us, lambda: world.sever(one, other))
        world.after(end_us, world.heal)
    elif what == "force":
        world.after(at_us, _accuse(world, one, other))


def _below(parents: dict[str, str | None], top: str) -> set[str]:
    found = {top}
    for name, parent in parents.items():  # parents come before their children
        if parent in found:
            found.add(name)
    return found


def _depth(parents: dict[str, str | None], name: str) -> int:
    parent = parents[name]
    return 0 if parent is None else 1 + _depth(parents, parent)
