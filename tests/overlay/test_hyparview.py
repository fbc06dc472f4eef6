"""HyParView: views that are the same from both ends, and an overlay that hangs together whatever fails."""

import pytest

from resprout_lab.gossip.views import Views
from tests.overlay.hyparview_net import Members

# -- many of them ------------------------------------------------------------------------------------------------------


def test_a_thousand_members_hang_together_after_three_in_ten_fail_at_once() -> None:
    net = Members(seed=7)
    net.grow(1_000, every_us=4_000)
    net.pass_time(4_000_000)
    assert net.components() == [1_000]
    assert max(net.degrees()) == 5 and net.degrees()[5] > 950, net.degrees()
    net.kill(net.rng.sample(list(net.living), 300))
    assert net.one_sided(), "they are missed before they are replaced"
    net.pass_time(4_000_000)
    net.rest()
    assert net.components() == [700] and net.one_sided() == []
    assert max(net.degrees()) == 5 and net.degrees()[5] > 650, net.degrees()


def test_without_those_it_only_knows_of_a_network_falls_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Views, "add_passive", lambda self, member, told=(): None)
    net = Members(seed=7)
    net.grow(150)
    net.kill(["m0", *net.rng.sample(list(net.living)[1:], 74)])
    net.pass_time(4_000_000)
    assert len(net.components()) > 1


def test_views_are_the_same_from_both_ends_whatever_comes_and_goes() -> None:
    for seed in range(12):
        net, made = Members(seed), 40
        net.grow(made, every_us=3_000)
        for _ in range(25):
            if net.rng.random() < 0.5:
                net.join(f"m{made}", net.rng.choice(list(net.living)), "m0")
                made += 1
            else:
                net.kill([net.rng.choice(list(net.living)[1:])])
            net.pass_time(net.rng.choice((0, 5_000, 200_000)))
        net.pass_time(6_000_000)
        net.rest()
        assert net.one_sided() == [], f"seed {seed}"
        assert net.components() == [len(net.living)], f"seed {seed}"
        assert all(list(member.linked) == list(member.overlay.neighbours) for member in net.living.values())


def test_two_halves_find_each_other_when_the_network_heals() -> None:
    net = Members(seed=3)
    net.grow(60)
    net.pass_time(2_000_000)
    net.part(list(net.living)[:30])
    net.pass_time(30_000_000)
    assert net.components() == [30, 30]
    net.cut = frozenset()
    net.pass_time(10_000_000)
    net.rest()
    assert net.components() == [60] and net.one_sided() == []


def test_whoever_is_alone_comes_back_when_its_contact_does() -> None:
    net = Members(seed=5)
    net.join("a")
    net.join("b", "a")
    net.pass_time(1_000_000)
    net.kill(["a"])
    net.pass_time(10_000_000)
    assert net.components() == [1]
    net.join("a")
    net.pass_time(3_000_000)
    assert net.components() == [2]


def test_everybody_may_join_by_one_contact_at_the_same_time() -> None:
    net = Members(seed=9)
    net.join("m0")
    for no in range(1, 100):
        net.join(f"m{no}", "m0")
    net.pass_time(4_000_000)
    net.rest()
    assert net.components() == [100] and net.one_sided() == []


def test_shuffles_replace_the_dead_among_those_that_are_only_known() -> None:
    net = Members(seed=4)
    net.grow(200)
    net.kill(net.rng.sample(list(net.living), 60))
    net.pass_time(1_000_000)
    before = _known_dead(net)
    net.pass_time(60_000_000)
    assert _known_dead(net) < before / 2


def _known_dead(net: Members) -> int:
    return sum(name not in net.living for member in net.living.values() for name in member.overlay.views.passive)


def test_newcomers_wait_for_a_contact_that_is_not_in_the_overlay_itself() -> None:
    net = Members(seed=6)
    for no in range(9, 0, -1):
        net.join(f"m{no}", f"m{no - 1}")
    net.join("m0")
    net.pass_time(1_000_000)
    net.rest()
    assert net.components() == [10] and net.degrees()[1] == 0, "the last of the chain has heard of others, too"


def test_two_that_know_only_each_other_do_not_wait_for_ever() -> None:
    net = Members(seed=6)
    net.join("a", "b")
    net.join("b", "a")
    net.join("c", "a")
    net.pass_time(5_000_000)
    assert net.components() == [3]
