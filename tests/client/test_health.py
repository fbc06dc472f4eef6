"""The state of the connection, and the health check of docs/client.md, while a real broker is killed and comes back."""

import asyncio
import logging
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import resprout
from resprout import ConnectionState, sync
from resprout.edge.client.options import ClientOptions
from tests.cli.processes import announced, running
from tests.net.stage import run, until

DOCUMENT = Path(__file__).parents[2] / "docs" / "client.md"


def documented_health() -> Any:
    """The class of the document, executed as it stands there."""
    section = DOCUMENT.read_text().partition("\n## Connection state\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(code, str(DOCUMENT), "exec"), namespace)
    return namespace["Health"]


def broker_at(listen: str) -> Any:
    return running("broker", "--name", "b0", "--listen", listen, "--json")


def test_the_health_check_of_the_document_sees_a_killed_broker_and_its_return(caplog: pytest.LogCaptureFixture) -> None:
    health, patient = documented_health()(grace_s=0.0), documented_health()(grace_s=3600.0)
    events: list[object] = []

    def on_event(event: object) -> None:
        events.append(event)
        health.on_event(event)
        patient.on_event(event)

    async def scene() -> None:
        states: list[ConnectionState] = []
        with broker_at("127.0.0.1:0") as first:
            address = str(announced(first)["address"])
            connecting = resprout.connect(address, name="web-1", on_event=on_event)
            states.append(connecting.state)
            client = await connecting
            await until(health.is_healthy)
            states.append(client.state)
            first.end(signal.SIGKILL)
            await until(lambda: not health.is_healthy())
            states.append(client.state)
            assert patient.is_healthy(), "it has not been away for an hour"
        with broker_at(address) as again:
            announced(again)
            await until(health.is_healthy)
            states.append(client.state)
            await (await client.publish("t", b"x")).accepted()
            await client.close()
            states.append(client.state)
        assert [str(state) for state in states] == ["connecting", "connected", "reconnecting", "connected", "closed"]

    with caplog.at_level(logging.INFO, "resprout"):
        run(scene())
    kinds = [type(event).__name__ for event in events]
    assert kinds[:3] == ["Connected", "Disconnected", "Reconnected"], events
    assert any(
        record.name == "resprout" and "web-1: disconnected from b0" in record.message for record in caplog.records
    )


def test_the_blocking_client_tells_its_state_too() -> None:
    with broker_at("127.0.0.1:0") as process:
        events: list[object] = []
        client = sync.connect(announced(process)["address"], name="c", on_event=events.append)
        assert str(client.state) == "connected" and client.broker == "b0"
        process.end(signal.SIGKILL)
        asyncio.run(until(lambda: client.state is ConnectionState.RECONNECTING))
        with pytest.raises(resprout.TimedOutError, match=r"it was not safe within 0.05 s"):
            client.publish("t", b"").safe(timeout=0.05)
        client.close(timeout=0.1)
        assert str(client.state) == "closed"


def test_a_publication_that_there_is_no_room_for_times_out_and_is_not_published() -> None:
    with broker_at("127.0.0.1:0") as process:
        client = sync.connect(announced(process)["address"], name="c", options=ClientOptions(queue_bytes_high=10_000))
        process.end(signal.SIGKILL)
        published = 0
        with pytest.raises(resprout.TimedOutError, match=r"this one was not published, within 0\.05 s"):
            for _ in range(1000):
                published = client.publish("t", bytes(1000), timeout=0.05).seq
        assert 0 < published < 1000, "it published until there was no more room"
        with pytest.raises(resprout.TimedOutError, match="not published"):
            client.publish_bundle("t", [b""], timeout=0.05)
        client.close(timeout=0.05)


def test_a_session_that_is_over_for_good_is_told_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        events: list[object] = []
        async with (
            resprout.local() as network,
            network.connect("c", on_event=events.append) as older,
            network.connect("c") as newer,
        ):
            await until(lambda: older.state is ConnectionState.CLOSED)
            assert newer.state is ConnectionState.CONNECTED
            await until(lambda: len(events) > 1)
        last = events[-1]
        assert isinstance(last, resprout.Disconnected) and last.is_final and "another client took" in last.reason

    run(scene())
    assert [r.levelname for r in caplog.records if "disconnected from b0" in r.message] == ["WARNING"]
