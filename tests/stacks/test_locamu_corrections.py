"""Where the thesis on LoCaMu fails, and what is done instead: each entry of the list of corrections, L1 to L7, as a run
that is clean, and that is not when the correction is switched off."""

from collections.abc import Callable

import pytest

from resprout.core.contract import LinkUp, Received
from resprout.scenario.load import parse_scenario
from resprout.sim.run import FaultModel, run_scenario
from resprout.stacks.stack import Survival
from resprout_lab.blocks.causal_order import Changes
from resprout_lab.locamu import LOCAMU, algorithm
from resprout_lab.locamu.algorithm import Algorithm, Copy
from resprout_lab.locamu.broker import LocamuBroker, LocamuOptions
from resprout_lab.locamu.copies import SentMessage
from resprout_lab.locamu.messages import Carried, MissingRequest, PrefixesSkipped, ProcessedCounts
from resprout_lab.locamu.past import CountedPath, Past, each
from resprout_lab.locamu.reports import StabilityReports
from tests.edge.desk import Desk
from tests.stacks.locamu_net import ROOM, Chance, Hands, Key, chain

Patch = pytest.MonkeyPatch
Off = Callable[[Patch], None]


def both_ways(run: Callable[[], object], off: Off, monkeypatch: Patch) -> None:
    """Clean with the correction, and not without it."""
    assert not run()
    off(monkeypatch)
    assert run()


# -- L1: every message is a repeat -------------------------------------------------------------------------------------


def calm() -> list[str]:
    net = Hands(chain(4))
    for name in ("b0", "b3", "b1", "b0"):
        net.publish(name)
        net.settle()
    return net.wrong()


def test_l1_a_repeat_is_found_before_the_identifiers_are_added(monkeypatch: Patch) -> None:
    knows_any = Past.knows_any

    def adds_first(past: Past, path: CountedPath) -> bool:
        past.add(each(path))
        return knows_any(past, path)

    both_ways(calm, lambda patch: patch.setattr(Past, "knows_any", adds_first), monkeypatch)


# -- L2: a message waits for itself ------------------------------------------------------------------------------------


def test_l2_a_message_does_not_depend_on_its_own_number(monkeypatch: Patch) -> None:
    entries = Algorithm.entries_for

    def and_itself(self: Algorithm, copy: SentMessage, name: str) -> list[tuple[tuple[str, str], int]]:
        own = [((self._near.name, target), number) for target, number in copy.numbers.items()]
        return entries(self, copy, name) + own

    both_ways(calm, lambda patch: patch.setattr(Algorithm, "entries_for", and_itself), monkeypatch)


# -- L3: what may be processed, and which paths are safe ---------------------------------------------------------------


def by_chance() -> list[str]:
    for seed in range(10, 20):
        net = Chance(seed, 7, 1)
        net.run(40)
        if found := net.wrong():
            return found
    return []


def test_l3_what_comes_too_early_waits_for_the_numbers_to_this_broker(monkeypatch: Patch) -> None:
    def never(self: Algorithm, copy: Copy) -> None:
        return None

    both_ways(by_chance, lambda patch: patch.setattr(Algorithm, "_missing", never), monkeypatch)


def over_one_and_then_over_another() -> list[str]:
    """The second broker is dead, then the fourth, then the third; never two of them at once."""
    net = Hands(chain(5))
    net.kill("b1")
    net.settle()
    net.publish("b0")
    net.carry_all("b0", "b2")
    net.start("b1")
    net.kill("b3")
    for way in (("b2", "b4"), ("b4", "b2"), ("b2", "b4")):
        net.carry_all(*way)  # over the third, from a broker to which it came over the second
    net.kill("b2")
    net.start("b3")
    net.settle()
    return net.wrong()


def test_l3_a_path_on_which_too_many_were_passed_over_is_not_taken(monkeypatch: Patch) -> None:
    def always(path: CountedPath, faults: int) -> bool:
        return True

    both_ways(over_one_and_then_over_another, lambda patch: patch.setattr(algorithm, "is_safe", always), monkeypatch)


# -- L4: what is on its way is called a repeat -------------------------------------------------------------------------


def a_token_before_its_turn() -> list[Key]:
    """What is at the reader in the end, that should be and is not."""
    net = Hands({"b0": None, "b1": "b0", "b2": "b0"})
    bundles = Desk("locamu")
    net.step("b2", LinkUp("b1", "broker", 1, ROOM))
    ahead = carried(bundles, "x", (("b0", (("b1", 1), ("b2", 1))),), (("b1", (("b2", 1),)),))
    late = carried(bundles, "y", (("b1", (("b0", 1), ("b2", 1))), ("b0", ())), ())
    net.step("b2", Received("b0", ahead))  # it depends on what has not come
    net.step("b2", Received("b0", PrefixesSkipped(1, (("b0", (("b1", 1),)),))))
    net.step("b2", Received("b1", late))
    assert not net.closed
    return [key for key in (("x", 1), ("y", 1)) if key not in net.read["b2"]]


def carried(bundles: Desk, publisher: str, identifiers: Changes, dependencies: Changes) -> Carried:
    return Carried(bundles.bundle(publisher, "t"), 1, identifiers, dependencies)


def test_l4_identifiers_are_skipped_only_behind_what_was_sent_before(monkeypatch: Patch) -> None:
    def at_once(self: StabilityReports, name: str) -> None:
        for token in self._tokens.pop(name, []):
            for sender, targets in token.prefixes:
                for target, upto in targets:
                    self._state.past.skip(sender, target, upto)

    both_ways(
        a_token_before_its_turn, lambda patch: patch.setattr(StabilityReports, "take_tokens", at_once), monkeypatch
    )


def test_l4_only_from_the_side_of_its_source_a_prefix_is_believed() -> None:
    net = Hands(chain(3))
    net.step("b1", Received("b0", PrefixesSkipped(0, (("b2", (("b0", 5),)),))))
    assert net.closed == [("b1", "b0", "b0 cannot know how far the numbers of others have come")]


def test_l4_in_the_long_run_no_gaps_are_left() -> None:
    net = Hands({"b0": None, "b1": "b0", "b2": "b0", "b3": "b1"})
    for _ in range(20):
        for name in net.parents:
            net.publish(name)
        net.settle()
    gaps = [ranges.gaps for machine in net.machines.values() for ranges in machine.algorithm.past.received.values()]
    assert sum(gaps) == 0 and not any(len(machine.algorithm.sent) for machine in net.machines.values())


# -- L5: faults are bounded per path -----------------------------------------------------------------------------------

FORK = {
    "b0": None, "b1": "b0", "b2": "b0", "b3": "b0", "b4": "b1", "b5": "b2", "b6": "b3",
    "b7": "b4", "b8": "b5", "b9": "b6",
}  # fmt: skip
"""Three arms of three."""


def three_around_one() -> list[str]:
    """In the neighbourhood of the root three are down, on no path of three more than one."""
    net = Hands(FORK)
    for name in ("b4", "b5", "b6"):
        net.kill(name)
    for name in ("b7", "b0", "b8", "b9"):
        net.publish(name)
    net.settle()
    return net.wrong()


def test_l5_messages_pass_while_no_path_of_2f_plus_1_has_more_than_f_dead(monkeypatch: Patch) -> None:
    flow = Algorithm.transmit

    def bounded_per_neighbourhood(one: Algorithm, name: str) -> None:
        if sum(map(one._tree.is_dead, one._near.reach)) <= one._near.faults:
            flow(one, name)

    both_ways(
        three_around_one, lambda patch: patch.setattr(Algorithm, "transmit", bounded_per_neighbourhood), monkeypatch
    )


def test_l5_the_swarm_draws_as_many_dead_as_no_path_of_2f_plus_1_has_more_than_f() -> None:
    arms = "".join(f'[[broker]]\nname="{one}"\n' + (f'parent="{up}"\n' if up else "") for one, up in FORK.items())
    scenario = parse_scenario(f'stack="locamu"\n{arms}')
    survival = LOCAMU.survives(LocamuOptions())
    model = FaultModel(scenario.brokers, survival)
    assert model.bears(["b4", "b5", "b6"]) and not model.bears(["b1", "b4"]) and not model.bears(["b1", "b2"])
    whole = FaultModel(scenario.brokers, Survival(survival.faults))
    assert not whole.bears(["b4", "b5", "b6"]), "a bound for all together would forbid what is borne"


# -- L6: what only a dead broker knows ---------------------------------------------------------------------------------


def one_that_never_returns() -> list[str]:
    """It had passed on one message to one side, and another one, which follows it, to the other side only."""
    net = Hands(chain(3))
    net.publish("b0")
    net.carry_all("b0", "b1")
    net.publish("b1")
    net.carry_all("b1", "b0")
    net.kill("b1")
    net.settle()
    net.publish("b0")
    net.settle()
    return net.wrong()


def test_l6_nobody_waits_for_what_died_with_a_broker(monkeypatch: Patch) -> None:
    sent = Past.sent

    def into_all(past: Past, numbers: dict[str, int], named: dict[str, dict[str, int]]) -> None:
        sent(past, numbers, {f"b{no}": numbers for no in range(10)})

    both_ways(one_that_never_returns, lambda patch: patch.setattr(Past, "sent", into_all), monkeypatch)


def shown_too_early() -> list[Key]:
    """What readers had seen of a publication that died with its broker."""
    net = Hands(chain(3))
    net.publish("b1")
    return net.read["b1"]


def test_l6_a_message_is_shown_when_f_plus_1_brokers_have_it(monkeypatch: Patch) -> None:
    def at_once(patch: Patch) -> None:
        patch.setattr(LocamuBroker, "_is_safe", lambda self, copy: True)

    both_ways(shown_too_early, at_once, monkeypatch)


# -- L7: the exchange of R costs nothing -------------------------------------------------------------------------------

COUNTED = """
stack = "locamu"
seed = 2
time_limit = "30s"
count_bytes = true
[[broker]]
name = "b0"
[[broker]]
name = "b1"
parent = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["t"]
[[client]]
name = "c1"
broker = "b1"
subscribe = ["t"]
[[workload]]
kind = "random"
clients = ["c0"]
topics = ["t"]
operations = 20
mix = { causal = 1.0 }
"""


def test_l7_what_is_said_of_r_is_charged_like_a_header(monkeypatch: Patch) -> None:
    assert PrefixesSkipped(7, (("b0", (("b1", 3), ("b2", 4))),)).paper_bytes == 4 + 4 + 2 * 8
    assert ProcessedCounts((("b0", (("b1", 3),)),)).paper_bytes == 4 + 8
    assert MissingRequest((("b0", 3), ("b2", 1))).paper_bytes == 2 * 8
    charged = paper_bytes()
    for kind in (PrefixesSkipped, ProcessedCounts, MissingRequest):
        monkeypatch.setattr(kind, "paper_bytes", None)
    assert paper_bytes() < charged, "as the thesis counts"


def paper_bytes() -> int:
    rows = run_scenario(parse_scenario(COUNTED)).rows
    return sum(int((row.attributes or {}).get("paper_bytes", 0)) for row in rows if row.kind == "load")
