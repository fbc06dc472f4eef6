"""The configuration file of commands that talk to a broker: what it sets, what overrides it, and wrong ones."""

from pathlib import Path

import pytest

from tests.cli.processes import broker, complaint, resprout, subscriber


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "resprout" / "config.toml"
    path.parent.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return path


def test_the_server_and_the_name_come_from_the_file(config: Path) -> None:
    with broker("b1") as (_, address):
        config.write_text(f'server = "{address}"\nname = "ann"\n')
        with subscriber(address, "t", "--json", "--name", "reader") as reader:
            assert resprout("pub", "t", "x").returncode == 0
            assert '"publisher":"ann"' in reader.line()


def test_the_environment_and_the_command_line_override_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('server = "127.0.0.1:1"\n')
    assert "127.0.0.1:1" in complaint("pub", "t", "x", status=3)
    monkeypatch.setenv("RESPROUT_SERVER", "127.0.0.1:2")
    assert "127.0.0.1:2" in complaint("pub", "t", "x", status=3)
    assert "127.0.0.1:3" in complaint("pub", "t", "x", "-s", "127.0.0.1:3", status=3)


def test_paths_are_relative_to_the_file(config: Path) -> None:
    config.write_text('login = "ann.login"\n')
    assert f"--login {config.parent / 'ann.login'}" in complaint("pub", "t", "x", "-s", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers = 'x'", "unknown key 'servers'; there are server, tls, login, name"),
        ("server = 7450", "server = 7450 must be a text that is not empty"),
        ("server =", "Invalid value"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_it(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    line = complaint("status")
    assert line.startswith(f"{config}: ") and said in line


def test_a_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RESPROUT_CONFIG", str(tmp_path / "none"))
    assert complaint("status") == f"RESPROUT_CONFIG={tmp_path / 'none'}: there is no such file"


def test_brokers_do_not_read_it(config: Path) -> None:
    """`--name` and `--tls` of a broker are its own."""
    config.write_text("not toml")
    with broker("b1") as (_, address):
        assert "not toml" not in address
