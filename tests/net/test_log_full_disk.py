"""A log while the disk of one of its replicas is full, with a small tmpfs as the disk, which needs root."""

from pathlib import Path

import resprout
from tests.net.stage import run, until
from tests.net.test_full_disk import SmallDisk, disk
from tests.net.test_logs import LOG, is_fed, kept, payloads, publish, replica

__all__ = ["disk"]


def test_a_log_goes_on_while_the_disk_of_a_replica_is_full_and_is_complete_afterwards(
    tmp_path: Path, disk: SmallDisk
) -> None:
    async def scene() -> None:
        async with (
            replica("b0", tmp_path) as b0,
            replica("b1", tmp_path, b0) as b1,
            replica("b2", disk.path, b0) as b2,
            resprout.connect(str(b1), name="p") as p,
        ):
            await is_fed(b0, b1, b2)
            sent = await publish(p, 0, 50)
            await until(lambda: all(payloads(kept(tmp_path, name)) == sent for name in ("b0", "b1")))
            await until(lambda: payloads(kept(disk.path, "b2")) == sent)
            disk.fill()
            sent += await publish(p, 50, 400)
            await until(lambda: any("room" in str(note.columns) or "space" in str(note.columns) for note in b2.notes))
            disk.clear()
            await until(lambda: all(payloads(kept(tmp_path, name)) == sent for name in ("b0", "b1")))
            await until(lambda: payloads(kept(disk.path, "b2")) == sent)
            assert not any(note.kind == "fenced" for each in (b0, b1, b2) for note in each.notes)
            assert b0.machine.logs.replicas[LOG.key].state.end == len(sent)

    run(scene())
