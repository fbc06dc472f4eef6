"""A client's application: subscriptions first, then work at its pace."""

import pytest

from resprout.core.guarantee import Guarantee, ReceiptLevel
from resprout.edge.requests import (
    Published,
    PublishRequest,
    ReceiptTurned,
    Refused,
    SubscribeRequest,
    SubscriptionConfirmed,
)
from resprout.scenario.app import App, WakeAt
from resprout.scenario.app_runner import AppMaker
from resprout.scenario.model import BrokerSpec, ClientSpec, RandomOptions, Scenario, SubscriptionSpec, WorkloadSpec
from resprout.scenario.source import ScenarioError
from tests.scenario.perfect import PerfectNetwork


def made(*subscriptions: SubscriptionSpec, window: int = 0, interval_us: int = 1_000, operations: int = 9) -> App:
    workload = WorkloadSpec(
        "random", ("c0",), ("t",), 0, operations, interval_us=interval_us, window=window, options=RandomOptions()
    )
    clients = (ClientSpec("c0", "b0", subscriptions=subscriptions), ClientSpec("idle", "b0"))
    return AppMaker(Scenario("x", (BrokerSpec("b0"),), clients=clients, workloads=(workload,))).make("c0")


def published(wishes: object) -> int:
    assert isinstance(wishes, list | tuple)
    return sum(isinstance(wish, PublishRequest) for wish in wishes)


def test_work_begins_when_the_last_subscription_is_confirmed() -> None:
    app = made(SubscriptionSpec("a"), SubscriptionSpec("a", "x = 1"))
    assert app.start(0) == [SubscribeRequest("a"), SubscribeRequest("a", "x = 1")]
    assert app.told(SubscriptionConfirmed("a", None), 10) == []
    assert app.woke(5_000) == []
    assert not app.done
    (wake,) = app.told(SubscriptionConfirmed("a", "x = 1"), 20)
    assert isinstance(wake, WakeAt)
    assert 20 <= wake.at_us <= 1_020
    assert published(app.woke(wake.at_us)) == 1


def test_a_refused_subscription_is_not_waited_for() -> None:
    app = made(SubscriptionSpec("a"))
    app.start(0)
    assert app.told(Refused(SubscribeRequest("a"), "no", definite=True), 10) != []


def test_a_client_without_subscriptions_begins_at_once() -> None:
    assert isinstance(made().start(7)[-1], WakeAt)


def test_a_client_without_work_is_done_when_it_is_subscribed() -> None:
    scenario = Scenario("x", (BrokerSpec("b0"),), clients=(ClientSpec("c0", "b0", 1, (SubscriptionSpec("a"),)),))
    app = AppMaker(scenario).make("c0")
    app.start(0)
    assert not app.done
    app.told(SubscriptionConfirmed("a", None), 10)
    assert app.done


def test_there_is_no_application_for_a_stranger() -> None:
    with pytest.raises(ScenarioError, match="there is no client 'c9'"):
        AppMaker(Scenario("x", (BrokerSpec("b0"),))).make("c9")


def test_being_woken_too_early_or_too_often_does_nothing() -> None:
    app = made()
    (wake,) = app.start(0)
    assert isinstance(wake, WakeAt)
    if wake.at_us:
        assert app.woke(wake.at_us - 1) == []
    assert published(app.woke(wake.at_us)) >= 1
    assert app.woke(wake.at_us) == []


def test_another_life_makes_other_choices() -> None:
    spec = WorkloadSpec("random", ("c0",), ("t",), operations=5, interval_us=0, options=RandomOptions())
    scenario = Scenario("x", (BrokerSpec("b0"),), clients=(ClientSpec("c0", "b0"),), workloads=(spec,))
    lives = [list(AppMaker(scenario).make("c0", life).start(0)) for life in (0, 0, 1)]
    assert lives[0] == lives[1] != lives[2]


def test_a_window_holds_the_client_back_until_its_publications_are_safe() -> None:
    app = made(window=3, interval_us=0)
    assert published(app.start(0)) == 3
    for seq in range(3):
        assert app.told(Published("ordered", seq), 1) == []
    assert app.told(ReceiptTurned("ordered", ReceiptLevel.ACCEPTED, 0, 2), 2) == []
    assert published(app.told(ReceiptTurned("ordered", ReceiptLevel.SAFE, 0, 1), 3)) == 2
    assert published(app.told(ReceiptTurned("ordered", ReceiptLevel.SAFE, 0, 1), 4)) == 0, "told twice"
    assert published(app.told(ReceiptTurned("ordered", ReceiptLevel.DELIVERED, 2, 2), 5)) == 1, "more than safe"


def test_a_refused_publication_does_not_fill_the_window_for_ever() -> None:
    app = made(window=2, interval_us=0)
    assert published(app.start(0)) == 2
    request = PublishRequest("t", b"", Guarantee.CAUSAL)
    assert published(app.told(Refused(request, "not now", definite=True), 1)) == 1
    app.told(Published("ordered", 0), 2)
    app.told(Published("ordered", 1), 2)
    assert published(app.told(Refused(None, "lost", definite=True, stream="ordered", first=0, last=1), 3)) == 2


def test_two_workloads_of_one_client_run_side_by_side() -> None:
    specs = tuple(
        WorkloadSpec("random", ("c0",), (topic,), operations=n, interval_us=pause_us, options=RandomOptions())
        for topic, n, pause_us in (("t", 10, 1_000), ("u", 5, 7_000))
    )
    clients = (ClientSpec("c0", "b0", subscriptions=(SubscriptionSpec("#"),)),)
    network = PerfectNetwork(Scenario("x", (BrokerSpec("b0"),), clients=clients, workloads=specs))
    network.run()
    assert network.apps["c0"].done
    topics = [request.topic for _, request in network.published()]
    assert (topics.count("t"), topics.count("u")) == (10, 5)
