"""What brokers keep for a subscriber that takes nothing, and that none of it is for ever."""

import msgspec
from benchmarks.seed000.memory import LOG_BYTES, UNTAKEN_BYTES, WINDOW_BYTES, broker_keeps, stall, stalled_scenario
from benchmarks.seed000.stage import on

from resprout.scenario.model import FaultKind, FaultSpec
from resprout.sim.run import Run

PAYLOAD = 64_000
COST = PAYLOAD + 200
"""Of one publication in a log, at most."""
OPERATIONS = 600


def test_a_subscriber_that_takes_nothing_for_an_hour_costs_a_bounded_log_and_loses_nothing() -> None:
    found = stall(on("resprout", stalled_scenario(PAYLOAD, "2s", OPERATIONS)))
    most = LOG_BYTES + WINDOW_BYTES + UNTAKEN_BYTES + 4 * COST
    assert LOG_BYTES < found.kept.bytes <= most, found
    assert found.kept.entries <= most // PAYLOAD, found
    assert found.published_before_end < OPERATIONS // 2, "the publisher was not pushed back"
    assert found.writer_bytes <= 33 * COST, "more waits at the publisher than its window"
    assert (found.ended, found.delivered) == ("quiescent", OPERATIONS)
    assert found.kept_at_end.entries == 0


def test_what_is_kept_for_a_frozen_subscriber_goes_with_its_session() -> None:
    """Nothing is heard of it, so its session is given up after half a minute; others are held up no longer."""
    freeze = FaultSpec(10_000_000, FaultKind.FREEZE, nodes=("stalled",))
    scenario = on("resprout", stalled_scenario(8_000, "100ms", 900))
    run = Run(msgspec.structs.replace(scenario, time_limit_us=120_000_000, faults=(freeze,)), None, ())
    held: dict[int, int] = {}

    def look(at_us: int, _: None) -> None:
        held[at_us] = max(broker_keeps(run, name).entries for name in ("b0", "b1", "b2"))

    for at_us in (9_000_000, 30_000_000, 60_000_000, 90_000_000):
        run.world.at(at_us, look, at_us)
    result = run.finish()
    assert held[30_000_000] > 100 > 20 > max(held[9_000_000], held[60_000_000], held[90_000_000]), held
    assert sum(row.kind == "deliver" and row.node == "reader" for row in result.rows) == 900
