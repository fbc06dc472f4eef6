"""`resprout kv`, `pub --retain` and `sub --retained` through a real broker."""

import json

from tests.cli.processes import broker, complaint, resprout, running


def test_keys_are_written_read_and_listed() -> None:
    with broker("b1") as (_, address):
        revision = int(resprout("kv", "put", "cfg", "x/1", "ten", "-s", address).stdout)
        assert resprout("kv", "get", "cfg", "x/1", "-s", address).stdout == b"ten\n"
        told = json.loads(resprout("kv", "get", "cfg", "x/1", "--json", "-s", address).stdout)
        assert (told["key"], told["value"], told["revision"]) == ("x/1", "ten", revision)
        done = resprout("kv", "update", "cfg", "x/1", "20", "--revision", str(revision), "-s", address)
        latest = int(done.stdout)
        said = complaint("kv", "update", "cfg", "x/1", "30", "--revision", str(revision), "-s", address, status=1)
        assert said == f"key 'x/1' of bucket cfg has revision {latest}, not revision {revision}"
        assert resprout("kv", "create", "cfg", "y", "1", "-s", address).returncode == 0
        assert resprout("kv", "keys", "cfg", "-s", address).stdout == b"x/1\ny\n"
        assert resprout("kv", "keys", "cfg", "x", "-s", address).stdout == b"x/1\n"
        assert resprout("kv", "delete", "cfg", "y", "-s", address).returncode == 0
        assert complaint("kv", "get", "cfg", "y", "-s", address, status=1) == "key 'y' of bucket cfg does not exist"


def test_a_watch_prints_what_is_there_and_every_change() -> None:
    with broker("b1") as (_, address):
        first = int(resprout("kv", "put", "cfg", "x", "1", "-s", address).stdout)
        with running("kv", "watch", "cfg", "-n", "3", "-s", address) as watch:
            assert watch.line() == f"{first} x 1"
            second = int(resprout("kv", "put", "cfg", "x", "a\x1bb", "-s", address).stdout)
            assert watch.line() == f"{second} x a\\x1bb"
            resprout("kv", "delete", "cfg", "x", "-s", address)
            assert watch.line().endswith(" x (deleted)")


def test_a_retained_message_is_printed_to_who_comes_later() -> None:
    with broker("b1") as (_, address):
        resprout("pub", "state/lamp", "on", "--retain", "-s", address)
        done = resprout("sub", "state/#", "--retained", "-n", "1", "-s", address)
        assert done.stdout == b"state/lamp on\n"
        assert complaint("sub", "t", "--retained", "--durable", "d").startswith("--durable='d'")


def test_a_wrong_bucket_is_refused() -> None:
    assert complaint("kv", "keys", "a/b").startswith("name of a bucket 'a/b' is refused")
