"""The largest header of LoCaMu in a simulated binary tree, by the formula of its thesis."""

from unittest.mock import patch

from resprout.audit.judge import judge
from resprout.core.contract import ProtocolMessage
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import Scenario
from resprout.sim.run import run_scenario
from resprout_lab.blocks.retention import KeptItem, Passing
from resprout_lab.locamu import LOCAMU


def largest_header(brokers: int) -> int:
    """Those around one link publish, one end of it dies and returns, and all is told anew. AssertionError when the run
    is not clean."""
    sizes = [0]
    pass_on = Passing.pass_on

    def measured(self: Passing, name: str, item: KeptItem, message: ProtocolMessage) -> None:
        sizes.append(message.paper_bytes or 0)
        pass_on(self, name, item, message)

    with patch.object(Passing, "pass_on", measured):
        result = run_scenario(around_a_link(brokers))
    assert result.ended == "quiescent" and not judge(result.rows, promise=LOCAMU.promise()).anomalies
    return max(sizes)


def around_a_link(brokers: int) -> Scenario:
    """Fourteen brokers are within three hops of both `b3` and `b7`; a client at each of them, and one behind."""
    near = (3, 1, 8, 0, 4, 17, 18, 7, 15, 16, 31, 32, 33, 34)
    tree = "".join(
        f'[[broker]]\nname = "b{no}"\nlatency = "1ms"\n' + (f'parent = "b{(no - 1) // 2}"\n' if no else "")
        for no in range(brokers)
    )
    clients = "".join(f'[[client]]\nname = "c{no}"\nbroker = "b{no}"\nsubscribe = ["t"]\n' for no in (*near, 2))
    all_near = ", ".join(f'"c{no}"' for no in near)
    return parse_scenario(f"""
stack = "locamu"
seed = 1
time_limit = "60s"
{tree}{clients}
[[workload]]
kind = "random"
clients = [{all_near}]
topics = ["t"]
operations = 2
mix = {{ causal = 1.0 }}
start = "2s"
[[workload]]
kind = "random"
clients = ["c2"]
topics = ["t"]
operations = 1
mix = {{ causal = 1.0 }}
start = "20s"
[[fault]]
at = "10s"
kind = "crash"
nodes = ["b7"]
[[fault]]
at = "12s"
kind = "recover"
nodes = ["b7"]
""")
