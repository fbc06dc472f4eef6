"""Heartbeats and suspicion."""

import pytest

from resprout.core.contract import (
    Connect,
    Connected,
    Disconnect,
    LinkDown,
    Note,
    Open,
    SetTimer,
    TimerFired,
    Transmit,
)
from resprout.core.errors import UsageError
from resprout.links.frames import Data, LingerOver, ReconnectDue, WatchDue
from resprout.links.options import LinkOptions
from resprout.links.switchboard import PERIOD_US, TOLD_MAX
from tests.links.puppet import Desk, Parcel, data, frames

BEATING = LinkOptions(heartbeat_us=100, silence_us=400)


def look(desk: Desk, now_us: int) -> list[object]:
    desk.now_us = now_us
    return list(desk.step(TimerFired(WatchDue())))


def watch(desk: Desk, until_us: int) -> list[object]:
    """Look as often as the node itself wants to; what it does at the last look."""
    effects: list[object] = []
    for now_us in range(desk.now_us // 50 * 50 + 50, until_us + 1, 50):
        effects = look(desk, now_us)
    return effects


def test_nobody_watches_unless_asked() -> None:
    assert Desk().started == []
    assert Desk(options=BEATING).started == [SetTimer(WatchDue(), 50)]
    assert Desk(options=LinkOptions(silence_us=1)).started == [SetTimer(WatchDue(), 1)]


def test_a_connection_is_never_quiet_for_longer_than_a_heartbeat() -> None:
    desk = Desk(options=BEATING)
    desk.accept(5, "c1")
    beat = Transmit(5, Data(1, 0, desk.options.window_bytes, ()))
    assert look(desk, 50) == [SetTimer(WatchDue(), 100)]
    assert look(desk, 100) == [beat, SetTimer(WatchDue(), 150)]
    assert look(desk, 150) == [SetTimer(WatchDue(), 200)]
    desk.now_us = 170
    desk.ask(("c1", Parcel(1)))
    assert look(desk, 200) == [SetTimer(WatchDue(), 250)]
    assert len(look(desk, 250)) == 2


def test_a_silent_peer_costs_its_connection_and_keeps_its_session() -> None:
    desk = Desk(options=BEATING)
    desk.accept(5, "c1")
    desk.reach(6, "b0")
    watch(desk, 350)
    desk.arrive(6, data(1))
    effects = watch(desk, 400)
    assert effects[:3] == [
        Note("suspect", {"detail": "c1 was silent for 400 us"}),
        Disconnect(5, "c1 was silent for 400 us"),
        SetTimer(LingerOver("c1"), 400 + desk.options.session_linger_us),
    ]
    assert frames(desk.accept(7, "c1", peer_incarnation=1))[0].received == 0
    effects = watch(desk, 750)
    assert Note("suspect", {"detail": "b0 was silent for 400 us"}) in effects
    assert Connect("b0") in effects
    assert desk.puppet.heard(LinkDown) == []
    assert len(desk.links.sessions()) == 2


def test_strangers_and_openers_that_get_no_answer_are_not_waited_for() -> None:
    desk = Desk(options=BEATING)
    desk.step(Connected(5, None))
    desk.ask(Open("b0"))
    desk.step(Connected(6, "b0"))
    effects = watch(desk, 400)
    assert effects[:2] == [Disconnect(5, "no greeting came"), Disconnect(6, "no greeting came")]
    assert [effect.timer for effect in effects if isinstance(effect, SetTimer)] == [ReconnectDue("b0"), WatchDue()]
    assert desk.arrive(6, desk.welcome()) == []
    assert desk.puppet.heard(LinkDown) == []


def test_whoever_was_asleep_itself_suspects_nobody_before_it_has_listened() -> None:
    desk = Desk(options=BEATING)
    desk.accept(5, "c1")
    desk.accept(6, "c2")
    watch(desk, 100)
    assert not [effect for effect in look(desk, 5000) if isinstance(effect, Disconnect)]
    desk.arrive(5, data(1))
    disconnected = [effect for effect in look(desk, 5050) if isinstance(effect, Disconnect)]
    assert disconnected == [Disconnect(6, "c2 was silent for 5050 us")]


def test_options_that_cannot_be_are_refused() -> None:
    for options in (
        {"window_bytes": 0},
        {"ack_delay_us": -1},
        {"heartbeat_us": 0},
        {"heartbeat_us": 50, "silence_us": 50},
        {"reconnect_us_min": 10, "reconnect_us_max": 5},
    ):
        with pytest.raises(UsageError, match="link option"):
            LinkOptions(**options)


def test_many_silent_clients_cost_few_lines_and_are_counted() -> None:
    desk = Desk(options=BEATING)
    for number in range(3 * TOLD_MAX):
        desk.accept(number + 1, f"c{number}")
    told = [effect for effect in watch(desk, 400) if isinstance(effect, Note)]
    assert len(told) == TOLD_MAX
    assert len(desk.links.sessions()) == 3 * TOLD_MAX, "the silence costs connections, not sessions"
    look(desk, PERIOD_US)
    desk.accept(1000, "later")
    later: list[object] = []
    for now_us in range(PERIOD_US + 50, PERIOD_US + 500, 50):
        later += look(desk, now_us)
    assert [effect.columns["detail"] for effect in later if isinstance(effect, Note)] == [
        f"{2 * TOLD_MAX} more clients were silent and lost their connections",
        "later was silent for 400 us",
    ]
