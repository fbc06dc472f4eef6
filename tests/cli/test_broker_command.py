"""`resprout broker` from its announcement to its end."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from resprout import sync
from tests.cli.processes import announced, broker, eventually_stopped, resprout, running, subscriber
from tests.patience import PATIENCE_S


def test_one_line_tells_where_it_listens_and_sigterm_ends_it_cleanly() -> None:
    with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--insecure") as process:
        name, _, address = process.line().partition(" listens on ")
        assert name == "b1"
        host, port = address.split(":")
        socket.create_connection((host, int(port)), PATIENCE_S).close()
        assert process.end(signal.SIGTERM) == 0
        out, err = process.rest()
        assert out == b"" and err.startswith(b"b1: founded: ") and err.count(b"\n") == 1


def test_ctrl_c_is_a_clean_end_too() -> None:
    with broker("b1", "--insecure") as (process, _):
        assert process.end(signal.SIGINT) == 0
        out, err = process.rest()
        assert err == b"" and json.loads(out)["kind"] == "founded"


def test_ctrl_c_is_not_for_a_broker_that_a_script_put_in_the_background() -> None:
    with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--json", ctrl_c_ends=False) as process:
        address = announced(process)["address"]
        process.process.send_signal(signal.SIGINT)
        assert resprout("pub", "t", "x", "--server", address).returncode == 0
        assert process.end(signal.SIGTERM) == 0


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_it_listens_on_ipv6() -> None:
    with broker("b1", listen="[::1]:0") as (_, address):
        assert address.startswith("[::1]:")
        assert resprout("pub", "t", "x", "--server", address).returncode == 0


def test_the_announcement_in_a_file_is_whole_and_names_the_process(tmp_path: Path) -> None:
    file = tmp_path / "b1.json"
    with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--announce", str(file)) as process:
        address = process.line().removeprefix("b1 listens on ")
        announcement = json.loads(file.read_text())
        assert (announcement["name"], announcement["address"]) == ("b1", address)
        assert announcement["pid"] == process.pid


def test_a_child_waits_for_its_parent_and_says_so_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--parent", address, "--insecure") as child:
        assert child.error_line() == f"b1 waits for its parent: {address}: connection refused"
        with broker("b0", listen=address):
            assert child.line().startswith("b1 listens on ")
            assert child.error_line() == "b1: joined: b0"
            assert child.end() == 0
            assert child.rest() == (b"", b"b1: drain: 0 clients and 1 neighbours are handed over to b0\n")


def test_a_child_that_waits_for_its_parent_can_be_stopped() -> None:
    with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--parent", "127.0.0.1:1") as child:
        child.error_line()
        assert child.end() == 0


def test_a_subscriber_waits_for_its_only_broker_and_is_told_when_it_returns_without_its_subscription() -> None:
    with broker("b1") as (process, address), subscriber(address, "t") as client:
        assert process.end() == 0
        with broker("b1", listen=address):
            out, err = client.rest()
        assert client.process.returncode == 1
        assert out == b"" and b"b1 could not carry on 1 subscriptions: deliveries may be missing\n" in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=["leaves", "stops", "dies"])
def test_however_a_broker_goes_its_neighbours_repair_the_tree_at_once(number: int) -> None:
    with broker("b0") as (parent, address), broker("b1", "--parent", address) as (child, child_address):
        with broker("b2", "--parent", child_address) as (grandchild, below):
            assert resprout("pub", "t", "x", "--server", below, "--wait", "safe").returncode == 0
            assert child.end(number) == (0 if number != signal.SIGKILL else -signal.SIGKILL)
            for process in (parent, grandchild):
                while (note := json.loads(process.line()))["kind"] != "repair_end":
                    pass
                assert note["columns"]["detail"] == "b1"
            assert resprout("pub", "t", "x", "--server", below, "--wait", "safe").returncode == 0
        assert child.rest()[1] == b""


def test_the_last_broker_has_nobody_to_hand_anything_to_and_says_what_is_lost() -> None:
    with (
        broker("b1") as (process, address),
        sync.connect(address, timeout=PATIENCE_S) as publisher,  # before the reader stops: soon it is missed
        subscriber(address, "t") as reader,
    ):
        reader.process.send_signal(signal.SIGSTOP)
        assert eventually_stopped(reader.pid)
        publisher.publish("t", b"x").safe(timeout=PATIENCE_S)
        publisher.close()
        assert process.end(signal.SIGTERM) == 0
        notes = [json.loads(line) for line in process.rest()[0].splitlines()]
        (lost,) = [note["columns"]["detail"] for note in notes if note["kind"] == "undrained"]
        assert lost == "no broker is left to take over: 1 unread publications are lost"


def test_a_second_sigterm_ends_a_broker_that_waits_for_its_neighbour() -> None:
    with broker("b0") as (parent, address), broker("b1", "--parent", address) as (child, _):
        while json.loads(child.line())["kind"] != "joined":
            pass
        parent.process.send_signal(signal.SIGSTOP)
        assert eventually_stopped(parent.pid)
        child.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            child.process.wait(0.3)  # the other one does not answer
        assert child.end(signal.SIGTERM) == 0


def test_a_broker_that_is_to_hand_over_nothing_ends_at_once() -> None:
    with broker("b0") as (parent, address), broker("b1", "--parent", address, "--drain-seconds", "0") as (child, _):
        parent.process.send_signal(signal.SIGSTOP)
        assert child.end(signal.SIGTERM) == 0


def test_a_file_says_everything_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "b1.toml"
    with broker("b0") as (_, parent):
        file.write_text(
            f'name = "b1"\nlisten = "127.0.0.1:1"\nparent = "{parent}"\n'
            "[options]\nfaults_tolerated = 0\n[links]\nwindow_bytes = 65536\n[delays]\nb0 = '1ms'\n"
        )
        with running("broker", "--config", str(file), "--listen", "127.0.0.1:0", "--name", "b9") as process:
            assert process.line().startswith("b9 listens on 127.0.0.1:")


def test_incarnations_grow_from_one_start_to_the_next() -> None:
    with broker("b0") as (_, parent):
        lives = []
        for _ in range(2):
            with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--parent", parent, "--json") as child:
                lives.append(announced(child)["incarnation"])
                assert child.end() == 0
        assert lives[0] < lives[1]


def test_a_broker_stops_when_the_input_that_it_was_told_to_watch_ends() -> None:
    with broker("b1", "--stop-with-stdin") as (process, _):
        assert process.process.stdin is not None
        process.process.stdin.close()
        assert process.process.wait(PATIENCE_S) == 0


def test_a_broker_whose_parent_is_gone_starts_when_a_contact_answers() -> None:
    with broker("b0") as (_, contact), broker("b1", "--parent", "127.0.0.1:1", "--join", contact) as (child, address):
        assert address.startswith("127.0.0.1:")
        assert child.end() == 0
        assert child.rest()[1] == b""


def test_a_folder_remembers_the_number_of_the_last_life_and_has_one_user(tmp_path: Path) -> None:
    words = ("--incarnation", "3", "--data", str(tmp_path / "b1"))
    for life in (3, 4):
        with running("broker", "--name", "b1", "--listen", "127.0.0.1:0", "--json", *words) as process:
            assert announced(process)["incarnation"] == life
            second = resprout("broker", "--name", "b1", "--listen", "127.0.0.1:0", *words)
            assert (second.returncode, second.stdout) == (2, b"")
            assert b"another process uses this folder" in second.stderr
            assert process.end() == 0


def test_what_is_no_order_is_told_and_does_no_harm() -> None:
    with broker("b1", "--stop-with-stdin") as (process, address):
        assert process.process.stdin is not None
        process.process.stdin.write(b'hello\n{"type": "found", "addresses": {"b2": "::1:7"}}\n')
        assert "is no order for a broker" in process.error_line()
        assert "'::1:7'" in process.error_line()
        process.process.stdin.write(
            b'{"type": "bar", "peers": ["c0"]}\n{"type": "found", "addresses": {"b2": "h:7"}}\n'
        )
        assert resprout("pub", "t", "x", "--server", address).returncode == 0
        barred = resprout("pub", "t", "x", "--server", address, "--name", "c0")
        assert barred.returncode == 3, "an emulated cut"
