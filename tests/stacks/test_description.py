"""What a stack says of itself, and who goes by it."""

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

import msgspec
import pytest

from resprout.core.bundle import Bundle
from resprout.core.errors import UsageError
from resprout.core.guarantee import Guarantee, OrderScope, Promises, ReceiptLevel, Reliability
from resprout.scenario.load import parse_scenario
from resprout.scenario.model import BrokerSpec, FaultKind
from resprout.scenario.source import ScenarioError
from resprout.scenario.write import run_info
from resprout.sim.run import FaultModel, RunResult, survival_of
from resprout.sim.swarm import complaint_about, swarm_trial
from resprout.stacks.resprout import RESPROUT, ResproutOptions
from resprout.stacks.stack import REPLACED, Stack, Survival, WaitTimes, all_stacks, everything
from resprout.trace.store import Recorder
from resprout_lab.ginger import GINGER
from tests.soak import cases

MODEST: Stack[ResproutOptions] = msgspec.structs.replace(
    RESPROUT,
    name="modest",
    offers=lambda options: RESPROUT.guarantees if options.faults_tolerated else (Guarantee.EVENTUAL,),
    order=OrderScope.EACH_TOPIC,
    reliability=Reliability.PROBABLE,
    receipts=(ReceiptLevel.ACCEPTED,),
    survives=lambda options: Survival(faults=1),
)
NETWORK = """
stack = "modest"
[[broker]]
name = "b0"
[[client]]
name = "c0"
broker = "b0"
subscribe = ["a"]
[[workload]]
kind = "random"
topics = ["a"]
"""


@pytest.fixture(autouse=True)
def modest() -> Iterator[None]:
    with mock.patch.dict(REPLACED, {"modest": MODEST}):
        yield


def test_guarantees_are_those_of_the_options() -> None:
    bare = MODEST.parse_options({"faults_tolerated": 0})
    assert MODEST.offered(bare) == (Guarantee.EVENTUAL,)
    assert MODEST.offered(MODEST.parse_options({})) == MODEST.guarantees
    MODEST.check_guarantee(Guarantee.TOTAL)
    with pytest.raises(UsageError, match=r"^the stack 'modest' does not offer 'total'; it offers eventual$"):
        MODEST.check_guarantee(Guarantee.TOTAL, bare)


def test_a_scenario_is_refused_what_its_stack_does_not_offer_with_its_options() -> None:
    parse_scenario(NETWORK)
    with pytest.raises(ScenarioError, match="the stack does not offer 'causal'; it offers eventual"):
        parse_scenario(NETWORK, overrides=["options.faults_tolerated=0"])


def test_a_window_needs_a_receipt_that_the_stack_gives() -> None:
    with pytest.raises(ScenarioError, match="does not give the receipt 'safe', which a window waits for"):
        parse_scenario(f"{NETWORK}window = 3\n")


def test_a_run_records_what_its_stack_promises() -> None:
    info = run_info(parse_scenario(NETWORK), "quiescent")
    assert info.promise == Promises(OrderScope.EACH_TOPIC, Reliability.PROBABLE, ("accepted",))
    assert msgspec.json.decode(msgspec.json.encode(info), type=type(info)) == info
    assert RESPROUT.promise() == Promises()


def test_options_that_are_waits_are_named_by_the_stack() -> None:
    assert RESPROUT.waits(ResproutOptions(lease_us=4_000, ghost_us=7)) == WaitTimes(death_us=4_000, return_us=7)
    assert GINGER.waits(GINGER.parse_options({"timer_us": 5_000})).death_us == 5_000


@pytest.mark.parametrize("durable", [False, True])
def test_a_stack_says_whether_its_brokers_need_a_disk(durable: bool) -> None:
    assert RESPROUT.keeps_records(ResproutOptions(durable=durable)) == durable


# -- what it survives -------------------------------------------------------------------------------------------------


def test_the_default_stack_survives_f_on_a_path_of_2_f_plus_1() -> None:
    assert RESPROUT.survives(ResproutOptions(faults_tolerated=2)) == everything(2)
    assert everything(2).span == 5


def test_without_a_span_only_so_many_of_the_whole_network_may_fall() -> None:
    brokers = [BrokerSpec("b0"), *(BrokerSpec(f"b{i}", f"b{i - 1}") for i in range(1, 9))]
    far_apart = ["b0", "b8"]
    assert FaultModel(brokers, everything(1)).bears_crashes(far_apart)
    assert not FaultModel(brokers, Survival(faults=1)).bears(far_apart)
    for seed in range(60):
        assert len(FaultModel(brokers, Survival(faults=2)).draw_victims(Random(seed))) <= 2


def test_a_swarm_does_to_a_stack_only_what_it_survives() -> None:
    kinds: set[Any] = set()
    for seed in range(1, cases(9, 21)):
        trial = swarm_trial(seed, stack="modest")
        brokers = {broker.name for broker in trial.scenario.brokers}
        for strike in trial.at_events:
            assert strike.fault.kind is FaultKind.CRASH and not strike.fault.host
            kinds.add(strike.fault.kind)
        assert not any(fault.kind in (FaultKind.JOIN, FaultKind.LEAVE) for fault in trial.timed.faults
                       if brokers & set(fault.nodes))  # fmt: skip
        crashed = [strike.fault.nodes for strike in trial.at_events]
        assert len(crashed) <= 1, "and one at a time"
        back = [fault for fault in trial.timed.faults if fault.kind is FaultKind.RECOVER and brokers & set(fault.nodes)]
        assert back == [], "it says nothing about brokers that return"
    assert kinds == {FaultKind.CRASH}


def test_a_swarm_strikes_a_stack_that_survives_nothing_with_nothing() -> None:
    with mock.patch.dict(REPLACED, {"modest": msgspec.structs.replace(MODEST, survives=lambda _: Survival())}):
        assert all(swarm_trial(seed, stack="modest").at_events == () for seed in range(1, 13))


def test_only_the_default_stack_has_other_classes_than_faults() -> None:
    with pytest.raises(
        UsageError, match="there is no class 'totals' for the stack 'modest'; there is any, faults, groups"
    ):
        swarm_trial(1, "totals", "modest")


@pytest.mark.parametrize("seed", range(3, cases(5, 9)))  # `test_drawn` has the first two
def test_ginger_is_tried_by_what_it_survives(seed: int) -> None:
    trial = swarm_trial(seed, stack="ginger")  # once: its rehearsals take longer than the run
    assert complaint_about(trial.scenario, trial.run()) == ""
    assert survival_of(trial.scenario).faults == 1


def test_what_a_stack_says_that_it_breaks_is_no_complaint() -> None:
    trial = next(t for t in (swarm_trial(seed, stack="ginger") for seed in range(1, 40)) if not t.timed.faults)
    result = trial.run()
    last = max(number for number, row in enumerate(result.rows) if row.kind == "deliver")
    recorder = msgspec.structs.replace(result, recorder=_without(result, last))
    assert "never delivered" in complaint_about(trial.scenario, recorder)
    blunt = msgspec.structs.replace(
        GINGER, known_anomalies=dict.fromkeys(("lost", "causal", "receipt", "position", "barrier"), "")
    )
    with mock.patch.dict(REPLACED, {"ginger": blunt}):
        assert complaint_about(trial.scenario, recorder) == ""


def _without(result: RunResult, place: int) -> Recorder:
    recorder = Recorder()
    for number, row in enumerate(result.rows):
        if number != place:
            recorder.record(row)
    return recorder


class _Nothing(int):
    """For any field of a message: no number, no entries, and whatever is asked of it takes no room."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __getattr__(self, name: str) -> int:
        return 0


@pytest.mark.parametrize("stack", all_stacks().values(), ids=all_stacks())
def test_whatever_carries_a_bundle_says_how_much_of_a_frame_that_takes(stack: Stack[Any]) -> None:
    """Otherwise as many of them share a frame as there are, and it is too large to be sent."""
    keys = tuple(f"k{no}" for no in range(50))
    bundle = Bundle("c", 1, 1, 1, 1, "t", keys, Guarantee.TOTAL, b"", bytes(5_000))
    carrying = [kind for kind in stack.messages if "bundle" in kind.__struct_fields__]
    assert carrying
    for kind in carrying:
        message: Any = kind(*(bundle if field == "bundle" else _Nothing() for field in kind.__struct_fields__))
        assert message.cost + message.bulk >= bundle.cost + bundle.key_bytes, kind
