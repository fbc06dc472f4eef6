"""`resprout tap` and `resprout read`: events are kept by a broker that one command adds to a tree."""

import json
from pathlib import Path

from tests.cli.processes import announced, broker, complaint, resprout, running


def test_a_tap_is_added_by_one_command_and_what_it_keeps_is_read_by_another(tmp_path: Path) -> None:
    with broker("b0") as (_, root), running("tap", "a/#", "--join", root, "--data", str(tmp_path), "--json") as tap:
        address = announced(tap)["address"]
        while "is kept from here on" not in tap.line():
            pass
        done = resprout("pub", "a/x", "-", "--server", root, "--wait", "delivered", stdin=b"one\ntwo\nthree")
        assert done.returncode == 0, done.stderr
        lines = resprout("read", "a/+", "--server", address).stdout.decode().splitlines()
        assert [line.split(" ", 1)[1] for line in lines] == ["a/x one", "a/x two", "a/x three"]
        offset = lines[-1].split(" ")[0]
        again = resprout("read", "#", "--server", address, "--from", offset, "--count", "9", "--json")
        last = json.loads(again.stdout.splitlines()[-1])
        assert (last["payload"], last["offset"], last["topic"]) == ("three", offset, "a/x")
        assert "keeps no events" in complaint("read", "#", "--server", root, status=1)
        assert "is no position" in complaint("read", "#", "--server", address, "--from", "yesterday")
        shown = resprout("journal", str(tmp_path), "--events", "--verify", "--json")
        assert json.loads(shown.stdout)["verified"] >= 1
