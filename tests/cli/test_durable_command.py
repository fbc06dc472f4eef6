"""Durable subscriptions on the command line: a consumer is killed, and the next one goes on."""

import signal

from tests.cli.processes import broker, complaint, resprout, subscriber


def test_a_durable_subscription_outlives_kill_9_of_its_consumer_until_it_is_ended() -> None:
    with broker("b0") as (_, address):
        with subscriber(address, "jobs/#", "--durable", "billing", "--when-full", "spill", "--raw") as first:
            first.end(signal.SIGKILL)
        lines = [b"%d" % number for number in range(5)]
        assert resprout("pub", "jobs/a", "-", "--server", address, stdin=b"\n".join(lines)).returncode == 0
        words = ("--durable", "billing", "--when-full", "spill", "--raw", "--count")
        done = resprout("sub", "jobs/#", *words, "3", "--server", address)
        assert done.stdout.split() == lines[:3]
        done = resprout("sub", "jobs/#", *words, "2", "--server", address)
        assert done.stdout.split() == lines[3:], "what was printed is done, and what came with it is not"
        done = resprout("end-subscription", "billing", "--server", address)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"billing is over\n", b"")
        said = complaint("end-subscription", "billing", "--server", address, status=1)
        assert said == "there is no durable subscription 'billing'"
    assert "does not begin in the past" in complaint("sub", "a", "--group", "g", "--replay-from", "earliest")
    assert "is for durable subscriptions" in complaint("sub", "a", "--when-full", "spill")
    assert "is no position" in complaint("sub", "a", "--replay-from", "yesterday")
