"""Runs the `resprout` commands of a shell through the fork server of the tests.

A `resprout` command spends about 0.15 s of processor time on imports, and the pages that tests run have hundreds of
commands. Here the shell executes a small client instead (`CLIENT`). The client hands its arguments, variables, folder
and standard streams to a thread of the test process, which starts the command (`tests/fork_server.py`). Then the client
stands for the command: it passes on signals, ends as the command ends, and if it is killed, the command is killed.

One thing differs from an executed command: a command in the background does not ignore SIGINT.
"""

import contextlib
import itertools
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Final

CLIENT: Final = """\
import _signal, _socket, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect(b"\\0" + sys.argv[1].encode())
for number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGINT):
    if _signal.getsignal(number) != _signal.SIG_IGN:
        _signal.signal(number, lambda number, frame: server.send(bytes((number,))))
words = [os.fsencode(word) for word in sys.argv[2:]]
variables = [name + b"=" + value for name, value in os.environb.items()]
request = b"\\0".join((b"%d" % len(words), *words, os.getcwdb(), *variables))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([len(request).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
server.sendall(request)
for number in range(3):
    os.close(number)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    if -status != _signal.SIGKILL:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
"""
"""It imports only built-in modules, and starts in a tenth of the time of a command."""

_numbers: Final = itertools.count()


class ShellCommands:
    """Starts a command for each client that connects."""

    def __init__(self) -> None:
        self.address = f"resprout-shell-commands-{os.getpid()}-{next(_numbers)}"
        """In the abstract namespace of Unix sockets."""
        self.started: list[subprocess.Popen[bytes]] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"\0{self.address}")
        self._listener.listen(64)
        self._starting = threading.Lock()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def script(self, otherwise: str) -> str:
        """Return lines of a shell script that runs a command here, or `otherwise` where the shell has installed a
        package, which the fork server does not know."""
        return f'[ -d "$LIB" ] && {otherwise}\nexec {sys.executable} -I -S -c \'{CLIENT}\' {self.address} "$@"\n'

    def close(self) -> None:
        """Wait for the commands, whose clients have ended."""
        self._listener.shutdown(socket.SHUT_RDWR)
        while self._threads:
            self._threads.pop().join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._run, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, client: socket.socket) -> None:
        with client, contextlib.suppress(EOFError, OSError):
            head, streams, _, _ = socket.recv_fds(client, 4, 3)
            try:
                if not head:
                    raise EOFError("the client is gone")
                process = self._start(_read(client, int.from_bytes(head, "big")).split(b"\0"), streams)
            finally:
                for stream in streams:
                    os.close(stream)
            self.started.append(process)
            client.sendall(_accompany(client, process).to_bytes(4, "big", signed=True))

    def _start(self, request: Sequence[bytes], streams: Sequence[int]) -> "subprocess.Popen[bytes]":
        count = int(request[0])
        words = [os.fsdecode(word) for word in request[1 : count + 1]]
        environment = {
            os.fsdecode(name): os.fsdecode(value)
            for name, _, value in (one.partition(b"=") for one in request[count + 2 :])
        }
        folders = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(filter(os.path.isdir, folders))
        with self._starting:  # the fork server reads the umask, which belongs to the process
            return subprocess.Popen(
                [sys.executable, "-m", "resprout", *words], stdin=streams[0], stdout=streams[1], stderr=streams[2],
                cwd=os.fsdecode(request[count + 1]), env=environment,
            )  # fmt: skip


def _accompany(client: socket.socket, process: "subprocess.Popen[bytes]") -> int:
    """Pass on signals until the command ends. Return its status; kill it if its client is gone."""
    ended = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(client, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while ended not in {descriptor for descriptor, _ in poll.poll()}:
            numbers = client.recv(16)
            if not numbers:
                process.kill()
                break
            for number in numbers:
                process.send_signal(number)
        return process.wait()
    finally:
        os.close(ended)


def _read(source: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = source.recv(length - len(found))
        if not more:
            raise EOFError("the client is gone")
        found += more
    return found
