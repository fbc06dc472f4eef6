"""Only members of a group and the brokers on their paths carry a message (thesis of seed 001, section 3.2.2)."""

import pytest

from resprout.audit.judge import judge
from resprout.core.contract import Received
from resprout.edge.messages import Unsubscribe
from resprout.scenario.load import parse_scenario
from resprout.sim.run import RunResult, run_scenario
from resprout.stacks.stack import Family, find_stack
from resprout_lab.blocks.groups import TakingPart
from tests.stacks.locamu_net import Chance, Hands, chain

PUBLICATIONS = 20


def among_63(stack: str, *members: str, publisher: str) -> RunResult:
    """A binary tree of 63 brokers; the clients of these read `g`, that of one publishes to it."""
    brokers = "".join(
        f'[[broker]]\nname = "b{no}"\n' + (f'parent = "b{(no - 1) // 2}"\n' if no else "") for no in range(63)
    )
    clients = "".join(f'[[client]]\nname = "c{name}"\nbroker = "{name}"\nsubscribe = ["g"]\n' for name in members)
    return run_scenario(
        parse_scenario(f"""
stack = "{stack}"
seed = 1
time_limit = "60s"
{brokers}
{clients}
[[client]]
name = "p"
broker = "{publisher}"
[[workload]]
kind = "random"
clients = ["p"]
topics = ["g"]
operations = {PUBLICATIONS}
mix = {{ fifo = 1.0 }}
interval = "50ms"
start = "2s"
bundle_max = 1
""")
    )


def copies(stack: str, result: RunResult) -> int:
    """Publications that brokers sent to each other, once for each link."""
    carriers = [f"sent:{kind.__name__}" for kind in find_stack(stack).families[Family.PUBLICATIONS]]
    loads = [row.attributes or {} for row in result.rows if row.kind == "load"]
    return sum(int(load.get(carrier, 0)) for load in loads for carrier in carriers)


@pytest.mark.parametrize("stack", ["locamu", "delta", "cbcast", "causal-barriers"])
@pytest.mark.parametrize(
    ("members", "publisher", "links"),
    [
        pytest.param(("b1", "b3", "b4"), "b1", 2, id="three that stand together"),
        pytest.param(("b31", "b46", "b62"), "b62", 14, id="three leaves far from each other"),
        pytest.param(("b3", "b4"), "b62", 8, id="a publisher that is no member"),
    ],
)
def test_copies_to_a_group_among_63_brokers_are_the_links_of_its_paths(
    stack: str, members: tuple[str, ...], publisher: str, links: int
) -> None:
    result = among_63(stack, *members, publisher=publisher)
    assert not judge(result.rows, promise=find_stack(stack).promise()).anomalies
    assert copies(stack, result) == PUBLICATIONS * links
    assert sum(row.kind == "deliver" for row in result.rows) == PUBLICATIONS * len(members)


# -- LoCaMu ------------------------------------------------------------------------------------------------------------


def test_a_node_numbers_a_message_only_for_those_that_take_part_in_its_group() -> None:
    """Figure 3.2: the targets of m at i are those of the extended graph that are involved in routing it."""
    net = Hands(chain(5), groups={"g": ["b2"], "h": ["b0", "b3"]})
    net.publish("b0", "g")
    net.publish("b0", "h")
    net.settle()
    headers = {(one, to, net.topics[message.bundle.publisher, message.bundle.first]): message.identifiers
               for one, to, message in net.headers}  # fmt: skip
    assert headers["b0", "b1", "g"] == (("b0", (("b1", 1), ("b2", 1))),)
    assert headers["b1", "b2", "g"] == (("b0", (("b1", 1), ("b2", 1))), ("b1", (("b2", 1),))), "b3 takes no part"
    assert headers["b1", "b2", "h"][-1] == ("b1", (("b2", 2), ("b3", 1)))
    assert not any(to == "b4" for _, to, _ in headers) and net.wrong() == []


def test_a_message_to_one_group_waits_for_what_its_publisher_sent_to_another_group_before() -> None:
    """Figure 3.3 with two groups: c publishes to d behind b, which is down, after it has read m2 of a. d has not got m1
    of a, which no other group of c carries."""
    net = Hands({"b": None, "a": "b", "c": "b", "d": "b"}, groups={"to d": ["d"], "to c": ["c"]})
    first = net.publish("a", "to d")
    second = net.publish("a", "to c")
    net.settle(("b", "d"))
    assert net.read["c"] == [second] and net.read["d"] == []
    net.kill("b")
    third = net.publish("c", "to d")
    net.settle()
    assert net.read["d"] == [first, third], "a has sent m1 around b"
    net.start("b")
    net.settle()
    assert net.read["d"] == [first, third] and net.wrong() == []


def test_what_depends_on_a_message_that_only_a_dead_broker_has_waits_for_its_return() -> None:
    net = Hands({"b": None, "c": "b", "d": "b"}, groups={"to d": ["d"], "to c": ["c"]})
    first = net.publish("b", "to d")
    second = net.publish("b", "to c")
    net.settle(("b", "d"))
    assert net.read["c"] == [second]
    net.kill("b")
    third = net.publish("c", "to d")
    net.settle()
    assert net.read["d"] == []
    net.start("b")
    net.settle()
    assert net.read["d"] == [first, third] and net.wrong() == []


@pytest.mark.parametrize(("f", "brokers"), [(1, 10), (2, 12)])
def test_order_holds_across_groups_whatever_happens_within_the_model(f: int, brokers: int) -> None:
    for seed in range(20):
        net = Chance(seed, brokers, f, groups=5)
        net.run(60)
        assert net.wrong() == [], f"seed {seed}"
        rows = [len(machine.algorithm.sent) + len(machine.algorithm.buffer) for machine in net.machines.values()]
        assert not any(rows), f"seed {seed}: something is kept or waits"


@pytest.mark.parametrize(
    ("seed", "groups"),
    [
        pytest.param(116, 5, id="merged identifiers stay in the order of the path"),
        pytest.param(272, 0, id="a copy in the place of a node has the identifiers of all nodes before"),
        pytest.param(527, 5, id="the same, with groups"),
        pytest.param(728, 5, id="an entry that was known in part is completed"),
    ],
)
def test_found_by_chance_two_copies_of_a_message_are_known_to_be_one(seed: int, groups: int) -> None:
    net = Chance(seed, 10, 1, groups)
    net.run(80)
    assert net.wrong() == []


def test_a_broker_that_has_no_reader_left_takes_no_part_any_more() -> None:
    net = Hands(chain(4), groups={"g": ["b3"]})
    net.step("b3", Received("cb3", Unsubscribe(1)))
    net.settle()
    net.publish("b0", "g")
    net.settle()
    assert net.headers == []


def test_a_neighbour_that_says_who_takes_part_elsewhere_is_cut_off() -> None:
    net = Hands(chain(4), groups={"g": ["b3"]})
    net.step("b1", Received("b2", TakingPart(9, False, True, (("g", ("b0",)),))))
    assert net.closed[-1][:2] == ("b1", "b2") and "not behind it" in net.closed[-1][2]
