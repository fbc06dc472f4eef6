"""Applications with durable subscriptions: acks, retries, errors that stop them, and SIGTERM."""

import asyncio
import signal
import subprocess
import sys
import time
from typing import Any, Final

import pytest

import resprout
from resprout.testing import Broker
from tests.net.stage import run, until
from tests.patience import PATIENCE_S

PROGRAM: Final = """
import asyncio, sys
import resprout

app = resprout.Application(sys.argv[1], name="worker")

@app.subscriber("jobs", durable="jobs")
@app.publisher("done")
async def work(payload: bytes) -> bytes:
    print("began", payload.decode(), flush=True)
    assert app.client is not None
    await app.client.request("go", payload)
    return payload

@app.subscriber("ping")
async def ping(payload: bytes) -> None:
    pass

app.run()
print("ended", flush=True)
"""


class Flaky:
    """A handler that fails so many times."""

    def __init__(self, app: resprout.Application, failures: int, **policy: Any) -> None:
        self.calls: list[bytes] = []

        @app.subscriber("jobs", durable="jobs", **policy)
        @app.publisher("done")
        async def work(payload: bytes) -> bytes:
            self.calls.append(payload)
            if len(self.calls) <= failures:
                raise LookupError(f"failure {len(self.calls)}")
            return payload


def test_sigterm_lets_a_handler_finish_its_message_and_acknowledge_it(resprout_broker: Broker) -> None:
    with resprout_broker.connect("test") as client:
        done, go = client.subscribe("done"), client.serve("go")
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, resprout_broker.address], stdout=pipe, stderr=pipe
        ) as app:
            try:
                deadline = time.monotonic() + PATIENCE_S
                while not _is_served(client, "ping"):  # the last subscription of the application
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                client.publish("jobs", b"1")
                client.publish("jobs", b"2")
                held = go.next(timeout=PATIENCE_S)
                app.send_signal(signal.SIGTERM)
                time.sleep(0.2)  # it must not end: its handler has not
                assert app.poll() is None
                held.reply(b"")
                out, err = app.communicate(timeout=PATIENCE_S)
            finally:
                app.kill()
        assert (app.returncode, out, err) == (0, b"began 1\nended\n", b"")
        assert done.next(timeout=PATIENCE_S).payload == b"1"
        rest = client.subscribe("jobs", durable="jobs")
        message = rest.next(timeout=PATIENCE_S)
        assert message.payload == b"2", "the first was acknowledged, the second left for the next consumer"


def _is_served(client: resprout.sync.Client, topic: str) -> bool:
    try:
        client.request(topic, b"", timeout=PATIENCE_S)
    except resprout.NoRespondersError:
        return False
    return True


def test_a_handler_that_fails_is_tried_again_and_its_message_is_acknowledged_once_it_succeeds() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("test") as client:
            done = await client.subscribe("done")
            app = resprout.Application(network.address, name="worker")
            work = Flaky(app, 2, retries=3, retry_delay=0.01)
            ready = asyncio.Event()
            serving = asyncio.create_task(app.serve(ready))
            await ready.wait()
            await client.publish("jobs", b"1")
            assert (await done.next()).payload == b"1" and work.calls == [b"1"] * 3
            app.stop()
            await serving
            inbox = await client.subscribe("jobs", durable="jobs")
            with pytest.raises(TimeoutError):
                await inbox.next(timeout=0.2)

    run(scene())


def test_a_message_whose_attempts_are_used_up_is_skipped_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("test") as client:
            done = await client.subscribe("done")
            app = resprout.Application(network.address, name="worker")
            work = Flaky(app, 2, retries=1, retry_delay=0.01)
            ready = asyncio.Event()
            serving = asyncio.create_task(app.serve(ready))
            await ready.wait()
            await client.publish("jobs", b"bad")
            await client.publish("jobs", b"good")
            assert (await done.next()).payload == b"good" and work.calls == [b"bad", b"bad", b"good"]
            app.stop()
            await serving

    run(scene())
    lines = [record.getMessage() for record in caplog.records if record.name == "resprout"]
    assert "work failed for a message on jobs, attempt 1 of 2, again in 0.01 s: LookupError: failure 1" in lines
    assert "work could not handle a message on jobs: LookupError: failure 2" in lines


def test_an_error_that_stops_the_application_leaves_the_message_to_the_next_consumer() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("test") as client:
            app = resprout.Application(network.address, name="worker")
            Flaky(app, 1, on_error="stop")
            ready = asyncio.Event()
            serving = asyncio.create_task(app.serve(ready))
            await ready.wait()
            await client.publish("jobs", b"1")
            with pytest.raises(LookupError, match="failure 1"):
                await serving
            inbox = await client.subscribe("jobs", durable="jobs")
            message = await inbox.next(timeout=PATIENCE_S)
            assert (message.payload, message.redelivered) == (b"1", True)

    run(scene())


def test_members_of_a_group_share_the_messages() -> None:
    async def scene() -> None:
        async with resprout.local() as network, network.connect("test") as client:
            got: dict[str, list[bytes]] = {"one": [], "two": []}
            apps = []
            for name, list_of in got.items():
                app = resprout.Application(network.address, name=name)

                @app.subscriber("jobs", group="workers", window=1)
                async def work(payload: bytes, list_of: list[bytes] = list_of) -> None:
                    list_of.append(payload)
                    await asyncio.sleep(0)

                apps.append(app)
            readies = [asyncio.Event() for _ in apps]
            serving = [asyncio.create_task(app.serve(ready)) for app, ready in zip(apps, readies, strict=True)]
            for ready in readies:
                await ready.wait()
            for number in range(20):
                await client.publish("jobs", b"%d" % number)
            await until(lambda: sum(map(len, got.values())) == 20)
            assert sorted(got["one"] + got["two"], key=int) == [b"%d" % n for n in range(20)] and all(got.values())
            for app in apps:
                app.stop()
            await asyncio.gather(*serving)

    run(scene())


@pytest.mark.parametrize(
    "wrong",
    [{"retries": -1}, {"retries": True}, {"retry_delay": -1}, {"retry_delay": None}, {"on_error": "ignore"},
     {"max_pending": 3}, {"window": 3}, {"durable": 5}, {"when_full": "spill"}, {"durable": "a", "group": "b"}],
)  # fmt: skip
def test_a_wrong_policy_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    app = resprout.Application("localhost:1")
    with pytest.raises(resprout.UsageError) as caught:
        app.subscriber("t", **wrong)
    assert next(iter(wrong)) in str(caught.value)


def test_wrong_arguments_of_connect_are_refused_when_the_application_is_made() -> None:
    for wrong in ({"name": 5}, {"timeout": -1}, {"stop_timeout": "x"}, {"epoch": 0}):
        with pytest.raises(resprout.UsageError):
            resprout.Application("localhost:1", **wrong)
