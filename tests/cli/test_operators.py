"""status, top, who and trace at the command line; the page and the log of a broker."""

import importlib.util
import json
import signal
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from resprout.cli.main import run
from resprout.cli.voice import LOG_FORMATS, Voice
from resprout.core.contract import Note
from tests.cli.processes import broker, complaint, eventually, resprout, running, subscriber, until_note
from tests.patience import PATIENCE_S
from tests.telemetry.collector import collecting


def test_operators_see_the_tree_who_receives_what_and_where_it_went() -> None:
    with broker("b0", "--http", "127.0.0.1:0") as (b0, address), broker("b1", "--parent", address) as (b1, at_b1):
        until_note(b1, "joined")
        with subscriber(at_b1, "bank/#", "--name", "reader", "--json") as reader:
            told = json.loads(resprout("who", "bank/1", "--server", address, "--json").stdout)
            assert [(one["broker"], one["path"], one["clients"]) for one in told["brokers"]] == [
                ("b0", ["b0"], []),
                ("b1", ["b0", "b1"], ["reader"]),
            ]
            said = resprout("pub", "bank/1", "x", "--server", address, "--name", "teller", "--verbose").stderr.decode()
            message = json.loads(reader.line())
            id = f"{message['publisher']}.{message['epoch']}/ordered:{message['seq']}"
            assert said == f"1 published on bank/1, accepted: {id}\n", "it tells what `trace` takes"
            assert message["id"] == id
            traced = json.loads(resprout("trace", id, "--server", at_b1, "--json").stdout)
            assert [(one["broker"], one["came_from"]) for one in traced["brokers"]] == [("b0", "teller"), ("b1", "b0")]
            assert traced["brokers"][1]["readers"] == ["reader"]
            if importlib.util.find_spec("opentelemetry"):  # tests/telemetry says so where it is missing
                with collecting() as collector:
                    assert run(["trace", id, "--server", at_b1, "--otlp", collector.url]) == 0
                assert [path for path, body in collector.posts if b"relay bank/1" in body] == ["/v1/traces"]
            assert resprout("trace", "teller.1/ordered:9", "--server", address).returncode == 1

            def status() -> list[str]:
                return resprout("status", "--server", at_b1).stdout.decode().splitlines()

            assert eventually(lambda: "2 brokers, 1 client," in status()[0]), "brokers learn that the teller has gone"
            lines = status()
            assert lines[0].startswith("network b0.")
            assert lines[1].startswith(f"b0  {address}  life ") and lines[2].startswith(f"└─ b1  {at_b1}  life ")
            looks = (
                resprout("top", "--server", address, "--count", "2", "--interval", "0.1").stdout.decode().splitlines()
            )
            names, *looks = looks
            assert names.split()[:4] == ["time", "broker", "parent", "clients"]
            assert {len(line.split()) for line in looks} == {len(names.split())}
            assert [line.split()[1:4] for line in looks] == [["b0", "-", "0"], ["b1", "b0", "1"]] * 2
            told = json.loads(resprout("status", "--server", address, "--json").stdout)
            with urllib.request.urlopen(f"{told['brokers'][0]['http']}status.json", timeout=PATIENCE_S) as page:
                served = json.loads(page.read())
            assert (
                [one["name"] for one in served["brokers"]] == [one["name"] for one in told["brokers"]] == ["b0", "b1"]
            )
            b1.end(signal.SIGKILL)
            until_note(b0, "repair_end")
            alone = resprout("status", "--server", address)
            assert b"1 broker, " in alone.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("who", "a/#"), "topic"),
        (("trace", "nothing"), "is no publication's id"),
        (("top", "--count", "0"), "--count"),
        (("status", "--login", "/nowhere/login"), "--login /nowhere/login"),
        (("broker", "--name", "b0", "--http", "nonsense:port"), "--http"),
        (("broker", "--name", "b0", "--http-open"), "needs --http HOST:PORT"),
        (("broker", "--name", "b0", "--listen", "127.0.0.1:0", "--http", ":8450"), "--http-open"),
    ],
)
def test_what_operators_get_wrong_is_one_line(words: tuple[str, ...], why: str) -> None:
    assert why in complaint(*words)


def test_lines_of_the_log_have_times_and_levels_if_that_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    for log_format in LOG_FORMATS:
        voice = Voice("b0", None, as_json=False, log_format=log_format)
        for _ in range(2):
            voice.note(Note("repair_begin", {"detail": "b1"}))
        voice.note(Note("repair_end", {"detail": "b1"}))
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["b0: repair begin: b1", "b0: repair end: b1"]  # what is said again is said once
    full, as_json = lines[2:5], [json.loads(line) for line in lines[5:]]
    assert [line.split(" ", 1)[1] for line in full] == [*["WARNING b0 repair_begin: b1"] * 2, "INFO b0 repair_end: b1"]
    times = [*[line.split(" ", 1)[0] for line in full], *[line.pop("time") for line in as_json]]
    assert all(datetime.fromisoformat(at).tzinfo is not None for at in times)
    assert as_json[0] == {"level": "warning", "broker": "b0", "kind": "repair_begin", "detail": "b1"}
    assert as_json[2]["level"] == "info"


def test_a_broker_that_left_in_good_order_is_not_missed() -> None:
    with (
        broker("b0") as (_, address),
        broker("b1", "--parent", address) as (b1, _),
        broker("b2", "--parent", address) as (b2, _),
    ):
        until_note(b1, "joined")
        until_note(b2, "joined")
        assert b2.end() == 0
        while (left := resprout("status", "--server", address)).stdout.count(b" life ") != 2:
            pass
        assert b"does not hear" not in left.stdout, left.stdout
        told = json.loads(resprout("status", "--server", address, "--json").stdout)
        assert not [one["name"] for each in told["brokers"] for one in each["neighbours"] if one["silent"]]


def test_after_a_revival_the_log_names_the_network_that_status_names(tmp_path: Path) -> None:
    words = ("--data", str(tmp_path / "b0"), "--set", "durable=journal", "--listen", "127.0.0.1:0", "--json")
    networks = []
    for _ in range(2):
        with running("broker", "--name", "b0", *words) as process:
            said: dict[str, Any] = {}
            address = ""
            while not address or "the network" not in said.get("columns", {}).get("detail", ""):
                line = json.loads(process.line())
                address = line.get("address", address)
                said = line if line.get("kind") in ("founded", "reunited") else said
            networks.append(json.loads(resprout("status", "--server", address, "--json").stdout)["network"])
            assert said["columns"]["detail"].endswith(f" the network {networks[-1]}")
            process.end(signal.SIGKILL)
    assert networks[0] == networks[1]


RING = """
stack = "scribe"
[topology]
kind = "flat"
brokers = 4
contacts = 2
"""


def test_operators_see_who_owns_leads_and_holds_a_topic_of_a_ring(tmp_path: Path) -> None:
    """`status` said that there was no network, and `who` followed the ring instead of the tree of the topic."""
    file = tmp_path / "ring.toml"
    file.write_text(RING)
    with running("up", str(file), "--port", "0", "--json", "--insecure") as process:
        addresses = {row["broker"]: row["address"] for row in json.loads(process.line())}
        with subscriber(addresses["b2"], "t"), subscriber(addresses["b3"], "t"):

            def told_of_t() -> dict[str, Any]:
                return dict(json.loads(resprout("who", "t", "--server", addresses["b0"], "--json").stdout))

            def is_settled() -> bool:  # the ring may have grown since the topic began, and moves its log then
                roles = told_of_t()["roles"]
                return len(roles["holder"]) == 3 and {*roles["owner"], *roles["leader"]} <= {*roles["holder"]}

            eventually(is_settled)
            told = told_of_t()
            (owner,), (leader,), holders = told["roles"]["owner"], told["roles"]["leader"], told["roles"]["holder"]
            assert told["clients"] == 2
            for one in told["brokers"]:
                assert leader in one["path"][:2], "a publication goes to the leader first"
            lines = resprout("who", "t", "--server", addresses["b0"]).stdout.decode().splitlines()
            assert lines[1] == f"holder {', '.join(holders)}; leader {leader}; owner {owner}"
            status = resprout("status", "--server", addresses["b0"]).stdout.decode()
            assert status.startswith("stack scribe: 4 brokers, 2 clients")
            assert f"{leader} " in status and "topics (" in status and "owns " in status
        assert process.end() == 0
