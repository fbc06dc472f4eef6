"""A Zenoh router: `python -m benchmarks.net.servers.zenoh_router PORT [PARENT_PORT]`."""

import json
import sys
import threading

import zenoh  # type: ignore[import-not-found]

from benchmarks.net.servers.life import end_with_stdin


def main(port: str, parent: str | None = None) -> None:
    end_with_stdin()
    config = zenoh.Config()
    config.insert_json5("mode", '"router"')
    config.insert_json5("listen/endpoints", json.dumps([f"tcp/127.0.0.1:{port}"]))
    config.insert_json5("scouting/multicast/enabled", "false")
    if parent is not None:
        config.insert_json5("connect/endpoints", json.dumps([f"tcp/127.0.0.1:{parent}"]))
    with zenoh.open(config):
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
