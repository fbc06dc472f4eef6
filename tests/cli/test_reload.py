"""What a broker says when it is asked to read its files again, and when it cannot go on."""

import json
import os
import signal
from pathlib import Path

from .processes import broker, resprout, running, until_note


def test_a_hangup_without_anything_to_read_again_is_harmless() -> None:
    """`systemctl reload` sends it."""
    with broker("b0") as (process, address):
        os.kill(process.pid, signal.SIGHUP)
        until_note(process, "reload")
        assert resprout("status", "--server", address).returncode == 0
        assert process.end() == 0


def test_a_good_and_a_failed_reload_are_told_apart(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_bytes(resprout("secret", "teller", "--out", str(tmp_path / "teller.login")).stdout)
    words = ("--name", "b0", "--listen", "127.0.0.1:0", "--rules", str(rules), "--log-format", "json")
    with running("broker", *words) as process:
        process.line()
        for text, kind, level in (("[", "reload_failed", "error"), (rules.read_text(), "reload", "info")):
            rules.write_text(text)
            os.kill(process.pid, signal.SIGHUP)
            while not (said := json.loads(process.error_line()))["kind"].startswith("reload"):
                pass
            assert (said["kind"], said["level"]) == (kind, level)


def test_the_last_line_of_a_broker_that_cannot_go_on_is_json_where_all_are() -> None:
    for words, name in ((("--name", "b0", "--listen", "203.0.113.1:1"), "b0"), (("--name", "b 0"), "b 0")):
        done = resprout("broker", *words, "--log-format", "json")
        assert done.returncode == 2 and done.stderr.count(b"\n") == 1
        said = json.loads(done.stderr)
        assert (said["level"], said["kind"], said["broker"]) == ("error", "fatal", name)
