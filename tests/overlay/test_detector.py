"""The failure detector: single steps, and drawn runs with crashes, returns, slow networks, cuts and sleepers."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from resprout.core.contract import Effect, Send, SetTimer
from resprout.core.errors import UsageError
from resprout.net.frames import make_codec
from resprout.overlay.detector import (
    MESSAGES,
    UNHEARD_BEATS_MAX,
    BeatDue,
    Detector,
    DetectorOptions,
    Heartbeat,
)
from tests.network import Time

OPTIONS = DetectorOptions(heartbeat_us=100, timeout_us=300, timeout_max_us=2_000)


class Stage:
    """A detector whose timer fires on time, unless told otherwise."""

    def __init__(self, *peers: str) -> None:
        self.detector = Detector(OPTIONS)
        self.now_us = 0
        self.beats: list[str] = []
        self.due_us = 0
        out: list[Effect] = []
        self.detector.start(0, out)
        self._perform(out)
        for peer in peers:
            self.detector.watch(peer, 0)

    def runs_until(self, at_us: int) -> list[str]:
        """Who is suspected on the way."""
        suspected: list[str] = []
        while self.due_us <= at_us:
            suspected += self.fires(self.due_us)
        self.now_us = at_us
        return suspected

    def fires(self, at_us: int) -> list[str]:
        self.now_us = at_us
        out: list[Effect] = []
        suspected = self.detector.fired(at_us, out)
        self._perform(out)
        return suspected

    def hears(self, peer: str, returned: bool = False) -> bool:
        return self.detector.heard(peer, self.now_us, returned)

    def _perform(self, out: list[Effect]) -> None:
        for effect in out:
            if isinstance(effect, Send):
                assert effect.message == Heartbeat()
                self.beats.append(effect.peer)
            else:
                assert isinstance(effect, SetTimer) and effect.timer == BeatDue()
                self.due_us = effect.at_us


def test_everybody_watched_gets_heartbeats_at_a_steady_pace() -> None:
    stage = Stage("a", "b")
    stage.runs_until(250)
    assert stage.beats == ["a", "b", "a", "b"] and stage.due_us == 300
    stage.detector.unwatch("a")
    stage.runs_until(300)
    assert stage.beats[4:] == ["b"]


def test_silence_makes_suspect_and_a_word_makes_trust_again() -> None:
    stage = Stage("a", "b")
    stage.runs_until(200)
    assert not stage.hears("a"), "it was not suspected"
    assert stage.runs_until(400) == ["b"], "300 us after the last sign, at the next heartbeat"
    assert stage.detector.suspected == ["b"] and stage.detector.suspects("b") and not stage.detector.suspects("a")
    assert stage.hears("b") and stage.detector.suspected == []
    assert not stage.hears("b") and not stage.hears("stranger") and not stage.detector.suspects("stranger")


def test_a_peer_is_suspected_once_until_it_is_heard() -> None:
    stage = Stage("a")
    assert stage.runs_until(5_000) == ["a"]


def test_each_wrong_suspicion_buys_time_up_to_a_bound() -> None:
    stage = Stage("a")
    waits = []
    for _ in range(9):
        begin_us = stage.now_us
        while not stage.fires(stage.due_us):
            pass
        waits.append(stage.now_us - begin_us)
        stage.hears("a")
    assert waits == [400, 700, 1_000, 1_300, 1_600, 1_900, 2_100, 2_100, 2_100]


def test_a_suspicion_that_was_right_buys_no_time() -> None:
    stage = Stage("a")
    stage.runs_until(400)
    assert stage.hears("a", returned=True)
    assert stage.runs_until(799) == [] and stage.runs_until(800) == ["a"]


def test_a_host_that_says_the_process_is_gone_is_believed_at_once() -> None:
    stage = Stage("a")
    assert stage.detector.refused("a") and stage.detector.suspected == ["a"]
    assert not stage.detector.refused("a") and not stage.detector.refused("stranger")
    assert stage.hears("a", returned=True)


def test_who_slept_blames_nobody() -> None:
    stage = Stage("a", "b")
    stage.runs_until(200)
    assert stage.fires(50_000) == [], "nothing was heard because nothing was listened to"
    stage.hears("a")
    assert stage.runs_until(50_300) == ["b"], "and not for ever"


def test_nothing_piles_up_for_one_that_is_silent_until_its_link_is_back() -> None:
    stage = Stage("a")
    stage.runs_until(100_000)
    assert len(stage.beats) == UNHEARD_BEATS_MAX
    stage.detector.linked("a")
    stage.detector.linked("stranger")
    stage.runs_until(100_100)
    assert len(stage.beats) == UNHEARD_BEATS_MAX + 1 and stage.detector.suspected == ["a"], "a link is no sign of life"


def test_watching_again_changes_nothing() -> None:
    stage = Stage("a")
    stage.runs_until(400)
    stage.detector.watch("a", 400)
    assert stage.detector.suspected == ["a"]


@pytest.mark.parametrize(
    ("heartbeat_us", "timeout_us", "timeout_max_us", "told"),
    [(0, 10, 10, "heartbeat_us"), (10, 19, 100, "two heartbeats"), (10, 100, 99, "timeout_max_us")],
)
def test_options_that_make_no_sense_are_refused(
    heartbeat_us: int, timeout_us: int, timeout_max_us: int, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        DetectorOptions(heartbeat_us=heartbeat_us, timeout_us=timeout_us, timeout_max_us=timeout_max_us)


def test_a_heartbeat_can_travel() -> None:
    assert make_codec(MESSAGES).messages == MESSAGES
    assert Heartbeat().background and BeatDue().background and Heartbeat.express


class World(Time):
    """Some who watch each other. At first messages are slow and links are cut at will (what is said then waits, as in
    a session); some crash, some return, some sleep. From `calm_us` on messages come together, every `slowest_us`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = rng = Random(seed)
        self.names = [f"n{number}" for number in range(rng.randint(2, 5))]
        self.calm_us = 10_000
        self.slowest_us = rng.choice((50, 600, 1_500))
        self.detectors: dict[str, Detector] = {}
        self.asleep_until: dict[str, int] = dict.fromkeys(self.names, 0)
        self.cut: set[frozenset[str]] = set()
        self.waiting: dict[tuple[str, str], int] = {}
        self.wrong_since_calm = 0
        for name in self.names:
            self.begin(name)

    def begin(self, name: str) -> None:
        self.detectors[name] = Detector(OPTIONS)
        out: list[Effect] = []
        self.detectors[name].start(self.now_us, out)
        for other in self.names:
            if other != name:
                self.detectors[name].watch(other, self.now_us)
        self._perform(name, out)

    def _perform(self, name: str, out: list[Effect]) -> None:
        for effect in out:
            if isinstance(effect, SetTimer):
                self.at(effect.at_us, partial(self._fire, name))
            elif isinstance(effect, Send):
                self._send(name, effect.peer)

    def _send(self, name: str, peer: str) -> None:
        if frozenset((name, peer)) in self.cut:
            self.waiting[name, peer] = self.waiting.get((name, peer), 0) + 1
        else:
            at_us = self.now_us + self.rng.randint(1, 4_000)
            if self.now_us >= self.calm_us:
                at_us = (self.now_us // self.slowest_us + 1) * self.slowest_us
            self.at(at_us, partial(self._beat, peer, name))

    def _beat(self, name: str, peer: str) -> None:
        if self._is_awake(name, partial(self._beat, name, peer)):
            self.detectors[name].heard(peer, self.now_us)

    def _fire(self, name: str) -> None:
        if self._is_awake(name, partial(self._fire, name)):
            out: list[Effect] = []
            suspected = self.detectors[name].fired(self.now_us, out)
            self.wrong_since_calm += sum(other in self.detectors for other in suspected)
            self._perform(name, out)

    def _is_awake(self, name: str, action: Callable[[], None]) -> bool:
        """Who sleeps does it when it wakes up; who is dead does not."""
        if name in self.detectors and self.asleep_until[name] > self.now_us:
            self.at(self.asleep_until[name], action)
            return False
        return name in self.detectors

    def mishap(self) -> None:
        rng = self.rng
        name, other = rng.sample(self.names, 2)
        match rng.randrange(5):
            case 0:
                self.detectors.pop(name, None)
            case 1 if name not in self.detectors:
                self.begin(name)
            case 2:
                self.asleep_until[name] = self.now_us + rng.randint(1, 3_000)
            case 3:
                self.cut.add(frozenset((name, other)))
            case _:
                self.heal()

    def heal(self) -> None:
        self.cut.clear()
        for (name, peer), beats in self.waiting.items():
            for _ in range(beats):
                self.after(1, partial(self._beat, peer, name))
            for one, two in ((name, peer), (peer, name)):
                if one in self.detectors:
                    self.detectors[one].linked(two)
        self.waiting.clear()

    def run(self, until_us: int) -> None:
        while self.pass_on(until_us):
            pass
        self.now_us = until_us


@pytest.mark.parametrize("seed", range(60))
def test_in_the_end_exactly_those_are_suspected_who_crashed(seed: int) -> None:
    world = World(seed)
    while world.now_us < world.calm_us:
        world.run(world.now_us + world.rng.randint(1, 1_000))
        world.mishap()
    world.heal()
    world.run(40_000)
    world.wrong_since_calm = 0
    world.run(80_000)
    dead = [name for name in world.names if name not in world.detectors]
    for detector in world.detectors.values():
        assert sorted(detector.suspected) == dead
    assert world.wrong_since_calm == 0, "eventually nobody is suspected wrongly"
