"""Chord: one ring in order whatever comes and goes, within the bound; lookups that end, and soon."""

import math
from typing import Any

import pytest

from resprout.core.errors import PeerError, UsageError
from resprout.links.frames import Data
from resprout.net.sessions import make_codec
from resprout_lab.blocks.mesh import OverlayMember
from resprout_lab.scribe.chord import (
    CALLED_AGAIN,
    CALLS_MAX,
    CHORD_MESSAGES,
    LOOKUPS_MAX,
    AskSuccessor,
    Chord,
    FindOwner,
    KeyNotFound,
    OwnerFound,
    SuccessorSays,
)
from resprout_lab.scribe.options import SUCCESSORS_SAID_MAX, RingOptions
from resprout_lab.scribe.ring_numbers import BITS, SIZE, Fingers, is_between, is_owned, number_of, to_key
from tests.overlay.chord_net import Ring
from tests.soak import cases

# -- the ring ----------------------------------------------------------------------------------------------------------


def test_members_that_join_one_after_the_other_make_one_ring() -> None:
    net = Ring(1)
    net.grow(40)
    net.stabilise(12)
    assert net.not_ideal() == []


def test_members_that_join_all_at_once_make_one_ring() -> None:
    for seed in range(5):
        net = Ring(seed)
        net.join("m0")
        for no in range(1, 30):
            net.join(f"m{no}", "m0")
        net.stabilise(40)
        assert net.not_ideal() == [], f"seed {seed}"


def churn(seed: int, options: RingOptions | None = None) -> Ring:
    """More members than a list is long; then joins at any time, and deaths of less than r at once, the next when the
    ring has had time to stabilise. Looked at after everything that happens."""
    net = Ring(seed, options)
    rng, made = net.rng, 12
    net.grow(made)
    net.stabilise(12)
    assert net.not_ideal() == [], f"seed {seed}"
    for _ in range(12):
        for _ in range(rng.randint(0, 3)):
            net.join(f"m{made}", *rng.sample(net.members, min(6, len(net.members))))
            made += 1
            net.pass_time(rng.choice((0, 10_000, 300_000)))
            assert net.wrong() == [], f"seed {seed}"
        members = net.members
        place, count = rng.randrange(len(members)), rng.randint(0, net.options.successors - 1)
        beside = [members[(place + i) % len(members)] for i in range(count)]
        dead = beside if rng.random() < 0.5 else rng.sample(members, count)
        if len(members) - count > net.options.successors:
            net.kill(dead)
        assert net.wrong() == [], f"seed {seed}"
        for _ in range(16):
            net.pass_time(net.options.stabilise_us // 2)
            assert net.wrong() == [], f"seed {seed}"
    net.stabilise(40)
    return net


def test_s3_after_every_schedule_within_the_bound_the_ring_is_whole() -> None:
    for seed in range(25):
        assert churn(seed).not_ideal() == [], f"seed {seed}"


def test_s3_without_lists_of_successors_the_same_schedules_break_the_ring() -> None:
    """They kill as many as lists are long, less one: with two, one at a time."""
    net = Ring(3)
    net.grow(12)
    net.stabilise(12)
    for member in net.living.values():
        del member.chord.successors[1:]
    net.kill([net.members[3]])
    assert net.wrong() == [f"{net.members[2]} has no successor that lives"]


def test_a_successor_that_somebody_names_is_asked_before_it_is_believed() -> None:
    """Zave: the original takes it at once, and loses the ring when it is dead."""
    lone = Lone("m0")
    lone.hear("m1", AskSuccessor("", joins=False))
    (between,) = [f"x{no}" for no in range(1_000) if is_between(number_of("m0"), number_of(f"x{no}"), number_of("m1"))][
        :1
    ]
    lone.hear("m1", SuccessorSays(OverlayMember(between), (), "", joins=False))
    assert lone.successors == ["m1"] and lone.said[-1] == (between, AskSuccessor("", joins=False))
    lone.hear(between, SuccessorSays(None, (OverlayMember("m1"),), "", joins=False))
    assert lone.successors == [between, "m1"]


def test_whoever_joins_has_a_whole_list_before_it_is_a_member() -> None:
    """Zave: the original is a member with one successor, and loses the ring when that one dies."""
    net = Ring(2)
    net.grow(12)
    net.stabilise(12)
    net.join("late", "m3")
    while not net.living["late"].chord.is_member:
        assert not net.living["late"].chord.successors
        net.pass_time(1_000)
    assert len(net.living["late"].chord.successors) == net.options.successors


def test_a_contact_that_is_dead_or_no_member_is_followed_by_the_next() -> None:
    net = Ring(4)
    net.grow(6)
    net.stabilise(8)
    net.join("late", "nobody", "m2")
    net.stabilise(20)
    assert net.not_ideal() == [] and "late" in net.members


def test_who_asks_a_member_to_be_is_answered_as_soon_as_that_one_has_joined() -> None:
    net = Ring(4)
    net.join("m0")
    for no in range(1, 5):
        net.join(f"m{no}", f"m{no - 1}")
    net.pass_time(500_000)
    assert len(net.members) == 5, "well before anybody asks again"


def test_a_member_that_returns_joins_like_any_other() -> None:
    net = Ring(5)
    net.grow(10)
    net.stabilise(12)
    net.kill(["m4"])
    net.join("m4", "m0")
    net.stabilise(30)
    assert net.not_ideal() == [] and "m4" in net.members


# -- lookups -----------------------------------------------------------------------------------------------------------


def hops_of(net: Ring, keys: int) -> list[int]:
    """Of lookups by anybody, all of them right."""
    members = net.members
    asked = [(net.rng.choice(members), number_of(f"topic/{no}")) for no in range(keys)]
    for name, number in asked:
        net.living[name].chord.look_up(to_key(number))
    net.pass_time(900_000)
    hops = []
    for name, number in asked:
        found = net.living[name].found[to_key(number)]
        assert found is not None and found.owner.name == net.owner(number)
        hops.append(found.hops)
    return hops


@pytest.mark.parametrize("members", [16, 128, cases(256, 1_024)])
def test_lookups_take_as_many_steps_as_the_logarithm(members: int) -> None:
    net = Ring(6)
    net.grow(members, every_us=5_000)
    net.stabilise(2 * int(math.log2(members)) + 8)
    assert net.not_ideal() == []
    hops = hops_of(net, 200)
    assert sum(hops) / len(hops) <= 0.5 * math.log2(members) + 1, "half of the bits, as in the paper"
    assert max(hops) <= math.log2(members) + 3


def test_lookups_are_answered_while_members_come_and_go() -> None:
    net = Ring(7)
    net.grow(30)
    net.stabilise(15)
    asker = net.living["m0"]
    for no in range(30):
        asker.chord.look_up(to_key(number_of(f"k{no}")))
        if no % 10 == 5:
            net.kill([net.rng.choice([name for name in net.members if name != "m0"])])
        net.pass_time(200_000)
    net.stabilise(20)
    assert len(asker.found) == 30 and all(found is not None for found in asker.found.values())


@pytest.mark.parametrize("cut_off", [1, 3, 4])
def test_two_rings_that_a_partition_has_made_of_one_find_together_again(cut_off: int) -> None:
    ring = Ring(1)
    ring.grow(8)
    ring.stabilise(40)
    some = ring.members[:cut_off]
    others = ring.members[cut_off:]
    for one in some:
        for other in others:
            ring.living[one].chord.unreachable(other)
            ring.living[other].chord.unreachable(one)
    assert ring.wrong() == ["there are 2 rings"]
    is_outnumbered = {name: ring.living[name].chord.is_outnumbered for name in (*some, *others)}
    if cut_off == 1:
        assert [name for name, is_so in is_outnumbered.items() if is_so] == some
    ring.stabilise(80)
    assert ring.wrong() == ring.not_ideal() == []
    assert not any(ring.living[name].chord.is_outnumbered for name in ring.members)


def test_a_member_that_is_dead_is_not_called_for_ever() -> None:
    ring = Ring(1)
    ring.grow(4)
    ring.stabilise(40)
    chord = ring.living[ring.members[0]].chord
    dead = chord.successors[0].name
    ring.kill([dead])
    ring.stabilise(10)
    assert dead in chord.lost
    ring.stabilise(CALLED_AGAIN * CALLS_MAX)
    assert not chord.lost and ring.not_ideal() == []


def test_a_member_that_is_alone_owns_everything() -> None:
    net = Ring(8)
    net.join("m0")
    net.living["m0"].chord.look_up(to_key(1))
    (found,) = net.living["m0"].found.values()
    assert found is not None and found.owner.name == "m0" and found.hops == 0


# -- S3: what the seed has wrong ---------------------------------------------------------------------------------------


def small_ring() -> Ring:
    """Without any fingers."""
    net = Ring(9)
    net.grow(8)
    net.stabilise(6)
    for member in net.living.values():
        member.chord.fingers = Fingers(member.chord.number)
        member.timers.clear()
    return net


def test_s3_a_question_never_goes_to_the_member_that_asks_it() -> None:
    net = small_ring()
    far = number_of(net.members[5])
    net.living[net.members[0]].chord.look_up(to_key(far))
    net.pass_time(1_000_000)
    assert net.living[net.members[0]].found[to_key(far)] is not None


def test_s3_with_oneself_for_the_closest_a_question_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    net = small_ring()
    monkeypatch.setattr(Chord, "closest_before", lambda self, number: self.me)
    with pytest.raises(AssertionError):
        net.living[net.members[0]].chord.look_up(to_key(number_of(net.members[5])))


def test_s3_a_finger_is_looked_up_by_the_number_and_not_by_its_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def mean_hops() -> float:
        net = Ring(6)
        net.grow(128, every_us=5_000)
        net.stabilise(31)
        hops = hops_of(net, 100)
        return sum(hops) / len(hops)

    right = mean_hops()
    monkeypatch.setattr(Fingers, "start", lambda self, finger: finger)
    assert right < 4.5 < 2 * right < mean_hops()


def test_s3_without_a_predecessor_no_key_is_called_ones_own() -> None:
    net = small_ring()
    name = net.members[2]
    chord = net.living[name].chord
    assert chord.owns(chord.number)
    net.living[name].gone(net.members[1])
    assert chord.predecessor is None and not chord.owns(chord.number)
    net.living[name].chord.look_up(to_key(chord.number))
    net.pass_time(1_000_000)
    found = net.living[name].found[to_key(chord.number)]
    assert found is not None and found.owner.name == name, "its predecessor knows"


def owners_of(net: Ring, number: int) -> list[str]:
    return [name for name, member in net.living.items() if member.chord.owns(number)]


def test_s3_where_nobody_before_means_everything_is_ones_own_a_key_has_two_owners(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = small_ring()
    before, name = net.members[1:3]
    net.living[name].gone(before)
    assert owners_of(net, number_of(before)) == [before]
    owns = Chord.owns
    monkeypatch.setattr(Chord, "owns", lambda self, number: self.predecessor is None or owns(self, number))
    assert sorted(owners_of(net, number_of(before))) == sorted([before, name])


# -- one member --------------------------------------------------------------------------------------------------------


class Lone:
    """A member that others speak to by hand."""

    def __init__(self, name: str, *contacts: str, **options: int) -> None:
        self.said: list[tuple[str, Any]] = []
        self.told: list[Any] = []
        self.chord = Chord(OverlayMember(name), contacts, RingOptions(**options), self)
        self.chord.begin()

    def say(self, member: OverlayMember, message: Any) -> None:
        self.said.append((member.name, message))

    def wake(self, timer: Any, after_us: int) -> None: ...
    def let_sleep(self, timer: Any) -> None: ...

    def tell(self, outcome: Any) -> None:
        self.told.append(outcome)

    def hear(self, name: str, *messages: Any) -> None:
        for message in messages:
            self.chord.hear(name, message)

    @property
    def successors(self) -> list[str]:
        return [member.name for member in self.chord.successors]


@pytest.mark.parametrize(
    "wrong",
    [
        FindOwner(b"short", OverlayMember("x"), 1, 0, False),
        FindOwner(b"x" * 33, OverlayMember("x"), 1, 0, False),
        SuccessorSays(None, tuple(OverlayMember(f"x{no}") for no in range(SUCCESSORS_SAID_MAX + 1)), "", False),
    ],
)
def test_what_nobody_says_is_refused_and_changes_nothing(wrong: Any) -> None:
    lone = Lone("m0")
    lone.hear("m1", AskSuccessor("", joins=False))
    said = len(lone.said)
    with pytest.raises(PeerError):
        lone.hear("m1", wrong)
    assert lone.successors == ["m1"] and len(lone.said) == said


def test_answers_that_nobody_asked_for_are_ignored() -> None:
    lone = Lone("m0")
    lone.hear("m1", AskSuccessor("", joins=False))
    lone.hear("x", OwnerFound(77, OverlayMember("x"), 1, False), SuccessorSays(None, (), "", True))
    lone.hear("m1", FindOwner(to_key(number_of("m0") + 1), OverlayMember("x"), 1, 1_000, False))
    assert lone.successors == ["m1"] and not [name for name, _ in lone.said if name == "x"]


def test_a_list_holds_the_next_ones_in_order_and_never_its_owner() -> None:
    lone = Lone("m0", successors=3)
    lone.hear("m1", AskSuccessor("", joins=False))
    names = sorted((f"x{no}" for no in range(9)), key=lambda name: (number_of(name) - number_of("m1")) % SIZE)
    behind = [name for name in names if is_between(number_of("m1"), number_of(name), number_of("m0"))]
    said = [OverlayMember(name) for name in [*behind[:1], "m0", *behind[1:]]]
    lone.hear("m1", SuccessorSays(None, tuple(said), "", joins=False))
    assert lone.successors == ["m1", *behind[:1]]


def test_questions_have_a_bound() -> None:
    lone = Lone("m0")
    lone.hear("m1", AskSuccessor("", joins=False))
    behind = next(
        name for name in map("x{}".format, range(99)) if is_between(number_of("m1"), number_of(name), number_of("m0"))
    )
    lone.hear(behind, AskSuccessor("", joins=False))
    for no in range(LOOKUPS_MAX + 3):  # owned by somebody between
        lone.chord.look_up(to_key((number_of("m1") + 1 + no) % SIZE))
    assert sum(isinstance(outcome, KeyNotFound) for outcome in lone.told) == 3


def test_what_members_say_can_travel() -> None:
    codec = make_codec(CHORD_MESSAGES)
    said = (
        FindOwner(to_key(SIZE - 1), OverlayMember("x", "host:1"), 1, 2, True),
        OwnerFound(1, OverlayMember("x"), 2, False),
        AskSuccessor("host:1", True),
        SuccessorSays(None, (OverlayMember("x"), OverlayMember("y")), "", False),
        SuccessorSays(OverlayMember("x"), (), "", False),
    )
    frame = Data(1, 0, 1 << 20, said)
    assert codec.decoder().decode(codec.encoder().encode(frame)) == frame
    assert [message.background for message in said] == [True, False, False, True, True]


def test_what_lies_between_on_a_ring() -> None:
    assert is_between(5, 7, 9) and not is_between(5, 9, 9) and not is_between(5, 5, 9)
    assert is_between(9, 2, 5) and not is_between(9, 7, 5)
    assert is_between(5, 6, 5) and not is_between(5, 5, 5), "of one that is alone, all others"
    assert is_owned(5, 9, 9) and not is_owned(5, 5, 9) and is_owned(5, 5, 5)
    assert Fingers(SIZE - 1).start(0) == 0 and Fingers(0).start(BITS - 1) == 1 << 255


def test_options_that_cannot_be_are_refused() -> None:
    for bad in ({"successors": 0}, {"successors": 99}, {"stabilise_us": 0}):
        with pytest.raises(UsageError):
            RingOptions(**bad)
