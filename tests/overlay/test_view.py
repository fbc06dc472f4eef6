"""What one broker knows about the tree, without any messages."""

from collections.abc import Callable

import pytest

from resprout.core.message_fields import NUMBER_MAX
from resprout.overlay import lineage, view
from resprout.overlay.messages import Configuration, Life, Place, Registration, Voter
from resprout.overlay.view import MembershipView


def place(name: str, parent: str | None, *neighbours: str, incarnation: int = 1, version: int = 1) -> Place:
    return Place(name, incarnation, version, parent, neighbours, "", (1,) * len(neighbours))


def chain(faults: int = 2) -> MembershipView:
    """a - b - c - d - e - f with a at the top, as c sees it."""
    here = MembershipView("c", 1, "", faults)
    here.parent = "b"
    here.neighbours.update(b=True, d=True)
    here.sessions.update(b=1, d=1)
    here.publish_place()
    here.learn(
        place("a", None, "b"), place("b", "a", "a", "c"), place("d", "c", "c", "e"),
        place("e", "d", "d", "f"), place("f", "e", "e"),
    )  # fmt: skip
    return here


def _authority(here: MembershipView, name: str, is_unanswering: Callable[[str], bool]) -> tuple[str | None, set[str]]:
    found, passed = lineage.authority(here, name, is_unanswering)
    return found, set(passed)


def test_the_newer_place_wins() -> None:
    here = chain()
    assert not here.learn(place("d", "c", "c"))
    assert here.learn(place("d", "c", "c", "e", "g", version=2))
    assert not here.learn(place("d", "c", "c", version=1))
    assert here.places["d"].neighbours == ("c", "e", "g")
    assert not here.learn(place("e", "a", "a", incarnation=2)), "its first life still stands beside d"
    assert here.learn(place("d", "c", "c", version=3))
    assert here.learn(place("e", "a", "a", incarnation=2, version=2))
    assert here.places["e"].parent == "a"


def test_what_others_say_about_this_broker_only_makes_its_next_place_newer() -> None:
    here = chain()
    before = here.version
    here.learn(place("c", "a", "a", version=before + 5))
    assert here.parent == "b"
    assert here.publish_place().version == before + 6
    here.learn(place("c", "a", "a", version=NUMBER_MAX), place("c", "a", "a", incarnation=9))
    assert here.publish_place().version == before + 7


@pytest.mark.parametrize(
    "bad",
    [
        place("", "c", "c"),
        place("x" * 1000, "c", "c"),
        place("d", "c", "c", version=NUMBER_MAX + 1),
        place("d", "c", "c", incarnation=-1, version=9),
        place("d", "z", "c", version=9),
        place("d", "d", "d", version=9),
        Place("d", 1, 9, "c", ("c", "e"), "", (1,)),
        Place("d", 1, 9, "c", tuple(f"n{i}" for i in range(5000)), ""),
    ],
)
def test_a_place_that_cannot_be_is_ignored(bad: Place) -> None:
    here = chain()
    before = dict(here.places)
    assert not here.learn(bad)
    assert here.places == before


def test_dead_components_are_found_until_they_are_repaired() -> None:
    here = chain()
    here.mark_dead("d", 1)
    here.mark_dead("f", 1)
    assert here.component("d") == ("d",)
    here.mark_dead("e", 1)
    assert here.component("d") == here.component("f") == ("d", "e", "f")
    assert here.members(("d", "e", "f")) == ()
    assert here.coordinator(("d", "e", "f")) == "c"
    here.mark_replaced(("e",))
    assert here.component("d") == ("d",)


def test_the_parent_of_the_topmost_leads_and_below_a_dead_root_the_nearest() -> None:
    here = chain()
    assert here.coordinator(("d",)) == "c"
    assert here.coordinator(("b",)) == "a"
    here.mark_dead("a", 1)
    here.mark_dead("b", 1)
    assert here.coordinator(here.component("b")) == "c"
    assert here.members(("a", "b")) == ()


def test_the_authority_is_the_next_ancestor_that_can_be_asked() -> None:
    here = chain()
    assert _authority(here, "e", lambda _: False) == ("d", {"e"})
    assert _authority(here, "e", lambda name: name == "d") == ("c", {"d", "e"})
    assert _authority(here, "a", lambda _: False) == ("b", {"a"})
    assert _authority(here, "a", lambda name: name == "b") == ("c", {"a", "b"}), "who is passed over must fall too"
    assert _authority(here, "stranger", lambda _: False) == (None, {"stranger"})


def test_a_later_life_waits_until_the_earlier_one_is_repaired() -> None:
    here = chain()
    here.neighbours["d"] = False
    here.mark_dead("d", 1)
    assert not here.learn(place("d", "a", "a", incarnation=2))
    assert here.is_dead("d")
    assert not here.admits("d", 2)
    del here.neighbours["d"]
    here.mark_replaced(("d",))
    assert here.places["d"].parent == "a"
    assert not here.is_dead("d")
    assert here.is_dead_speaker("d")
    here.sessions["d"] = 2
    assert not here.is_dead_speaker("d")


def test_a_life_that_is_known_to_be_dead_is_not_admitted_again() -> None:
    here = chain()
    here.mark_dead("x", 3)
    assert not here.admits("x", 3)
    assert here.admits("x", 4)
    assert not here.admits("d", 1), "it is a neighbour"
    assert not here.admits("e", 2), "its first life still has its place"


def test_a_child_that_never_spoke_has_a_place_under_its_parent() -> None:
    here = chain()
    here.neighbours["new"] = True
    here.sessions["new"] = 7
    here.publish_place()
    assert here.places["new"].life == Life("new", 7)
    assert _authority(here, "new", lambda _: False) == ("c", {"new"})


def test_a_neighbour_that_restarts_is_not_the_one_we_are_linked_to() -> None:
    here = chain()
    assert here.is_linked("d")
    here.sessions["d"] = 2
    assert not here.is_linked("d")
    assert here.publish_place().bonds() == [("b", 1), ("d", 1)]


def test_what_is_repaired_or_far_is_forgotten() -> None:
    here = chain(faults=1)
    here.sweep()
    assert set(here.places) == set("abcdef")
    here.learn(place("f", "e", "e", "g", version=2))
    here.sweep()
    assert "g" not in here.places, "four hops, where one more than two is remembered"
    here.mark_dead("d", 1)
    here.neighbours["d"] = False
    here.sweep()
    assert "d" in here.places
    del here.neighbours["d"]
    here.publish_place()
    here.sweep()
    assert set(here.places) == set("abc")


def test_memory_is_bounded_whatever_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PLACES_MAX", 50)
    monkeypatch.setattr(view, "TOMBSTONES_MAX", 50)
    monkeypatch.setattr(view, "REPAIRED_MAX", 50)
    here = chain()
    for number in range(500):
        here.learn(place(f"x{number}", "d", "d", *[f"y{number}-{i}" for i in range(3)]))
        here.mark_dead(f"x{number}", number)
        here.mark_replaced([f"x{number}"])
    assert len(here.places) <= 50
    assert list(here.tombstones) == [f"x{number}" for number in range(450, 500)]
    assert len(here.replaced) <= 50
    here.sweep()
    assert set(here.places) == set("abcdef")


def test_a_registration_buries_others_and_finds_out_about_oneself() -> None:
    here = chain()
    newer = Configuration(5, (Voter("b", 1, ""),))
    assert here.record(Registration((Life("d", 1), Life("c", 0)), newer))
    assert here.is_dead("d")
    assert here.configuration == newer
    assert not here.record(Registration((Life("c", 1),), Configuration()))
    assert "c" not in here.tombstones


def test_only_newer_and_sound_lists_are_followed() -> None:
    here = chain()
    here.follow(Configuration(5, (Voter("b", 1, ""),)))
    for bad in (
        Configuration(5, (Voter("a", 1, ""),)),
        Configuration(NUMBER_MAX, (Voter("a", 1, ""),)),
        Configuration(6, (Voter("a", 1, ""), Voter("a", 2, ""))),
        Configuration(6, tuple([Voter(f"s{i}", 1, "") for i in range(100)])),
    ):
        here.follow(bad)
        assert here.configuration.root == "b"
    here.follow_decided(Configuration(5, (Voter("a", 1, ""),)))
    assert here.configuration.root == "a", "a rival of the same version that was decided"


def test_a_later_life_has_no_seat() -> None:
    here = MembershipView("a", 2, "", 1)
    here.configuration = Configuration(3, (Voter("a", 1, ""), Voter("b", 1, ""), Voter("c", 1, "")))
    assert not here.leads_configuration
    assert not here.is_majority(here.configuration, [Life("a", 2), Life("b", 1)])
    assert here.is_majority(here.configuration, [Life("a", 1), Life("b", 1)])
    here.forgotten[Life("a", 1)] = None
    assert here.is_majority(here.configuration, [Life("b", 1), Life("c", 1)])
    assert not here.is_majority(here.configuration, [Life("b", 1)])


def test_a_repair_moves_a_place_to_its_centre() -> None:
    moved = place("e", "d", "d", "f").rewired({"d"}, Life("c", 4))
    assert (moved.parent, moved.bonds(), moved.version) == ("c", [("f", 1), ("c", 4)], 2)
    stays = place("b", "a", "a", "c").rewired({"c"}, Life("d", 1))
    assert (stays.parent, stays.neighbours) == ("a", ("a", "d"))


@pytest.mark.parametrize(
    "false",
    [
        place("d", "e", "e", version=9),  # a child that says that it is below somebody else
        place("d", "e", "c", "e", version=9),
        place("b", "c", "a", "c", version=9),  # the parent as a child
        place("g", "c", "c"),  # a child that is none
    ],
    ids=repr,
)
def test_a_place_that_contradicts_the_links_of_this_broker_is_not_believed(false: Place) -> None:
    """Otherwise two brokers judge whether one lives, and each blames the other for it. Found by `tests.fuzz`."""
    here = chain()
    before = dict(here.places)
    assert not here.is_credible(false) and not here.learn(false)
    assert here.places == before


def test_a_life_that_has_told_its_place_gets_no_second_one() -> None:
    """A lying broker with two parents is judged by both. One that was only foretold by another parent is admitted."""
    here = chain()
    assert here.learn(place("e", "d", "d", "f", "x", version=2)) and here.admits("x", 1)
    assert here.learn(place("x", "e", "e")) and not here.admits("x", 1)
