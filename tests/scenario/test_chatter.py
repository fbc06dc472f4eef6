"""Chatter: conversations go as deep as they may, and always end."""

from resprout.core.guarantee import Guarantee
from resprout.core.message import Message
from resprout.edge.requests import PublishRequest
from resprout.scenario.app import WakeAt
from resprout.scenario.model import (
    BrokerSpec,
    ChatterOptions,
    ClientSpec,
    Scenario,
    SubscriptionSpec,
    WorkloadSpec,
    random_for,
)
from resprout.scenario.workloads import ChatterApp
from tests.scenario.perfect import PerfectNetwork

TOPICS = ("a", "b", "c")


def talk(options: ChatterOptions, clients: int = 3, operations: int = 5) -> PerfectNetwork:
    names = tuple(f"c{i}" for i in range(clients))
    workload = WorkloadSpec("chatter", names, TOPICS, 3, operations, interval_us=20_000, options=options)
    specs = tuple(ClientSpec(name, "b0", subscriptions=(SubscriptionSpec("+"),)) for name in names)
    network = PerfectNetwork(Scenario("talk", (BrokerSpec("b0"),), clients=specs, workloads=(workload,)))
    network.run()
    assert all(app.done for app in network.apps.values())
    return network


def heard(depth: object, publisher: str = "other", chain: object = "other-1") -> Message:
    attributes = {"depth": depth, "chain": chain}
    return Message(publisher, 1, 0, "a", (), Guarantee.CAUSAL, attributes, b"", 0)  # type: ignore[arg-type]


def chatter(options: ChatterOptions, operations: int = 100) -> ChatterApp:
    spec = WorkloadSpec("chatter", ("me",), TOPICS, operations=operations, options=options)
    return ChatterApp(spec, options, random_for("chatter"), "me")


def test_conversations_reach_their_full_depth_across_topics_and_clients() -> None:
    network = talk(ChatterOptions(depth=6, answer=1.0), clients=2)
    chains: dict[object, list[tuple[str, PublishRequest]]] = {}
    for _, name, wish in network.wishes:
        if isinstance(wish, PublishRequest):
            chains.setdefault(wish.attributes["chain"], []).append((name, wish))
    assert len(chains) == 10
    for rows in chains.values():
        assert [row.attributes["depth"] for _, row in rows] == [6, 5, 4, 3, 2, 1, 0]
        assert [name for name, _ in rows[1:]] != [name for name, _ in rows[:-1]], "they take turns"
    assert any(len({row.topic for _, row in rows}) == 3 for rows in chains.values())


def test_without_depth_or_chance_nobody_answers() -> None:
    assert len(talk(ChatterOptions(depth=0, answer=1.0)).published()) == 15
    assert len(talk(ChatterOptions(depth=9, answer=0.0)).published()) == 15


def test_a_conversation_that_explodes_is_bounded_by_the_number_of_answers() -> None:
    network = talk(ChatterOptions(depth=50, answer=1.0, answers_max=40), clients=6)
    assert len(network.published()) == 6 * (5 + 40)


def test_nobody_answers_itself_or_what_is_no_chatter() -> None:
    app = chatter(ChatterOptions(answer=1.0))
    assert app.delivered(heard(3, publisher="me"), 0) == []
    assert app.delivered(heard(0), 0) == []
    assert app.delivered(heard(-1), 0) == []
    assert app.delivered(heard("3"), 0) == []
    assert app.delivered(heard(3, chain=7), 0) == []
    (answer,) = app.delivered(heard(3), 0)
    assert isinstance(answer, PublishRequest)
    assert answer.attributes == {"depth": 2, "chain": "other-1"}


def test_an_answer_that_is_being_thought_about_is_made_in_time_and_awaited() -> None:
    app = chatter(ChatterOptions(answer=1.0, think_max_us=1_000_000), operations=0)
    (wake,) = app.delivered(heard(3), 5)
    assert isinstance(wake, WakeAt)
    assert not app.done
    assert app.woke(wake.at_us - 1) == []
    (answer,) = app.woke(wake.at_us)
    assert isinstance(answer, PublishRequest)
    assert app.done
