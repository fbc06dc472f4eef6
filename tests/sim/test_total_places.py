"""Why totals are acknowledged by name, not as ranges of places: a broker can get an earlier one behind a later one."""

from typing import Any

from resprout.scenario.load import parse_scenario
from resprout.sim.checking import broker_of
from resprout.sim.run import Run

LATE_COPY = """
stack = "resprout"
time_limit = "60s"
[options]
faults_tolerated = 1
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[broker]]
name = "b2"
parent = "b0"
[[client]]
name = "reader"
broker = "b1"
subscribe = ["a"]
[[client]]
name = "writer"
broker = "b0"
[[workload]]
kind = "random"
clients = ["writer"]
topics = ["a"]
operations = 1
mix = { total = 1.0 }
interval = "10ms"
start = "3s"
[[workload]]
kind = "random"
clients = ["writer"]
topics = ["a"]
operations = 1
mix = { total = 1.0 }
interval = "10ms"
start = "8s"
[[fault]]
at = "2900ms"
kind = "cut"
nodes = ["b1", "reader"]
[[fault]]
at = "2900ms"
kind = "freeze"
nodes = ["reader"]
[[fault]]
at = "5s"
kind = "join"
nodes = ["b3"]
parent = "b0"
[[fault]]
at = "12s"
kind = "crash"
nodes = ["b1"]
[[fault]]
at = "16s"
kind = "crash"
nodes = ["b2"]
"""
"""The reader takes nothing. b3 comes between two totals, and delivers the second. When both brokers are dead that had
copies of the first, b0 gives one to b3."""


def test_a_broker_gets_a_copy_of_an_earlier_total_behind_a_later_one() -> None:
    places: dict[int, list[int]] = {}
    run = Run(parse_scenario(LATE_COPY), None, ())

    def look(at_us: int, _: Any) -> None:
        process = run.world.nodes["b3"].process
        broker = broker_of(process.machine) if process is not None else None
        assert broker is not None
        entries = sorted(broker.parts.total_acks.entries.values(), key=lambda entry: entry.no)
        places[at_us] = [entry.tseq for entry in entries]

    for at_us in (11_000_000, 25_000_000):
        run.world.at(at_us, look, at_us)
    run.finish()
    assert places == {11_000_000: [2], 25_000_000: [2, 1]}, "in the order of the log of b3"
