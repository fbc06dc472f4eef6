"""The figures of chapter 3 of the thesis on LoCaMu as scenes: false suspicions, broken links and retransmission."""

from resprout.core.contract import Heard, Received
from resprout_lab.locamu.messages import Carried
from resprout_lab.locamu.past import is_safe, read_path
from tests.edge.desk import Desk
from tests.stacks.locamu_net import Hands, chain


def carried(net: Hands, one: str, other: str) -> list[Carried]:
    """The copies that one of them has sent to the other."""
    return [message for sender, target, message in net.headers if (sender, target) == (one, other)]


def test_figure_3_6_copies_on_two_paths_are_one_message_and_their_identifiers_are_merged() -> None:
    """*i* suspects *j* falsely after it has sent *m* there: copies come to *l* by way of *j* and of *k*."""
    net = Hands(chain(5))
    net.publish("b0")  # on its way to b1
    net.suspect("b0", "b1")
    net.settle(("b0", "b1"), ("b1", "b2"))
    assert carried(net, "b0", "b2"), "around j"
    net.step("b0", Heard("b1"))
    net.settle()
    assert not net.wrong()
    merged = [dict(message.identifiers) for message in carried(net, "b2", "b3")]
    assert any(one.get("b1") for one in merged), "the copy of k carries the numbers of j, too"


def test_figure_3_7_a_path_with_two_bypassed_of_three_is_not_taken() -> None:
    """*i* bypasses *j*, and *k* suspects *l*: *m* does not go from *k* to the node behind *l* until *j* has it."""
    net = Hands(chain(6))
    net.break_link("b0", "b1")
    net.settle()
    net.suspect("b2", "b3")
    net.publish("b0")
    net.settle(("b1", "b2"), ("b2", "b1"))
    bypassing = [read_path(message.identifiers) for message in carried(net, "b2", "b4")]
    assert all(is_safe(path, 1) for path in bypassing) and not bypassing
    net.settle()
    assert not net.wrong(), "j has it from k, and fills the gap"


def test_figure_3_9_what_is_not_numbered_for_a_node_is_not_sent_to_it_in_the_place_of_another() -> None:
    net = Hands(chain(4))
    net.break_link("b0", "b1")
    net.settle()
    net.headers.clear()
    only = Carried(Desk("locamu").bundle("x", "t"), 1, (("b0", (("b2", 1),)), ("b1", ())), ())
    net.step("b2", Received("b0", only))
    net.settle(("b0", "b1"), ("b1", "b0"))
    assert not carried(net, "b2", "b1"), "the vector of A names only D"


def test_figure_3_10_a_what_was_sent_on_a_broken_link_is_retransmitted_around_it() -> None:
    net = Hands(chain(6), f=2)
    net.publish("b0")
    net.break_link("b0", "b1", "b2")
    net.settle(("b0", "b1"), ("b1", "b0"), ("b0", "b2"), ("b2", "b0"))
    assert carried(net, "b0", "b3") and not net.wrong()


def test_figure_3_10_b_who_gets_it_around_others_sends_it_to_them_in_the_place_of_its_sender() -> None:
    net = Hands(chain(6), f=2)
    net.break_link("b0", "b1", "b2")
    net.settle(("b0", "b1"), ("b1", "b0"), ("b0", "b2"), ("b2", "b0"))
    net.publish("b0")
    net.settle(("b0", "b1"), ("b1", "b0"), ("b0", "b2"), ("b2", "b0"))
    back = [read_path(message.identifiers) for message in (*carried(net, "b3", "b2"), *carried(net, "b2", "b1"))]
    assert any("b3" not in path and path["b0"] for path in back), "with the metadata of A alone"
    assert not net.wrong()


def test_figure_3_10_c_after_one_path_a_message_is_retransmitted_to_another() -> None:
    """*m* takes the path A, C, E; C hears D again and sends it there as A would have."""
    net = Hands(chain(6), f=2)
    net.suspect("b0", "b1")
    net.suspect("b2", "b3")
    net.publish("b0")
    net.carry_all("b0", "b2")
    net.carry_all("b2", "b4")
    net.step("b2", Heard("b3"))
    net.step("b0", Heard("b1"))
    net.settle()
    assert not net.wrong()


def test_figure_3_8_four_faults_that_leave_every_path_safe_stop_nobody() -> None:
    arms = {"b0": None, **{f"b{no}": "b0" for no in range(1, 5)}, **{f"b{no + 4}": f"b{no}" for no in range(1, 5)}}
    arms |= {f"b{no + 8}": f"b{no + 4}" for no in range(1, 5)}
    net = Hands(arms)
    for name in ("b5", "b6", "b7", "b8"):
        net.kill(name)
    net.settle()
    for name in ("b9", "b0", "b12"):
        net.publish(name)
        net.settle()
    assert not net.wrong()
