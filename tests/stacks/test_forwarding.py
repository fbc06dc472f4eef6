"""Bundles, totals and parcels to one neighbour: one window, and nothing overtakes the log."""

import random

from resprout.core.bundle import Bundle, pack_payloads
from resprout.core.contract import ProtocolMessage, Send, Writable
from resprout.core.guarantee import Guarantee
from resprout.order.messages import Forward, Submit
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.messages import Item, ParcelRows
from resprout.stacks.stack import BrokerSeat


def bundle(number: int) -> Bundle:
    return Bundle("p", 1, number, 1, number, "t", (), Guarantee.CAUSAL, b"", pack_payloads([bytes(36)]))


COST = bundle(1).cost


class Neighbour:
    """A broker with one neighbour, `n`, that wants nothing; the first hop floods."""

    def __init__(self, room: int) -> None:
        self.broker = ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(faults_tolerated=1), random.Random(1))
        parts = self.parts = self.broker.parts
        self.broker.start(0)
        parts.life.begin(1)
        parts.peers.came_up("n", 1, room)
        parts.neighbours.open(parts.neighbours.begin_links({"n": 1}, {})["n"])

    def publish(self, number: int) -> None:
        self.parts.forwarding.accept(bundle(number), None, None, 0, False)

    def sent(self) -> list[ProtocolMessage]:
        """Whatever costs something, since the last look."""
        taken = [effect.message for effect in self.parts.life.out if isinstance(effect, Send) and effect.message.cost]
        self.parts.life.out = []
        return taken

    def writable(self, room: int) -> list[ProtocolMessage]:
        out = self.broker.step(Writable("n", room), 2)
        return [effect.message for effect in out if isinstance(effect, Send) and effect.message.cost]


def forward(number: int) -> Forward:
    return Forward(bundle(number), 1, False)


def test_bundles_wait_in_the_log_for_room_that_a_parcel_has_taken() -> None:
    neighbour = Neighbour(room=2 * COST)
    item = ParcelRows((Item(bundle(90), 0, 1, False),))
    neighbour.publish(1)
    neighbour.parts.outbox.send("n", item)
    neighbour.publish(2)
    neighbour.publish(3)
    assert neighbour.sent() == [forward(1), item]
    assert not neighbour.parts.outbox.waiting("n"), "a bundle that waits is kept once, in the log"
    assert neighbour.writable(COST) == [forward(2)]
    assert neighbour.writable(COST) == [forward(3)]
    assert neighbour.parts.links["n"].cursor is not None


def test_a_parcel_waits_for_room_that_bundles_have_taken_and_they_wait_behind_it() -> None:
    neighbour = Neighbour(room=COST)
    items: list[ProtocolMessage] = [ParcelRows((Item(bundle(number), 0, 1, False),)) for number in (90, 91)]
    neighbour.publish(1)
    for item in items:
        neighbour.parts.outbox.send("n", item)
    neighbour.publish(2)
    assert neighbour.sent() == [forward(1)]
    assert neighbour.writable(COST) == items[:1]
    assert neighbour.writable(3 * COST) == [items[1], forward(2)]


def test_a_total_takes_its_turn_in_the_log_and_its_share_of_the_window() -> None:
    neighbour = Neighbour(room=2 * COST)
    submit = Submit(bundle(50))
    neighbour.publish(1)
    neighbour.parts.speaking.say_in_order("n", submit)
    neighbour.publish(2)
    neighbour.parts.speaking.say_in_order("n", Submit(bundle(51)))
    neighbour.publish(3)
    assert neighbour.sent() == [forward(1), submit]
    assert neighbour.writable(2 * COST) == [forward(2), Submit(bundle(51))]
    assert neighbour.writable(2 * COST) == [forward(3)]
