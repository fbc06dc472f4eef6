"""A forwarder of ZeroMQ: `python -m benchmarks.net.servers.zmq_proxy PORT [PARENT_PORT]`.

Publishers connect to PORT, subscribers to the port after it. With a parent, it subscribes there as well. Nothing is
dropped: queues have no limit.
"""

import sys

import zmq  # type: ignore[import-not-found]

from benchmarks.net.servers.life import end_with_stdin


def main(port: str, parent: str | None = None) -> None:
    end_with_stdin()
    context = zmq.Context()
    publishers, subscribers = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    for socket in (publishers, subscribers):
        socket.set_hwm(0)
    subscribers.bind(f"tcp://127.0.0.1:{int(port) + 1}")
    publishers.bind(f"tcp://127.0.0.1:{port}")
    if parent is not None:
        publishers.connect(f"tcp://127.0.0.1:{int(parent) + 1}")
    zmq.proxy(publishers, subscribers)


if __name__ == "__main__":
    main(*sys.argv[1:])
