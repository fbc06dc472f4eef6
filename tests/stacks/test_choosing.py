"""How a broker chooses among places that it is offered, and how places are offered to it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resprout.core.contract import Effect, LinkDown, LinkUp, Open, Received, Send, Silent, TimerFired
from resprout.overlay.messages import Probe, Probed
from resprout.stacks.resprout import ResproutBroker, ResproutOptions
from resprout.stacks.resprout.joining.newcomer import PATIENCE_US, REFUSALS_MAX, JoinAgain
from resprout.stacks.resprout.joining.offers import CALL, MEASURE, NEAR_US, Candidate, ChooseParent, choose, near_us
from resprout.stacks.resprout.messages import OFFERED_MAX, JoinElsewhere, JoinRequest, Offer
from resprout.stacks.stack import BrokerSeat

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.sampled_from(("a", "b", "c", "d", "e")),
        st.sampled_from((0, 100, 5_000, 5_001, 10_000, 40_000, 65_000, 65_001, 400_000)),
        st.integers(0, 3),
    ),
    unique_by=lambda candidate: candidate.name,
)


@given(CANDIDATES, st.randoms(use_true_random=False))
@settings(deadline=None, derandomize=True)
def test_the_choice_is_near_fits_best_among_the_near_and_does_not_depend_on_who_answers_first(
    candidates: list[Candidate], rng: random.Random
) -> None:
    chosen = choose(candidates)
    rng.shuffle(candidates)
    assert choose(candidates) == chosen
    if not candidates:
        assert chosen is None
        return
    taken = next(candidate for candidate in candidates if candidate.name == chosen)
    nearest_us = min(candidate.trip_us for candidate in candidates)
    near = [candidate for candidate in candidates if candidate.trip_us <= nearest_us * 1.5 + NEAR_US]
    assert taken in near
    assert (taken.missing, taken.trip_us) == min((candidate.missing, candidate.trip_us) for candidate in near)


def test_interest_decides_within_half_again_of_the_shortest_trip_and_not_beyond() -> None:
    nearest = Candidate("a", 100_000, 3)
    assert choose([nearest, Candidate("b", near_us(100_000), 0)]) == "b"
    assert choose([nearest, Candidate("b", near_us(100_000) + 1, 0)]) == "a"


class Newcomer:
    """A later life of `n` that asked `full` for a place and was offered others."""

    def __init__(self, *offers: Offer) -> None:
        self.broker = ResproutBroker(BrokerSeat("n", 2, "full"), ResproutOptions(), random.Random(1))
        self.now_us = 0
        self.broker.start(0)
        self._step(LinkUp("full", "broker", 1, 10_000))
        self.out = self._step(Received("full", JoinElsewhere(offers)))

    def _step(self, event: object) -> list[Effect]:
        return list(self.broker.step(event, self.now_us))  # type: ignore[arg-type]

    def at(self, now_us: int, *events: object) -> list[tuple[str, object]]:
        """What is said to whom."""
        self.now_us = now_us
        return [(e.peer, e.message) for event in events for e in self._step(event) if isinstance(e, Send)]

    def asks(self, now_us: int, *events: object) -> list[str]:
        return [peer for peer, message in self.at(now_us, *events) if isinstance(message, JoinRequest)]


def up(name: str) -> LinkUp:
    return LinkUp(name, "broker", 1, 10_000)


def test_everybody_who_is_offered_is_called_and_a_trip_counts_from_when_the_session_stands() -> None:
    newcomer = Newcomer(Offer("a", "", 1), Offer("b", "", 0))
    assert [effect.peer for effect in newcomer.out if isinstance(effect, Open)] == ["a", "b"]
    assert newcomer.at(10_000, up("a")) == [("a", Probe(CALL))]
    assert newcomer.at(20_000, Received("a", Probed(CALL))) == [("a", Probe(MEASURE))]
    assert newcomer.at(300_000, up("b")) == [("b", Probe(CALL))], "b took long to connect, and is as near"
    assert newcomer.at(310_000, Received("b", Probed(CALL))) == [("b", Probe(MEASURE))]
    assert newcomer.asks(320_000, Received("a", Probed(MEASURE))) == []
    assert newcomer.asks(610_000, Received("b", Probed(MEASURE))) == ["b"]


def test_whoever_is_not_there_is_not_waited_for() -> None:
    newcomer = Newcomer(Offer("a", ""), Offer("b", ""), Offer("c", ""))
    newcomer.at(10_000, up("a"), Received("a", Probed(CALL)))
    newcomer.at(20_000, Silent("b", True))
    newcomer.at(30_000, up("c"), LinkDown("c", "no"))
    assert newcomer.asks(40_000, Received("a", Probed(MEASURE))) == ["a"]


def test_whoever_is_much_slower_than_the_nearest_is_not_waited_for() -> None:
    newcomer = Newcomer(Offer("a", "", 9), Offer("b", "", 0))
    newcomer.at(10_000, up("a"), Received("a", Probed(CALL)))
    newcomer.at(20_000, Received("a", Probed(MEASURE)))
    assert newcomer.asks(80_000, TimerFired(ChooseParent())) == ["a"]
    assert newcomer.at(90_000, up("b")) == [("b", Probe(CALL))]
    assert newcomer.asks(100_000, Received("b", Probed(CALL)), Received("b", Probed(MEASURE))) == []


def test_when_nobody_answers_the_offers_are_asked_one_after_the_other() -> None:
    newcomer = Newcomer(Offer("a", ""), Offer("b", ""))
    newcomer.at(5_000_000, TimerFired(ChooseParent()))
    assert newcomer.asks(5_000_001, up("a")) == ["a"]


@pytest.mark.parametrize("number", [CALL, MEASURE, 0, 1, 1 << 60])
def test_answers_that_nobody_asked_for_choose_nobody(number: int) -> None:
    newcomer = Newcomer(Offer("a", ""), Offer("b", ""))
    assert newcomer.asks(10_000, up("x"), Received("x", Probed(number))) == []
    assert newcomer.asks(20_000, up("a"), Received("a", Probed(MEASURE)), Received("a", Probed(MEASURE))) == []


def test_more_offers_than_anybody_makes_are_not_looked_at() -> None:
    newcomer = Newcomer(*[Offer(f"x{number}", "", number) for number in range(10_000)])
    assert sum(isinstance(effect, Open) for effect in newcomer.out) == OFFERED_MAX


def test_a_newcomer_for_whom_there_is_no_room_anywhere_pauses_before_it_asks_on() -> None:
    newcomer = Newcomer()
    asked = [newcomer.asks(0, Received("full", JoinElsewhere(()))) for _ in range(REFUSALS_MAX)]
    assert asked == [["full"]] * (REFUSALS_MAX - 2) + [[], []]
    assert newcomer.asks(PATIENCE_US, TimerFired(JoinAgain())) == ["full"]


def test_an_offer_of_itself_is_none() -> None:
    newcomer = Newcomer(Offer("n", ""))
    assert not any(isinstance(effect, Open) for effect in newcomer.out)
    assert [e.peer for e in newcomer.out if isinstance(e, Send) and isinstance(e.message, JoinRequest)] == ["full"]
