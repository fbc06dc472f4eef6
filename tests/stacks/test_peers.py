"""Sessions with other brokers: who is called, what waits for a session or for room, and in which order it leaves."""

import random

import pytest

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import Close, Effect, Open, ProtocolMessage, Send
from resprout.core.guarantee import Guarantee
from resprout.order.messages import Forward
from resprout.overlay.lineage import Liveness
from resprout.overlay.messages import Alive, Ping, Pong, Probe, Probed
from resprout.stacks import peers as peers_module
from resprout.stacks.peers import ERRANDS_MAX, Outbox, Peers
from resprout.stacks.shell import Step


def item(number: int, size: int = 36) -> Forward:
    """Costs 103 bytes with the default size."""
    made = Bundle("p", 1, number, 1, 1, "t", (), Guarantee.CAUSAL, b"", pack_payloads([bytes(size)]))
    return Forward(made, 1)


class Desk:
    def __init__(self) -> None:
        self.step = Step()
        self.outbox = Outbox(self.step)
        self.peers = Peers(self.step, self.outbox)

    def took(self) -> list[Effect]:
        """What was wanted since the last look."""
        taken = self.step.out
        self.step.out = []
        return taken

    def sent(self) -> list[ProtocolMessage]:
        return [effect.message for effect in self.took() if isinstance(effect, Send)]


def test_a_word_to_a_stranger_opens_a_session_and_waits_for_it() -> None:
    desk = Desk()
    desk.peers.post("b1", Probe(1))
    desk.peers.post("b1", Probe(2))
    assert desk.took() == [Open("b1")]
    desk.peers.came_up("b1", 3, 1000)
    assert desk.took() == [Send("b1", Probe(1)), Send("b1", Probe(2))]
    assert desk.peers.incarnation("b1") == 3
    desk.peers.post("b1", Probe(3))
    assert desk.sent() == [Probe(3)]


def test_what_is_said_only_within_a_session_is_lost_without_one() -> None:
    desk = Desk()
    desk.outbox.send("b1", Probe(1))
    desk.peers.open("b1")
    desk.outbox.send("b1", Probe(2))
    desk.peers.came_up("b1", 1, 1000)
    assert desk.sent() == []


def test_words_that_wait_too_long_make_place_for_newer_ones() -> None:
    desk = Desk()
    for number in range(ERRANDS_MAX + 10):
        desk.peers.post("b1", Probe(number))
    desk.peers.came_up("b1", 1, 1000)
    assert desk.sent() == [Probe(number) for number in range(10, ERRANDS_MAX + 10)]


def test_without_room_everything_waits_in_order_behind_the_first_that_costs() -> None:
    desk = Desk()
    desk.peers.came_up("b1", 1, 100)
    for message in (item(1), Probe(1), item(2), Alive("x"), item(3)):
        desk.outbox.send("b1", message)
    assert desk.sent() == [item(1), Probe(1)], "a message may begin while any room is left; free ones pass"
    assert not desk.peers.is_clear("b1")
    desk.outbox.writable("b1", 50)
    assert desk.sent() == [item(2), Alive("x")]
    desk.outbox.writable("b1", 150)
    assert desk.sent() == [item(3)]
    assert desk.peers.is_clear("b1")


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_rooms_are_everything_leaves_once_and_in_order(seed: int) -> None:
    desk, rng = Desk(), random.Random(seed)
    desk.peers.came_up("b1", 1, rng.randint(0, 300))
    said: list[ProtocolMessage] = []
    left: list[ProtocolMessage] = []
    for number in range(1, 60):
        message = Alive(f"b{number}") if rng.random() < 0.4 else item(number, rng.randint(0, 200))
        said.append(message)
        desk.outbox.send("b1", message)
        if rng.random() < 0.3:
            desk.outbox.writable("b1", rng.randint(-50, 400))
        left += desk.sent()
        assert left == said[: len(left)]
    desk.outbox.writable("b1", 1 << 30)
    assert left + desk.sent() == said


def test_signs_of_life_do_not_wait_behind_what_waits_for_room() -> None:
    desk = Desk()
    desk.peers.came_up("b1", 1, 0)
    for message in (item(1), Alive("x"), Ping(5, 1), Pong(5, True), Probe(1), Probed(1)):
        desk.outbox.send("b1", message)
    assert desk.sent() == [Ping(5, 1), Pong(5, True), Probe(1), Probed(1)]
    desk.outbox.writable("b1", 1)
    assert desk.sent() == [item(1), Alive("x")]


def test_what_waited_for_room_is_gone_with_the_session_and_what_waits_for_a_session_is_not() -> None:
    desk = Desk()
    desk.peers.open("b1")
    desk.peers.came_up("b1", 1, 0)
    desk.outbox.send("b1", item(1))
    desk.peers.went_down("b1")
    assert desk.peers.incarnation("b1") == 0 and not desk.peers.is_heard("b1")
    desk.peers.post("b1", Probe(1))
    desk.peers.came_up("b1", 2, 1000)
    assert desk.sent() == [Probe(1)]


def test_a_session_that_others_opened_is_forgotten_when_it_ends_and_never_closed_for_being_idle() -> None:
    desk = Desk()
    desk.peers.came_up("b1", 1, 1000)
    desk.step.now_us = 1_000
    desk.peers.keep_only((), idle_us=10)
    assert desk.took() == [] and desk.peers.get("b1") is not None
    desk.peers.went_down("b1")
    assert desk.peers.get("b1") is None


def test_what_is_wanted_is_opened_and_what_is_idle_is_closed() -> None:
    desk = Desk()
    desk.peers.keep_only(("b1", "b2"), 10)
    assert desk.took() == [Open("b1"), Open("b2")]
    desk.step.now_us = 10
    desk.peers.keep_only(("b2",), 10)
    assert desk.took() == [], "not idle for long enough"
    desk.step.now_us = 15
    desk.peers.post("b1", Probe(1))
    desk.step.now_us = 20
    desk.peers.keep_only(("b2",), 10)
    assert desk.took() == [], "it was used"
    desk.step.now_us = 26
    desk.peers.keep_only(("b2",), 10)
    assert desk.took() == [Close("b1", "not needed any more")]
    assert desk.peers.get("b1") is None


def test_there_is_a_limit_to_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "PEERS_MAX", 2)
    desk = Desk()
    assert desk.peers.came_up("b1", 1, 1000) is not None
    desk.peers.post("b2", Probe(1))
    assert desk.peers.came_up("b3", 1, 1000) is None
    desk.peers.post("b4", Probe(1))
    assert desk.took() == [Open("b2"), Close("b3", "no more brokers are taken here")]
    assert desk.peers.came_up("b1", 2, 1000) is not None, "one that is known may come again"


def test_what_links_say_moves_a_peer_along_the_scale_and_its_next_session_back() -> None:
    desk = Desk()
    assert desk.peers.lost("b1", refused=False) is None, "nobody asked for it"
    desk.peers.came_up("b1", 1, 1000)
    assert desk.peers.is_heard("b1")
    for refused, liveness in ((False, Liveness.SILENT), (True, Liveness.ENDED), (False, Liveness.ENDED)):
        peer = desk.peers.lost("b1", refused)
        assert peer is not None and peer.liveness is liveness, "a life that has ended is not merely silent again"
        assert not desk.peers.is_heard("b1")
    desk.peers.came_up("b1", 2, 1000)
    assert desk.peers.is_heard("b1")
    desk.peers.lost("b1", refused=False)
    desk.peers.heard("b1")
    assert desk.peers.is_heard("b1")
    desk.peers.went_down("b1")
    assert not desk.peers.is_heard("b1")


def test_a_newcomer_is_no_settled_broker_until_it_has_its_name() -> None:
    desk = Desk()
    for name in ("b1", "b2?1.1"):
        desk.peers.came_up(name, 1, 1000)
    assert desk.peers.find("b2?1.1") is not None and desk.peers.find_settled("b2?1.1") is None
    desk.peers.adopt("b2?1.1", "b2")
    assert [peer is not None for peer in map(desk.peers.find_settled, ("b1", "b2", "b2?1.1"))] == [True, True, False]
    desk.peers.went_down("b1")
    assert desk.peers.find_settled("b1") is None


def test_a_broker_does_not_call_itself() -> None:
    """A peer may name it as a voter or as an authority, in a life that it never had. Found by `tests.fuzz`."""
    desk = Desk()
    desk.peers = Peers(desk.step, desk.outbox, "b0")
    desk.peers.post("b0", Probe(1))
    desk.peers.keep_only(["b0", "b1"], 1)
    assert desk.took() == [Open("b1")]


def test_a_newcomer_that_is_not_heard_is_not_called_but_an_established_broker_is() -> None:
    """A newcomer is known by the key of the session that it opened itself: nobody listens under that key."""
    desk = Desk()
    for name in ("b1", "b2?1.1"):
        desk.peers.came_up(name, 1, 1000)
        desk.peers.lost(name, refused=False)
        desk.peers.post(name, Probe(1))
    assert desk.took() == [Open("b1"), Send("b1", Probe(1)), Send("b2?1.1", Probe(1))]


def test_what_a_peer_has_not_finished_is_gone_with_its_session() -> None:
    desk = Desk()
    desk.peers.open("b1")
    for is_told in (True, False):
        peer = desk.peers.came_up("b1", 1, 1000)
        assert peer is not None and peer.unfinished is None
        peer.unfinished = "half of a parcel"
        if is_told:
            desk.peers.went_down("b1")
    peer = desk.peers.came_up("b1", 2, 1000)
    assert peer is not None and peer.unfinished is None, "one session may follow another without an end in between"
