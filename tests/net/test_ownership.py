"""Durable subscriptions, topics and names belong to identities: what a client that has rights of its own may not take."""

from pathlib import Path
from typing import Any

from resprout.client.connect import Connecting
from resprout.client.connect import connect as connect_soon
from resprout.net.door import Door
from resprout.net.identity.secret import digest_of_token
from tests.patience import PATIENCE_S

from .papers import Papers
from .stage import Running, broker, run

TOKEN = "0123456789abcdef"


def identity(name: str, text: str = "") -> str:
    return f"""
[[identity]]
name = "{name}"
secrets = ["{digest_of_token(name + TOKEN)}"]
{text}
"""


def written(folder: Path, *identities: str) -> Path:
    file = folder / "rules.toml"
    file.write_text("".join(identities))
    return file


def as_identity(running: Running, name: str, client: str | None = None, **more: Any) -> Connecting:
    return connect_soon(str(running), timeout=PATIENCE_S, name=client or name, login=f"{name}:{name}{TOKEN}", **more)


def test_a_broker_knows_whom_each_client_has_proven_to_be(tmp_path: Path) -> None:
    rules = written(tmp_path, identity("teller", 'clients = ["till-*"]'), "[anybody]\n")

    async def scene() -> None:
        async with (
            broker(door=Door(rules=rules)) as running,
            as_identity(running, "teller", "till-1"),
            connect_soon(str(running), name="guest", timeout=PATIENCE_S),
        ):
            sessions = running.machine.core.sessions.all
            assert {name: session.identity for name, session in sessions.items()} == {"till-1": "teller", "guest": ""}

    run(scene())


def test_a_certificate_without_rules_proves_the_name_of_a_client(tmp_path: Path) -> None:
    papers = Papers(tmp_path / "certificates")

    async def scene() -> None:
        async with (
            broker(door=papers.door("b0")) as running,
            connect_soon(str(running), name="teller", timeout=PATIENCE_S, tls=papers.folder),
        ):
            assert running.machine.core.sessions.all["teller"].identity == "teller"

    run(scene())
