"""The MQTT broker of amqtt: `python -m benchmarks.net.servers.amqtt_broker PORT`."""

import asyncio
import logging
import sys

from amqtt.broker import Broker  # type: ignore[import-not-found]

from benchmarks.net.servers.life import end_with_stdin
from resprout.cli.loop import run_loop


async def serve(port: str) -> None:
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    )
    await broker.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    end_with_stdin()
    run_loop(serve(sys.argv[1]))
