"""Anything from the network, in any order: nothing is raised but PeerError, nothing grows without bound."""

from collections import deque
from typing import Annotated, Any, get_args, get_origin

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resprout.core.contract import Outcome, ProtocolMessage
from resprout.core.errors import PeerError
from resprout.core.message_fields import NUMBER_MAX
from resprout.links.frames import Data
from resprout.overlay.council import Council
from resprout.overlay.lease_detector import UNHEARD_POSTS_MAX
from resprout.overlay.messages import (
    OVERLAY_MESSAGES,
    Configuration,
    CouncilOptions,
    Declared,
    Enrol,
    Expelled,
    Fenced,
    Gone,
    Life,
    Namesake,
    Orphan,
    Ping,
    Place,
    Pong,
    PreVote,
    Probe,
    Registration,
    Seek,
    Sought,
    Suspect,
    Voter,
)  # fmt: skip
from resprout.overlay.view import MembershipView
from resprout.wire.codec import Codec
from tests.overlay.test_view import place
from tests.soak import cases

NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "stranger", "", "x" * 70])
NUMBERS = st.one_of(st.integers(0, 3), st.sampled_from([1 << 20, NUMBER_MAX]))
LIVES = st.builds(Life, NAMES, NUMBERS)
PLACES = st.builds(
    Place, NAMES, NUMBERS, NUMBERS, st.none() | NAMES, st.lists(NAMES, max_size=4).map(tuple), st.just(""),
    st.lists(NUMBERS, max_size=4).map(tuple),
)  # fmt: skip
VOTERS = st.builds(Voter, NAMES, NUMBERS, st.just(""))
CONFIGURATIONS = st.builds(Configuration, NUMBERS, st.lists(VOTERS, max_size=4).map(tuple))
for made, strategy in ((Life, LIVES), (Place, PLACES), (Voter, VOTERS), (Configuration, CONFIGURATIONS)):
    st.register_type_strategy(made, strategy)
st.register_type_strategy(
    Registration, st.builds(Registration, st.lists(LIVES, max_size=3).map(tuple), CONFIGURATIONS)
)  # fmt: skip


def _values(kind: Any) -> st.SearchStrategy[Any]:
    if get_origin(kind) is Annotated:
        return _values(get_args(kind)[0])
    if kind is int:
        return NUMBERS
    if kind is str:
        return NAMES
    if isinstance(kind, type) and get_origin(kind) is None:
        return st.from_type(kind)
    if getattr(kind, "__origin__", None) is tuple:
        return st.lists(_values(kind.__args__[0]), max_size=3).map(tuple)
    return st.none() | st.one_of([_values(part) for part in kind.__args__ if part is not type(None)])


def _any_message(kind: type[ProtocolMessage]) -> st.SearchStrategy[Any]:
    return st.builds(kind, *[_values(field.type) for field in msgspec.structs.fields(kind)])


MESSAGES = st.one_of([_any_message(kind) for kind in OVERLAY_MESSAGES])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("message"), NAMES, MESSAGES),
        st.tuples(st.just("silent"), NAMES, st.booleans()),
        st.tuples(st.just("heard"), NAMES, st.none() | NUMBERS),
        st.tuples(st.just("tick"), st.just(""), st.integers(0, 30_000)),
        st.tuples(st.just("register"), NAMES, st.just(0)),
    ),
    max_size=40,
)


class Alone:
    """One broker (c of the chain a - b - c - d - e) with nobody behind its neighbours' names."""

    def __init__(self, faults: int = 1) -> None:
        self.view = MembershipView("c", 2, "", faults)
        self.view.parent = "b"
        self.view.neighbours.update(b=True, d=True)
        self.view.sessions.update(b=1, d=1)
        self.view.publish_place()
        self.view.learn(place("a", None, "b"), place("b", "a", "a", "c"), place("d", "c", "c", "e"))
        self.view.follow_decided(Configuration(3, (Voter("a", 1, ""), Voter("b", 1, ""), Voter("c", 2, ""))))
        self.posted: list[tuple[str, ProtocolMessage]] = []
        self.outcomes: deque[Outcome] = deque()
        options = CouncilOptions(heartbeat_us=1500, lease_us=9000)
        self.council = Council(self.view, options, self._post, self.outcomes)
        self.waves = self.council.waves
        self.now_us = 100_000
        self.council.tick(self.now_us)

    def _post(self, peer: str, message: ProtocolMessage) -> None:
        self.posted.append((peer, message))

    @property
    def declared(self) -> list[str]:
        return [name for outcome in self.outcomes if isinstance(outcome, Declared) for name in outcome.names]

    @property
    def fenced(self) -> list[str]:
        return [outcome.reason for outcome in self.outcomes if isinstance(outcome, Expelled)]

    def receive(self, peer: str, message: ProtocolMessage) -> None:
        self.council.heard(peer, self.now_us)
        hear = self.waves.handlers.get(type(message), self.council.take)
        hear(peer, message, self.now_us)


@given(STEPS)
@settings(
    max_examples=cases(80, 250), deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
def test_nothing_that_peers_say_breaks_a_council(steps: list[tuple[str, str, Any]]) -> None:
    alone = Alone()
    for what, name, detail in steps:
        if what == "message":
            try:
                alone.receive(name, detail)
            except PeerError:
                continue
        elif what == "silent":
            alone.council.silent(name, detail, alone.now_us)
        elif what == "heard":
            alone.council.connected(name, alone.now_us, detail)
        elif what == "register":
            alone.council.register(frozenset((name,)) - {"c"}, alone.now_us)
        else:
            alone.now_us += detail
            alone.council.tick(alone.now_us)
        assert alone.view.places["c"].parent == "b"
        assert "c" not in alone.view.tombstones
        assert "c" not in alone.declared
        alone.council.standby()
        alone.council.status(alone.now_us)


@given(MESSAGES)
@settings(max_examples=cases(70, 200), deadline=None, derandomize=True)
def test_every_message_travels_on_the_wire(message: ProtocolMessage) -> None:
    codec = Codec((Data,), OVERLAY_MESSAGES)
    frame = Data(1, 0, 0, (message,))
    try:
        codec.check(frame)
    except PeerError:
        return  # a name that the wire refuses
    body = codec.encoder().encode(frame)
    assert codec.decoder().decode(body) == frame
    assert codec.frame_bytes(frame) >= len(body)


def test_signs_of_life_are_background_and_nothing_else_is() -> None:
    assert Ping(1, 0).background
    assert Pong(1, True).background
    quiet = [kind for kind in OVERLAY_MESSAGES if "background" in vars(kind)]
    assert quiet == [Ping, Pong]


def test_tags_stay_in_their_range() -> None:
    tags = [kind.__struct_config__.tag for kind in OVERLAY_MESSAGES]
    assert set(tags) <= set(range(80, 100))
    assert len(set(tags)) == len(tags)


def test_what_is_said_to_a_silent_peer_does_not_pile_up() -> None:
    alone = Alone()
    for peer in "abd":
        alone.council.silent(peer, False, alone.now_us)
    alone.posted.clear()
    for _ in range(1000):
        alone.now_us += 1500
        alone.council.tick(alone.now_us)
    by_peer = [sum(peer == name for peer, _ in alone.posted) for name in "abd"]
    assert max(by_peer) <= UNHEARD_POSTS_MAX
    assert not any(isinstance(message, Ping) for _, message in alone.posted)
    assert alone.declared == [], "who hears nobody has no say about the others"
    assert not alone.council.leased


def test_strangers_are_forgotten() -> None:
    alone = Alone()
    for number in range(3000):
        alone.council.connected(f"s{number}", alone.now_us, 1)
        alone.council.silent(f"s{number}", True, alone.now_us)
    alone.council.tick(alone.now_us + 1)
    assert len(alone.view.sessions) < 10


def test_only_a_word_about_this_life_fences() -> None:
    alone = Alone()
    alone.receive("b", Fenced(1))
    assert not alone.fenced
    alone.receive("b", Fenced(2))
    assert len(alone.fenced) == 1


def test_a_pong_from_the_future_or_from_a_stranger_does_not_renew_the_lease() -> None:
    alone = Alone()
    alone.receive("d", Pong(alone.now_us, True))
    alone.receive("b", Pong(1 << 62, True))
    alone.now_us += 9001
    alone.council.tick(alone.now_us)
    assert not alone.council.leased
    alone.receive("d", Pong(alone.now_us, True))
    assert not alone.council.leased
    alone.receive("b", Pong(alone.now_us, True))
    assert alone.council.leased


def test_a_later_life_of_the_parent_does_not_speak_for_it() -> None:
    alone = Alone()
    alone.council.connected("b", alone.now_us, 2)
    assert alone.council.has_ended("b")
    assert alone.posted[-1] == ("a", Suspect(Life("b", 1), (), False))
    alone.now_us += 9001
    alone.receive("b", Pong(alone.now_us, True))
    alone.council.tick(alone.now_us)
    assert not alone.council.leased


def test_a_child_that_refuses_is_declared_at_once_and_a_silent_one_is_not() -> None:
    alone = Alone()
    alone.council.silent("d", False, alone.now_us)
    assert alone.declared == []
    alone.council.silent("d", True, alone.now_us)
    assert alone.declared == ["d"]


def test_a_broker_that_was_declared_dead_is_told_so_whatever_it_asks() -> None:
    alone = Alone()
    alone.view.mark_dead("d", 1)
    for message in (Ping(1, 0), Probe(1), Suspect(Life("b", 1), ())):
        alone.posted.clear()
        alone.receive("d", message)
        assert alone.posted == [("d", Fenced(1))]


def test_a_leased_broker_is_not_frightened_by_the_word_that_its_parent_is_gone() -> None:
    alone = Alone()
    alone.receive("e", Gone(Life("b", 1)))
    assert not alone.fenced


def test_who_waits_for_its_parent_joins_again_only_if_nobody_repairs_it() -> None:
    alone = Alone()
    alone.now_us += 9001
    alone.council.tick(alone.now_us)
    alone.view.attached["b"] = "a"
    alone.receive("e", Gone(Life("b", 7)))
    alone.receive("e", Gone(Life("b", 1)))
    assert not alone.fenced
    alone.council.silent("a", True, alone.now_us)
    alone.receive("e", Gone(Life("b", 1)))
    assert len(alone.fenced) == 1


def test_an_orphan_asks_the_configuration_after_long() -> None:
    alone = Alone()
    alone.council.silent("b", True, alone.now_us)
    alone.view.mark_dead("b", 1)
    alone.view.neighbours["b"] = False
    for _ in range(5):
        alone.now_us += 9000
        alone.council.tick(alone.now_us)
    assert not any(isinstance(message, Orphan) for _, message in alone.posted)
    alone.now_us += 18_000
    alone.council.tick(alone.now_us)
    assert [peer for peer, message in alone.posted if isinstance(message, Orphan)] == ["a", "b"]


def asked_for_a_parent() -> Alone:
    """A voter that holds its lease, and was asked by e, whose parent x is not to be found here."""
    alone = Alone()
    alone.receive("b", Pong(alone.now_us, True))
    alone.posted.clear()
    alone.receive("e", Orphan(Life("x", 1)))
    assert [(peer, message.names) for peer, message in alone.posted if isinstance(message, Seek)] == [
        ("b", ("x", "e")),
        ("d", ("x", "e")),
    ]
    return alone


def told_gone(alone: Alone, *standing: str, complete: bool) -> str | None:
    """Return the name of the life that the orphan was told to be gone."""
    alone.receive("d", Sought(1, (), (0, 0), True))
    assert not any(isinstance(message, Gone) for _, message in alone.posted), "b has not answered"
    namesakes = tuple([Namesake(name, 1 if name == "x" else 0, "", "a", True) for name in standing])
    alone.receive("b", Sought(1, namesakes, (0, 0), complete))
    gone = [message.life.name for peer, message in alone.posted if isinstance(message, Gone) and peer == "e"]
    return gone[0] if gone else None


def test_an_orphan_is_told_gone_when_the_whole_tree_knows_no_such_parent() -> None:
    assert told_gone(asked_for_a_parent(), complete=True) == "x"
    assert told_gone(asked_for_a_parent(), "e", complete=True) == "x"


def test_an_orphan_whose_parent_stands_is_told_that_the_tree_goes_on_without_it() -> None:
    """A leaf that did not hear its parent was declared dead, and nobody told it: it kept its clients too long."""
    assert told_gone(asked_for_a_parent(), "x", complete=True) == "e"
    assert told_gone(asked_for_a_parent(), "x", complete=False) is None


def test_a_broker_that_does_not_hear_its_parent_believes_that_the_tree_goes_on_without_it() -> None:
    alone = Alone()
    me = alone.view.life(alone.view.name)
    alone.receive("e", Gone(me))
    assert not alone.fenced, "it holds its lease"
    alone.now_us += 9001
    alone.council.tick(alone.now_us)
    alone.receive("e", Gone(me))
    assert len(alone.fenced) == 1


def test_an_orphan_is_not_told_gone_while_a_link_is_in_repair_or_its_parent_stands() -> None:
    """A voter said Gone of a parent whose repair waited for that very orphan, which began another life."""
    assert told_gone(asked_for_a_parent(), complete=False) is None
    assert told_gone(asked_for_a_parent(), "x", "e", complete=True) is None
    assert not asked_for_a_parent().fenced


def test_a_member_that_has_no_vote_pings_its_coordinator_also_when_that_is_the_root() -> None:
    """The coordinator heard nothing of it while its Grant was on its way, and declared it dead."""
    alone = Alone()
    alone.view.follow_decided(Configuration(4, (Voter("a", 1, ""), Voter("b", 1, ""), Voter("d", 1, ""))))
    alone.view.mark_dead("b", 1)
    alone.view.neighbours["b"] = False
    alone.view.attached["b"] = "a"
    alone.posted.clear()
    alone.council.tick(alone.now_us + 1500)
    assert [peer for peer, message in alone.posted if isinstance(message, Ping)] == ["a"]


def test_a_voter_agrees_to_one_configuration_per_version_and_deserts_no_living_root() -> None:
    alone = Alone()
    decided = alone.view.decided
    mine = Voter("c", 2, "")

    def agrees(root: str, version: int, *dead: Life) -> bool:
        alone.posted.clear()
        new = Configuration(version, (Voter(root, 1, ""), mine))
        alone.receive(root, Enrol(1, 2, dead, new, decided, decided))
        return alone.posted[-1][1].yes  # type: ignore[attr-defined,no-any-return]

    assert not agrees("b", 4), "nobody has given up a"
    assert agrees("b", 4, Life("a", 1))
    assert agrees("b", 4, Life("a", 1)), "asked again, answered again"
    assert not agrees("d", 4, Life("a", 1), Life("b", 1)), "another configuration of that version"
    assert agrees("d", 5, Life("a", 1), Life("b", 1))
    assert alone.view.tombstones == {"a": 1, "b": 1}


def test_a_later_life_does_not_vote_for_an_earlier_one() -> None:
    alone = Alone()
    new = Configuration(4, (Voter("b", 1, ""), Voter("c", 1, "")))
    alone.posted.clear()
    alone.receive("b", Enrol(1, 1, (Life("a", 1),), new, alone.view.decided, alone.view.decided))
    assert alone.posted == []


def test_a_member_of_a_repair_misses_its_coordinator() -> None:
    alone = Alone(faults=2)
    alone.view.follow_decided(Configuration(4, (Voter("a", 1, ""), Voter("c", 2, ""), Voter("e", 1, ""))))
    alone.council.silent("b", True, alone.now_us)
    alone.view.mark_dead("b", 1)
    alone.view.neighbours["b"] = False
    alone.view.attached["b"] = "a"
    alone.posted.clear()
    alone.council.tick(alone.now_us + 1)
    assert alone.posted == [("a", Ping(alone.now_us + 1, 4))], "all is well: a voter's sign of life to its root"
    alone.council.silent("a", True, alone.now_us + 2)
    alone.posted.clear()
    alone.council.tick(alone.now_us + 3)
    assert [(peer, type(message)) for peer, message in alone.posted] == [("e", PreVote)]
