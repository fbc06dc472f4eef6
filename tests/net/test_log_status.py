"""What brokers say about their logs: to `resprout log` and `resprout status`, and to monitors."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

import resprout
from resprout.cli.logs import LogView, log_line, log_views
from resprout.net.http.metrics import BrokerCollector
from resprout.net.survey import Asker, survey
from tests.net.stage import Running, run, until
from tests.net.test_logs import LOG, have, is_fed, publish, replica


async def view_at(broker: Running) -> LogView:
    asker = Asker("operator", "client", None)
    (view,) = log_views(await survey(asker, await asker.account(broker.address)))
    return view


async def when(broker: Running, is_so: Sequence[object] | None = None, **wanted: object) -> LogView:
    """The view of the log when these fields have these values."""
    while True:
        view = await view_at(broker)
        if all(getattr(view, name) == value for name, value in wanted.items()):
            return view


def test_a_log_is_described_from_what_all_brokers_say(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            contextlib.AsyncExitStack() as dies,
        ):
            b2 = await dies.enter_async_context(replica("b2", tmp_path, b0))
            await is_fed(b0, b1, b2)
            async with resprout.connect(str(b1), name="p") as p:
                await have(tmp_path, LOG.replicas, await publish(p, 0, 40))
                await p.commit("ev", "billing", 30)
                view = await when(b1, end=40)
                while any(one.behind for one in view.replicas) or not view.positions:
                    view = await view_at(b1)
                assert (view.filter, view.first, view.unfed, view.notices) == ("ev/#", 0, 0, ())
                assert view.leader in LOG.replicas and view.feeder in LOG.replicas
                assert {(one.broker, one.end) for one in view.replicas} == {(name, 40) for name in LOG.replicas}
                assert [(one.name, one.offset, one.lag) for one in view.positions] == [("billing", 30, 10)]
                assert f"leader {view.leader}  offsets 0 to 39" in log_line(view)
                await until(lambda: lag_in(b0) or lag_in(b1) or lag_in(b2))
                await dies.aclose()
                view = await view_at(b1)
                while not any(one.role in ("no answer", "no replica") for one in view.replicas):
                    view = await view_at(b1)
                assert any("b2" in line for line in view.notices)

    run(scene())


def lag_in(broker: Running) -> bool:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker.broker.books))
    text = generate_latest(registry).decode()
    assert 'resprout_event_log_end_offset{log="ev"} 40.0' in text
    return 'resprout_event_log_lag{log="ev",position="billing"} 10.0' in text


def test_a_log_without_a_majority_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr("resprout.stacks.resprout.log_status.LEADERLESS_SECONDS", 0.5)
        async with replica("b0", tmp_path) as b0:
            async with replica("b1", tmp_path, b0) as b1, replica("b2", tmp_path, b0) as b2:
                await is_fed(b0, b1, b2)
                await when(b0, notices=())
            view = await view_at(b0)
            while not any("no leader that a majority" in line for line in view.notices):
                view = await view_at(b0)
            assert not view.leader
            assert any("no leader" in line for line in b0.broker.books.account().notices)

    run(scene())
