"""A fork server: starts the processes of tests without importing the package again for each of them.

A `resprout` process spends about 0.3 s of processor time on imports, and the tests start more than a thousand of them.
The fork server is a process that has imported everything. For each request it forks a process, which then runs the
module that the command names, as `python -m` does. The new process is a real one, with its own pid, memory, signals and
descriptors. Only `exec` and the imports are left out.

`install` replaces `subprocess.Popen`. asyncio starts processes through it as well (uvloop does not). Where a forked
process would differ from an executed one, the process is executed (`_can_fork`). `RESPROUT_EXEC=1` executes every one.

The kernel makes the test process the parent of the new one: the new process is a grandchild of the fork server, its
parent ends at once, and the test process adopts orphans meanwhile.
"""

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

MODULES: Final = ("resprout", "resprout.net.run.worker", "resprout.cli.load.ours")
"""The modules that the package and its tests start as processes."""
_IMPORTED_LATER: Final = ("resprout.stacks.resprout", "prometheus_client", "uvloop", "encodings.idna")
"""Imports of running processes that no verb imports when it is loaded."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A process that starts inherits that one of these is ignored."""
_STARTUP_VARIABLES: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC")
"""Variables with these prefixes act while the interpreter starts."""
_HONOURED: Final = ("PYTHONUNBUFFERED",)
"""Except for these, which `_run` obeys."""
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_LENGTH: Final = struct.Struct("!I")
_DESCRIPTORS_MAX: Final = 64

_PATH: Final = frozenset(("", *sys.path))
"""Folders of modules that the fork server knows. A test may add one."""
_ExecutingPopen: Final = subprocess.Popen


def install() -> None:
    """Let `subprocess.Popen` ask the fork server for processes that run one of `MODULES`."""
    if sys.platform == "linux" and "RESPROUT_EXEC" not in os.environ:
        subprocess.Popen = ForkingPopen  # type: ignore[misc]


@contextlib.contextmanager
def executed() -> Iterator[None]:
    """Execute the processes that are started meanwhile: for tests that measure a process."""
    before = subprocess.Popen
    subprocess.Popen = _ExecutingPopen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = before  # type: ignore[misc]


# -- in the test process -----------------------------------------------------------------------------------------------


class _ForkServer:
    """The fork server of this process, started by the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket, there = socket.socketpair()
        self.environment = dict(os.environ)
        command = [sys.executable, "-P", __file__, str(there.fileno())]
        with executed(), there:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=self.environment
            )

    def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Return the pid of a new process."""
        body = json.dumps(request).encode()
        with self._lock:
            _adopt_orphans(True)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            self._socket.sendmsg([_LENGTH.pack(len(body))], rights)
            self._socket.sendall(body)
            pid = int(_LENGTH.unpack(_read(self._socket, _LENGTH.size))[0])
            _adopt_orphans(False)
            return pid


def _adopt_orphans(is_wanted: bool) -> None:
    """Only while the fork server works: a test may be about orphans."""
    ctypes.CDLL(None).prctl(_SUBREAPER, int(is_wanted), 0, 0, 0)


_server: _ForkServer | None = None


class ForkingPopen(subprocess.Popen):  # type: ignore[type-arg]
    """`Popen` that lets the fork server start a process where it can."""

    def _execute_child(self, args: Any, *others: Any) -> None:
        """Start the process. The arguments are those of Python 3.11 to 3.14."""
        (
            executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell,
            p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite,
            _, gid, gids, uid, umask, start_new_session, process_group,
        ) = others  # fmt: skip
        unusual = (executable, preexec_fn, shell, gid, gids, uid, umask, start_new_session, process_group)
        given = enumerate((p2cread, c2pwrite, errwrite))
        standard = [number if descriptor == -1 else descriptor for number, descriptor in given]
        environment = dict(os.environ if env is None else env)
        if any(one not in (None, False, -1) for one in unusual) or not _can_fork(args, environment, standard):
            super()._execute_child(args, *others)  # type: ignore[misc]
            return
        try:
            self.pid = _start(args, cwd, environment, pass_fds, standard)
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def _start(
    args: Sequence[str], cwd: Any, environment: Mapping[str, str], pass_fds: Sequence[int], standard: Sequence[int]
) -> int:
    """Return the pid of a new process."""
    global _server
    if _server is None:
        _server = _ForkServer()
    mask = os.umask(0o077)
    os.umask(mask)
    is_safe_path = args[1] == "-P"
    module, *arguments = args[3 if is_safe_path else 2 :]
    request = {
        "module": module,
        "arguments": arguments,
        "is_safe_path": is_safe_path,
        "cwd": os.fspath(cwd or Path.cwd()),
        "environment": environment,
        "ignored": [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_IGN],
        "umask": mask,
        "places": [0, 1, 2, *pass_fds],
    }
    return _server.start(request, [*standard, *pass_fds])


def _can_fork(args: Any, environment: Mapping[str, str], standard: Sequence[int]) -> bool:
    """Whether a forked process is the same as an executed one: one of `MODULES`, without a terminal, with the variables
    that the interpreter of the fork server was started with."""
    if isinstance(args, str | bytes | os.PathLike) or not all(isinstance(word, str) for word in args):
        return False
    words = [word for word in args[:4] if word != "-P"]
    if words[:2] != [sys.executable, "-m"] or words[2:3] == [] or words[2] not in MODULES:
        return False
    known = _server.environment if _server is not None else dict(os.environ)
    for name in {*environment, *known}:
        if name == "PYTHONPATH":
            if not _PATH.issuperset(environment.get(name, "").split(os.pathsep)):
                return False
        elif name not in _HONOURED and name.startswith(_STARTUP_VARIABLES) and environment.get(name) != known.get(name):
            return False
    return not any(map(os.isatty, standard))


def _read(source: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = source.recv(length - len(found))
        if not more:
            raise EOFError("the fork server ended")
        found += more
    return found


# -- in the fork server ------------------------------------------------------------------------------------------------

_status: Final[list[int]] = []
"""The exit status, once the module has ended with one."""


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork a process for each request, until there are no more. Return the request in the process that is to run it."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(requests, _LENGTH.size, _DESCRIPTORS_MAX)
        if not head:
            os._exit(0)
        request: dict[str, Any] = json.loads(_read(requests, _LENGTH.unpack(head)[0]))
        reading, writing = os.pipe()
        parent = os.fork()
        if parent == 0:
            pid = os.fork()
            if pid == 0:
                requests.close()
                os.close(reading)
                os.close(writing)
                _place(descriptors, request["places"])
                return request
            os.write(writing, _LENGTH.pack(pid))
            os._exit(0)
        os.waitpid(parent, 0)
        requests.sendall(os.read(reading, _LENGTH.size))
        for descriptor in (reading, writing, *descriptors):
            os.close(descriptor)


def _place(descriptors: Sequence[int], places: Sequence[int]) -> None:
    """Give each descriptor the number that the new process expects."""
    above = max((*descriptors, *places)) + 1
    apart = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, place in zip(apart, places, strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)


def _run(request: Mapping[str, Any]) -> None:
    """Do what an interpreter does that is started with `-m`."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    if signal.SIGINT not in request["ignored"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    line_by_line = "PYTHONUNBUFFERED" in os.environ
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(write_through=line_by_line)
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    if not request["is_safe_path"]:
        sys.path.insert(0, request["cwd"])
    sys.argv = ["-m", *request["arguments"]]
    module = request["module"] if request["module"] != "resprout" else "resprout.__main__"
    sys.modules.pop(module, None)  # it runs again, as the main module
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _status.append(end.code or 0)
        raise
    _status.append(0)


def _end() -> None:
    """End without freeing the memory object by object, which takes 0.1 s where pages are shared.

    The callback that was registered first runs last, after all threads have ended. After a traceback the interpreter
    ends as usual.
    """
    if _status:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_status[0])


def _make_codec() -> None:
    """Make the codec of brokers, which the package makes once for a process and never changes."""
    from resprout.net.sessions import make_codec
    from resprout.stacks.stack import find_stack

    make_codec(find_stack("resprout").messages)


def _import_everything() -> None:
    from resprout.cli.main import VERBS

    for verb in VERBS.values():
        importlib.import_module(f"resprout.cli.{verb.module}")
    for module in (*MODULES, *_IMPORTED_LATER):
        importlib.import_module(module)
    _make_codec()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    atexit.register(_end)
    _import_everything()
    _run(_serve(socket.socket(fileno=int(sys.argv[1]))))
