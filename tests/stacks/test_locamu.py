"""LoCaMu in calm: causal order, one copy to everybody, headers that do not grow with the network."""

import pytest
from benchmarks.locamu_headers import largest_header

from resprout.audit.judge import judge
from resprout.core.contract import Received
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee
from resprout.scenario.draw import draw_scenario
from resprout.sim.run import run_scenario
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.figures.formulas import locamu_header_with_names
from resprout_lab.locamu import LOCAMU
from resprout_lab.locamu.messages import Carried
from resprout_lab.locamu.past import cut_after, is_safe, leading_to
from tests.compiled import reaches_into
from tests.edge.desk import Desk
from tests.soak import SOAKING, cases
from tests.stacks.locamu_headers import worst_header_in, worst_header_over
from tests.stacks.locamu_net import Hands, binary, chain

# -- identifiers -------------------------------------------------------------------------------------------------------


def test_each_broker_on_the_way_numbers_a_message_for_all_within_f_plus_1_hops_ahead() -> None:
    """Figure 3.5 of the thesis: a row, f = 1."""
    net = Hands(chain(6))
    net.publish("b0")
    net.settle()
    headers = {(one, to): message.identifiers for one, to, message in net.headers}
    assert headers["b0", "b1"] == (("b0", (("b1", 1), ("b2", 1))),)
    assert headers["b1", "b2"] == (("b0", (("b1", 1), ("b2", 1))), ("b1", (("b2", 1), ("b3", 1))))
    assert [name for name, _ in headers["b4", "b5"]] == ["b2", "b3", "b4"], "the last 2f + 1"
    assert len(net.headers) == 5, "one copy over each link"


def test_copies_on_two_ways_are_known_to_be_one_message_and_their_identifiers_are_merged() -> None:
    """Figure 3.6: the second broker is passed over, comes back and passes on what it was sent before."""
    net = Hands(chain(5))
    net.kill("b1")
    net.settle()
    net.publish("b0")
    net.settle()
    net.start("b1")
    net.settle()
    came = [dict(message.identifiers) for one, to, message in net.headers if to == "b3"]
    assert came[0]["b1"] == () and came[-1]["b1"] == (("b2", 1), ("b3", 1)), "passed over, and merged"
    assert not net.wrong() and net.read["b3"] == [("cb0", 1)]


def test_a_path_is_safe_with_at_most_f_empty_entries_in_its_last_2f_plus_1() -> None:
    path = leading_to({"a": {"b": 1}, "b": {}}, "c", {"d": 1}, ("d",), faults=1)
    assert list(path) == ["b", "c", "d"] and not is_safe(path, 1) and is_safe(path, 2)
    assert is_safe(leading_to({"a": {"b": 1}, "b": {}}, "c", {"d": 1}, (), faults=1), 1)
    assert is_safe({"a": {}, "b": {}, "c": {"d": 1}, "d": {"e": 1}}, 1), "what lies further back does not count"
    assert cut_after({"a": {"b": 1}, "b": {"c": 1}, "c": {"d": 1}}, "b") == {"a": {"b": 1}, "b": {"c": 1}}


def test_a_message_depends_on_what_was_processed_before_and_says_what_has_changed() -> None:
    net = Hands(chain(2))
    for name in ("b0", "b0", "b1"):
        net.publish(name)
        net.settle()
    assert [message.dependencies for *_, message in net.headers] == [
        (),
        (("b0", (("b1", 1),)),),
        (("b0", (("b1", 2),)),),
    ]


# -- headers -----------------------------------------------------------------------------------------------------------


def test_the_closed_form_is_what_is_counted_in_a_tree() -> None:
    assert locamu_header_with_names(1, 3) == worst_header_in(regular(3, 6), 1) == 668
    assert locamu_header_with_names(1, 4) == worst_header_in(regular(4, 5), 1) == 1_460
    assert [locamu_header_with_names(f, 2) for f in (1, 2, 3)] == [
        worst_header_in(regular(2, 12), f) for f in (1, 2, 3)
    ]


def test_the_printed_540_bytes_are_the_same_entries_without_identifiers() -> None:
    """62 entries of 8 bytes: what is left are 44, eleven columns of 4."""
    pairs = (668 - 4 * 14 - (4 * 3 + 8 * 13)) // 8
    assert pairs == 62 and 540 - 8 * pairs == 4 * 11


@pytest.mark.parametrize("brokers", [15, 31])
def test_the_worst_header_is_reached_and_none_is_larger(brokers: int) -> None:
    """Everybody has published, and everything is said anew over a session that has just begun."""
    net = Hands(binary(brokers))
    for _ in range(2):
        for name in net.parents:
            net.publish(name)
            net.settle()
    tree = as_tree(binary(brokers))
    one, other = max(
        ((one, to) for one in tree for to in tree[one]), key=lambda link: worst_header_over(tree, 1, *link)
    )
    for name in net.parents:
        net.reconnect(one, other)
        net.settle()
        net.publish(name)
        net.settle()
    assert max(message.paper_bytes for *_, message in net.headers) == worst_header_in(tree, 1)
    assert not net.wrong()


@reaches_into("resprout_lab.locamu.past")
@pytest.mark.parametrize("brokers", [127, 511, 2_047] if SOAKING else [63, 127])
def test_the_largest_header_is_the_same_in_any_network(brokers: int) -> None:
    assert largest_header(brokers) == locamu_header_with_names(1, 3)


def regular(degree: int, depth: int) -> dict[str, list[str]]:
    """Everybody has so many neighbours, as far as the eye reaches."""
    tree: dict[str, list[str]] = {"r": []}
    level = ["r"]
    for _ in range(depth):
        following = []
        for name in level:
            for no in range(degree if name == "r" else degree - 1):
                tree[f"{name}.{no}"] = [name]
                tree[name].append(f"{name}.{no}")
                following.append(f"{name}.{no}")
        level = following
    return tree


def as_tree(parents: dict[str, str | None]) -> dict[str, list[str]]:
    tree: dict[str, list[str]] = {name: [] for name in parents}
    for name, parent in parents.items():
        if parent is not None:
            tree[name].append(parent)
            tree[parent].append(name)
    return tree


# -- runs --------------------------------------------------------------------------------------------------------------


def test_drawn_networks_without_faults_are_clean() -> None:
    for seed in range(1, cases(4, 8)):
        scenario = draw_scenario(seed, stack="locamu", guarantees=LOCAMU.guarantees, options={})
        result = run_scenario(scenario)
        verdict = judge(result.rows, promise=LOCAMU.promise())
        assert not verdict.anomalies, f"seed {seed}: {verdict.anomalies[0]}"
        assert result.ended == "quiescent"


def test_total_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="locamu") as refused:
        LOCAMU.check_guarantee(Guarantee.TOTAL)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("options", [{"f": 0}, {"f": 4}, {"buffer": 0}, {"faults": 1}])
def test_options_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        LOCAMU.parse_options(options)


@pytest.mark.parametrize(
    "identifiers",
    [
        (),
        (("b9", (("b1", 1),)),),
        (("b0", (("b2", 1),)),),
        (("b0", (("b1", 0),)),),
        (("b0", ()),),
        (("b2", (("b1", 1),)), ("b0", (("b1", 1),))),
    ],
)
def test_a_neighbour_whose_identifiers_cannot_be_is_cut_off(identifiers: Changes) -> None:
    net = Hands(chain(3))
    net.step("b1", Received("b0", Carried(Desk("locamu").bundle("x", "t"), 1, identifiers, ())))
    assert [one[:2] for one in net.closed] == [("b1", "b0")]
