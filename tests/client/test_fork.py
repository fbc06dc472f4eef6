"""A client that was connected before a fork: the child is told at once, and the parent goes on."""

import subprocess
import sys
from typing import Final

import resprout
from resprout.testing import Broker
from tests.patience import PATIENCE_S

BLOCKING: Final = """
import os, sys
import resprout

client = resprout.sync.connect(sys.argv[1], name="preloaded")
inbox = client.subscribe("t")
durable = client.subscribe("t", durable="d", manual_ack=True)
receipt = client.publish("t", b"before")
message = durable.next(timeout=30)
calls = {
    "publish": lambda: client.publish("t", b""), "subscribe": lambda: client.subscribe("u"), "next": inbox.next,
    "next_nowait": inbox.next_nowait, "safe": receipt.safe, "ack": message.ack, "unsubscribe": inbox.unsubscribe,
    "iterate": lambda: next(iter(inbox)), "batches": lambda: next(inbox.batches()),
    "request": lambda: client.request("t", b""), "read": lambda: client.read("t"),
}
child = os.fork()
if not child:
    for name, call in calls.items():
        try:
            call()
        except resprout.ForkedError as error:
            print(name, "Connect in the child" in str(error))
    print(client.state)
    inbox.close()
    client.close()
    sys.exit(0)  # what is registered to run at exit must not wait for the thread of the parent
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert client.state == "connected"
client.publish("t", b"after").safe(timeout=30)
print([inbox.next(timeout=30).payload for _ in range(2)])
client.close()
"""
ASYNCHRONOUS: Final = """
import asyncio, os, sys
import resprout

async def main():
    async with resprout.connect(sys.argv[1], name="a") as client:
        receipt = await client.publish("t", b"before")
        child = os.fork()
        if not child:
            try:
                await client.publish("t", b"")
            except resprout.ClosedError as error:
                print(client.state, error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        await (await client.publish("t", b"after")).safe()
        print(client.state)

asyncio.run(main())
"""


def run_script(script: str, address: str) -> list[str]:
    words = [sys.executable, "-c", script, address]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.splitlines()


def test_a_blocking_client_raises_at_once_in_a_forked_child_and_goes_on_in_the_parent(resprout_broker: Broker) -> None:
    *told, state, got = run_script(BLOCKING, resprout_broker.address)
    assert len(told) == 11 and all(line.endswith(" True") for line in told), told
    assert (state, got) == ("closed", "[b'before', b'after']")


def test_an_asynchronous_client_is_closed_in_a_forked_child_and_goes_on_in_the_parent(resprout_broker: Broker) -> None:
    assert run_script(ASYNCHRONOUS, resprout_broker.address) == [
        "closed the client was connected before a fork and is used in the child: connect again in the child",
        "connected",
    ]


def test_a_forked_client_is_an_error_that_programs_catch_as_a_closed_one() -> None:
    assert issubclass(resprout.ForkedError, resprout.ClosedError)
