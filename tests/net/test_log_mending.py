"""Damaged stores of logs: one line for each, a torn end is cut off, and a damaged replica is fetched anew."""

from pathlib import Path

import pytest

import resprout
from resprout.cli.main import run as command
from resprout.net.log_mending import mend_logs
from resprout.net.log_stores import LOGS
from tests.net.stage import run, until
from tests.net.test_logs import LOG, bundles, have, is_fed, kept, payloads, publish, replica

SINGLE = LOG.__class__("ev", "ev/#", ("b0",))


def store(data: Path, name: str, which: str) -> Path:
    """The first segment of a store."""
    return min((data / name / LOGS / which).glob("*.journal"))


def spoil(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[200] ^= 0xFF
    segment.write_bytes(content)


@pytest.mark.parametrize("which", [LOG.entries, LOG.votes])
def test_a_damaged_replica_is_set_aside_and_fetched_from_the_others(
    tmp_path: Path, which: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path) as b0, replica("b1", tmp_path, b0) as b1:
            async with replica("b2", tmp_path, b0) as b2:
                await is_fed(b0, b1, b2)
                async with resprout.connect(str(b1), name="p") as p:
                    sent = await publish(p, 0, 60)
                    await have(tmp_path, LOG.replicas, sent)
            async with replica("b2", tmp_path, b0, life=2), resprout.connect(str(b1), name="q") as q:
                sent += await publish(q, 60, 120)
                await have(tmp_path, LOG.replicas, sent)
            spoil(store(tmp_path, "b2", which))
            more = ["--discard-replica", "ev"] if which == LOG.votes else []
            assert command(["mend", str(tmp_path / "b2"), *more]) == 0
            lines = [line for line in capfd.readouterr().out.splitlines() if "replica of the log" in line]
            assert len(lines) == 1 and "damaged at byte" in lines[0] and "is set aside in" in lines[0]
            async with replica("b2", tmp_path, b0, life=3):
                await have(tmp_path, LOG.replicas, sent)
                await until(lambda: any("b2.3" in each.members for each in b0.machine.logs.replicas.values()))

    run(scene())


def test_the_only_replica_is_never_discarded_without_being_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scene() -> None:
        async with replica("b0", tmp_path, log=SINGLE) as b0:
            await is_fed(b0)
            async with resprout.connect(str(b0), name="p") as p:
                await have(tmp_path, ("b0",), await publish(p, 0, 60))
        async with replica("b0", tmp_path, log=SINGLE, life=2) as b0, resprout.connect(str(b0), name="q") as q:
            await is_fed(b0)
            await publish(q, 60, 120)
            await until(lambda: len(bundles(kept(tmp_path, "b0"))) == 120)

    run(scene())
    spoil(store(tmp_path, "b0", LOG.entries))
    before = sorted((tmp_path / "b0" / LOGS).iterdir())
    assert command(["mend", str(tmp_path / "b0")]) == 1
    assert "no other replica is known, so nothing was changed" in capfd.readouterr().out
    assert sorted((tmp_path / "b0" / LOGS).iterdir()) == before

    async def again() -> None:
        async with replica("b0", tmp_path, log=SINGLE, life=3) as b0:
            await until(lambda: any("`resprout mend" in str(note.columns) for note in b0.notes))

    run(again())


def test_a_torn_end_is_cut_off_with_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def scene() -> list[bytes]:
        async with replica("b0", tmp_path, log=SINGLE) as b0:
            await is_fed(b0)
            async with resprout.connect(str(b0), name="p") as p:
                sent = await publish(p, 0, 60)
                await have(tmp_path, ("b0",), sent)
        return sent

    sent = run(scene())
    segment = store(tmp_path, "b0", LOG.entries)
    segment.write_bytes(segment.read_bytes()[:-5])
    (found,) = mend_logs(tmp_path / "b0")
    assert len(found.torn) == 1 and "a write was torn by a crash" in found.torn[0] and not found.damage
    assert command(["mend", str(tmp_path / "b0")]) == 0
    assert "not damaged" in capfd.readouterr().out

    async def again() -> None:
        async with replica("b0", tmp_path, log=SINGLE, life=2):
            await until(lambda: payloads(kept(tmp_path, "b0")) == sent)

    run(again())
