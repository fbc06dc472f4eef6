"""With rules, a client retains where it may publish, and reads last values of filters that it may subscribe to."""

from pathlib import Path

import pytest

import resprout
from resprout.net.door import Door
from resprout.net.identity.scram import verifier_of_token
from tests.net.stage import broker, run
from tests.patience import PATIENCE_S

TOKEN = "a-token-that-is-long-enough"
RULES = f"""
[[identity]]
name = "writer"
secrets = ["{verifier_of_token(TOKEN)}"]
publish = ["state/#", "$kv/cfg/#"]
subscribe = ["state/#"]

[[identity]]
name = "reader"
secrets = ["{verifier_of_token(TOKEN)}"]
publish = []
subscribe = ["state/#", "$kv/cfg/#"]
"""


def test_rights_hold_for_last_values_and_keys(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(RULES)

    async def scene() -> None:
        async with (
            broker(door=Door(rules=rules)) as running,
            resprout.connect(str(running), name="writer", login=f"writer:{TOKEN}") as writer,
            resprout.connect(str(running), name="reader", login=f"reader:{TOKEN}") as reader,
        ):
            await (await writer.publish("state/x", b"1", retain=True)).delivered()
            revision = await writer.kv("cfg").put("k", b"v")
            with pytest.raises(resprout.PublishError, match="may not publish on other"):
                await (await writer.publish("other", b"1", retain=True)).accepted()
            with pytest.raises(resprout.KvError, match="may not subscribe to"):
                await writer.kv("cfg").get("k")
            entry = await reader.kv("cfg").get("k")
            assert entry is not None and entry.revision == revision
            with pytest.raises(resprout.KvError, match="may not publish"):
                await reader.kv("cfg").put("k", b"w")
            inbox = await reader.subscribe("state/#", retained=True)
            assert (await inbox.next(PATIENCE_S)).payload == b"1"
            with pytest.raises(resprout.SubscribeError, match="may not subscribe"):
                await reader.subscribe("$retained")

    run(scene())


def test_clients_of_one_identity_share_its_room_for_last_values(tmp_path: Path) -> None:
    """Each of its names had half of what the others left, so one identity took everything."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        RULES.replace('subscribe = ["state/#"]\n', 'subscribe = ["state/#"]\nclients = ["writer", "w*"]\n', 1)
    )

    async def scene() -> None:
        async with broker(door=Door(rules=rules), options={"retained_topics": 8}) as running:
            refused = 0
            for number in range(8):
                async with resprout.connect(str(running), name=f"w{number}", login=f"writer:{TOKEN}") as writer:
                    try:
                        await (await writer.publish(f"state/{number}", b"1", retain=True)).delivered()
                    except resprout.PublishError:
                        refused += 1
            assert refused == 4

    run(scene())
