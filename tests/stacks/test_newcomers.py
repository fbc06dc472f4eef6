"""Every newcomer finds a place, however few neighbours brokers take: who is sent where, and whole trees that form."""

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from resprout.core.contract import Effect, Event, LinkUp, Received, Send, SetTimer, TimerFired
from resprout.overlay.messages import Place, Seek, Sought, Tell, Told
from resprout.scenario.model import BrokerSpec, Scenario
from resprout.sim.run import run_scenario
from resprout.sim.swarm import homeless
from resprout.stacks.resprout.broker import ResproutBroker
from resprout.stacks.resprout.joining.newcomer import JoinAgain
from resprout.stacks.resprout.messages import JoinElsewhere, JoinRequest, JoinWithdrawn, Welcome
from resprout.stacks.resprout.options import ResproutOptions
from resprout.stacks.stack import BrokerSeat


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("seed", range(1, 6))
def test_a_star_that_one_broker_cannot_hold_becomes_a_tree_with_a_place_for_everybody(degree: int, seed: int) -> None:
    rng = random.Random(seed)
    leaves = [BrokerSpec(f"b{i}", "b0", rng.randint(1_000, 3_000)) for i in range(1, 11)]
    options = {"total_degree": degree}
    scenario = Scenario("a star", (BrokerSpec("b0"), *leaves), seed=seed, time_limit_us=10_000_000, options=options)
    result = run_scenario(scenario)
    assert result.ended == "quiescent"
    assert homeless(scenario, result.rows) == []
    parents = [row.detail for row in result.rows if row.kind == "joined"]
    assert parents.count("b0") <= degree
    assert all(parents.count(broker.name) <= degree - 1 for broker in leaves)


def test_a_long_chain_is_walked_to_its_end_without_a_pause() -> None:
    """Two neighbours each: whoever comes last has to go all the way down."""
    leaves = [BrokerSpec(f"b{i}", "b0", 1_000) for i in range(1, 60)]
    scenario = Scenario("a long chain", (BrokerSpec("b0"), *leaves), options={"total_degree": 2})
    result = run_scenario(scenario)
    assert homeless(scenario, result.rows) == []
    joined_us = [row.time_us for row in result.rows if row.kind == "joined"]
    gaps_us = [after - before for before, after in pairwise(joined_us)]
    assert max(gaps_us) < ResproutOptions().heartbeat_us, "a way through the tree and back each, and no tick of a clock"


class Full:
    """A root with two children, mostly without room for more, f = 1: it hears what happens within two hops."""

    def __init__(self, degree: int = 2) -> None:
        self.broker = ResproutBroker(BrokerSeat("b", 1, None), ResproutOptions(total_degree=degree), random.Random(1))
        self.broker.start(0)
        self.said: list[Effect] = []
        self.waves = 0
        self.is_answered = True
        for name in ("n", "m"):
            self.ask(name)
            assert any(isinstance(message, Welcome) for message in self.told(name))

    def hears(self, event: Event) -> None:
        """Its neighbours answer at once: they have recorded what it tells them, and nobody bears the name it seeks."""
        effects = list(self.broker.step(event, 0))
        self.said += effects
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Tell):
                self.hears(Received(effect.peer, Told(effect.message.number)))
            elif isinstance(effect, Send) and isinstance(effect.message, Seek) and self.is_answered:
                nobody = (0,) * len(effect.message.names)
                self.hears(Received(effect.peer, Sought(effect.message.number, (), nobody, True)))

    def ask(self, name: str) -> None:
        self.hears(LinkUp(name, "broker", 1, 10_000))
        self.hears(Received(name, JoinRequest("")))

    def tell(self, neighbour: str, *places: tuple[str, str, tuple[str, ...]]) -> None:
        for name, parent, children in places:
            self.waves += 1
            around = (parent, *children)
            place = Place(name, 1, 1, parent, around, "", (1,) * len(around))
            self.hears(Received(neighbour, Tell(self.waves, 0, (place,))))

    def told(self, name: str) -> list[object]:
        return [effect.message for effect in self.said if isinstance(effect, Send) and effect.peer == name]

    def offered(self, name: str) -> Sequence[str]:
        answers = [message for message in self.told(name) if isinstance(message, JoinElsewhere)]
        return [offer.name for answer in answers for offer in answer.offers]


def test_a_newcomer_is_sent_to_a_child_that_has_room_when_there_is_no_place_left() -> None:
    root = Full()
    root.tell("n", ("n", "b", ("x",)))
    root.tell("m", ("m", "b", ()))
    root.ask("late")
    assert root.offered("late") == ["m"]
    assert list(root.broker.parts.links) == ["n", "m"]


def test_a_newcomer_waits_until_those_taken_in_before_it_have_told_their_places() -> None:
    root = Full()
    root.ask("late")
    assert root.offered("late") == []
    root.tell("n", ("n", "b", ()))
    assert root.offered("late") == ["n"]


def test_brokers_of_which_nobody_knows_how_many_neighbours_they_have_are_not_taken_for_empty() -> None:
    """n3 and m3 are three hops away: that they exist is all that is known. It was they who were offered once, although
    they had no room either, and they sent everybody back."""
    root = Full()
    root.tell("n", ("n", "b", ("n2",)), ("n2", "n", ("n3",)))
    root.tell("m", ("m", "b", ("m2",)), ("m2", "m", ("m3",)))
    root.ask("late")
    assert sorted(root.offered("late")) == ["m2", "n2"], "the way down, as far as it is known"


def test_who_has_no_room_sends_down_and_not_back_up() -> None:
    root = Full()
    root.tell("n", ("n", "b", ("n2",)), ("n2", "n", ("n3",)))
    root.tell("m", ("m", "b", ("m2",)), ("m2", "m", ("m3",)))
    root.broker.life.view.parent = "m"
    root.ask("late")
    assert root.offered("late") == ["n2"]


def test_who_is_being_looked_for_is_not_let_go_because_the_tree_takes_long_to_answer() -> None:
    """It would begin again somewhere else, and the whole tree would be asked again."""
    root = Full(degree=3)
    root.is_answered = False
    root.ask("late")
    root.hears(Received("late", JoinWithdrawn()))
    assert not any(isinstance(message, JoinElsewhere) for message in root.told("late"))


def test_who_waits_where_there_is_no_room_is_let_go() -> None:
    root = Full()
    root.ask("late")
    root.hears(Received("late", JoinWithdrawn()))
    assert JoinElsewhere(()) in root.told("late")


def test_the_tree_is_asked_once_for_one_place_however_many_want_it() -> None:
    root = Full(degree=3)
    root.is_answered = False
    for name in ("x", "y", "z"):
        root.ask(name)
    seeks = [message for message in root.told("n") if isinstance(message, Seek)]
    assert seeks[-1].names == ("x",)
    for neighbour in ("n", "m"):
        number = next(message.number for message in reversed(root.told(neighbour)) if isinstance(message, Seek))
        root.hears(Received(neighbour, Sought(number, (), (0,), True)))
    assert any(isinstance(message, Welcome) for message in root.told("x"))
    assert [message for message in root.told("n") if isinstance(message, Seek)] == seeks


def test_a_newcomer_that_reaches_nobody_waits_longer_each_time_because_all_may_be_far_away() -> None:
    seat = BrokerSeat("late", 1, "p", contacts=("q", "r", "s"))
    broker = ResproutBroker(seat, ResproutOptions(), random.Random(1))
    out = broker.start(0)
    waits: list[int] = []
    for _ in range(5):
        [due_us] = [x.at_us - sum(waits) for x in out if isinstance(x, SetTimer) and x.timer == JoinAgain()]
        waits.append(due_us)
        out = broker.step(TimerFired(JoinAgain()), sum(waits))
    assert waits == [20_000_000, 10_000_000, 20_000_000, 20_000_000, 20_000_000]
