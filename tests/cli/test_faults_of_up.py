"""`resprout freeze`, `resume`, `crash` and `restart`: faults for the brokers of a running `resprout up`."""

import json

import pytest

from tests.cli.processes import complaint, eventually_gone, eventually_stopped, resprout, running


def test_a_broker_is_frozen_resumed_killed_and_started_again() -> None:
    with running("up", "--port", "0", "--json", "--insecure") as process:
        rows = {row["broker"]: row for row in json.loads(process.line())}
        port, pid = rows["b0"]["address"].rpartition(":")[2], rows["b1"]["pid"]

        def order(verb: str, name: str = "b1") -> str:
            done = resprout(verb, name, "--port", port)
            assert done.returncode == 0, done.stderr.decode()
            return done.stdout.decode()

        def refused(verb: str, name: str = "b1") -> str:
            return complaint(verb, name, "--port", port)

        assert refused("resume") == "b1 is not frozen"
        assert order("freeze") == f"b1 is frozen (pid {pid})\n"
        assert eventually_stopped(pid)
        assert refused("freeze") == "b1 is frozen: `resprout resume b1` lets it continue"
        assert order("resume") == f"b1 continues (pid {pid})\n"
        assert refused("restart") == "b1 runs: `resprout crash b1` ends it"
        assert order("crash") == f"b1 was killed (pid {pid})\n"
        assert eventually_gone(pid)
        assert refused("crash") == "b1 does not run: `resprout restart b1` starts it again"
        assert order("restart") == f"b1 runs again at {rows['b1']['address']}\n"
        assert refused("crash", "b9") == "there is no broker 'b9' in this tree"
        assert resprout("pub", "t", "x", "--server", rows["b1"]["address"]).returncode == 0
        assert process.end() == 0
        _, err = process.rest()
    told = err.decode()
    for line in ("b1 is frozen (SIGSTOP", "b1 goes on (SIGCONT", "b1 is killed (SIGKILL", "b1 is started again"):
        assert line in told, "`up` tells of it"
    assert "the others go on" not in told, "its end was asked for"


@pytest.mark.parametrize("verb", ["freeze", "resume", "crash", "restart"])
def test_without_a_running_up_the_command_says_so(verb: str) -> None:
    said = complaint(verb, "b1", "--port", "1", status=3)
    assert said == "no `resprout up` of yours on this machine has its first broker at port 1; --port names another one"
