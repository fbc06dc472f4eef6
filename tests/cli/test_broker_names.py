"""A name that is taken, and a root that a supervisor starts again with its own file: real processes."""

import json
import signal
from pathlib import Path

from tests.cli.processes import broker, complaint, resprout, running, until_note
from tests.patience import PATIENCE_S


def test_a_broker_whose_name_is_alive_somewhere_in_the_tree_ends_with_status_two() -> None:
    with (
        broker("b0") as (_, b0),
        broker("b1", "--parent", b0) as (first, b1),
        broker("b2", "--parent", b0) as (b2, b2_at),
    ):
        until_note(first, "joined")
        until_note(b2, "joined")
        with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--join", b2_at, "--insecure") as second:
            _, err = second.rest()
            assert second.process.returncode == 2
            assert err.decode() == (
                f"resprout: b2 does not take b1: a broker called b1 lives at {b1} (below b0); "
                f"every broker has a name of its own\n"
            )
        done = resprout("pub", "t", "x", "--wait", "delivered", "--server", b1)
        assert done.returncode == 0


def test_a_root_that_is_started_again_with_its_own_file_joins_the_network_that_it_founded(tmp_path: Path) -> None:
    with broker("b0", "--data", str(tmp_path / "b0")) as (first, address):
        words = ("broker", "--name", "b0", "--listen", address, "--data", str(tmp_path / "b0"), "--json")
        with broker("b1", "--parent", address) as (b1, b1_at):
            until_note(b1, "joined")
            assert resprout("pub", "t", "x", "--server", address).returncode == 0  # by now b1 may follow the root
            first.end(signal.SIGKILL)
            until_note(b1, "repair_end")
            with running(*words) as again:
                assert again.error_line().startswith("b0 was in a network with b1: it looks for them")
                until_note(again, "joined")
                told = [json.loads(resprout("status", "--json", "--server", at).stdout) for at in (address, b1_at)]
                assert told[0]["network"] == told[1]["network"] != ""


def test_a_root_whose_company_is_gone_for_good_is_told_to_found_a_network(tmp_path: Path) -> None:
    """That it waits for it otherwise is in test_restart_of_all.py."""
    folder = str(tmp_path / "b0")
    with broker("b0", "--data", folder) as (first, address), broker("b1", "--parent", address) as (b1, _):
        until_note(b1, "joined")
        first.end(signal.SIGKILL)
        b1.end(signal.SIGKILL)
    with broker("b0", "--data", folder, "--force-found", listen=address) as (anew, _):
        until_note(anew, "founded")


def test_a_broker_that_is_alone_says_on_how_many_brokers_safe_rests() -> None:
    with broker("b0") as (process, address):
        assert resprout("pub", "t", "x", "--wait", "safe", "--server", address).returncode == 0
        until_note(process, "few_copies")
        done = resprout("status", "--server", address, timeout=PATIENCE_S)
        assert done.returncode == 1 and b"means 1 of 2 copies" in done.stdout


def test_a_life_far_beyond_the_clock_is_refused_at_the_command_line() -> None:
    words = ("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--incarnation", str(1 << 60))
    assert "no other broker would believe it" in complaint(*words)
