"""How a run comes into an archive in an object store, where nothing can be renamed or locked: its files are written to
a folder of their own, a *version*, and never changed; the manifest, written last and in one piece, says which version
the run is. Until then there is no such run, whatever dies in between.

Of two who add a run of the same name at once, the one whose manifest comes later has it, whole. Versions that no
manifest names are what the dead have left, or what somebody is writing right now: whoever comes to the run next
deletes those that are older than a day.
"""

import contextlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from resprout.pipeline.archive.contents import MANIFEST_NAME, VERSION, Manifest, encoded, read_manifest
from resprout.pipeline.archive.manifest import digest_if_sound
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import run_folder
from resprout.pipeline.stores import StorePath
from resprout.trace.schema import TraceError

LEFT_SECONDS: Final = 86_400
"""A version that is younger may still be written."""


class ObjectStaging(msgspec.Struct, frozen=True):
    """Where one process, and the tasks that work for it, prepare runs; see `staging.Staging`."""

    archive: str
    token: str
    """Of all versions that are written for this process, so that it finds those that are left."""

    def new_folder(self) -> Path:
        """On the machine of the task, which brings it, or drops it."""
        return Path(tempfile.mkdtemp(prefix="resprout-run-"))

    def drop(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def bring(self, folder: Path, experiment: str, run: str) -> str:
        """Writes the files of a whole run to a version of it, and gives its address. The folder is gone then."""
        now = int(time.time())
        version = run_folder(StorePath(self.archive), experiment, run) / (
            f"{VERSION}{now:x}-{self.token}-{secrets.token_hex(4)}"
        )
        for path in sorted(folder.iterdir()):
            (version / path.name).write_bytes(path.read_bytes())
        self.drop(folder)
        return str(version)

    def publish(self, staged: str, experiment: str, run: str, replace: bool = False) -> bool:
        """Makes a version that was brought the run. False when the same run was there already; PipelineError when
        another one was that is not to be replaced."""
        version, final = StorePath(staged), run_folder(StorePath(self.archive), experiment, run)
        manifest = msgspec.json.decode((version / MANIFEST_NAME).read_bytes(), type=Manifest)
        there = _manifest_there(final)
        if there is not None:
            was = digest_if_sound(final / f"{VERSION}{there.version}") if replace else there.digest
            if was == manifest.digest or not replace:
                version.remove()
            if was == manifest.digest:
                return False
            if not replace:
                raise PipelineError(f"{experiment}/{run}: in the archive with another digest; --replace exchanges it")
        (version / MANIFEST_NAME).unlink()
        name = version.name.removeprefix(VERSION)
        (final / MANIFEST_NAME).write_bytes(encoded(msgspec.structs.replace(manifest, version=name)))
        _clear_away(final, name, there.version if there is not None else "")
        return True

    def clear(self, staged: "list[str]") -> None:
        """Deletes versions that were brought and are not to be published."""
        for address in staged:
            with contextlib.suppress(OSError, PipelineError):
                StorePath(address).remove()


def _manifest_there(final: StorePath) -> Manifest | None:
    try:
        return read_manifest(final)
    except TraceError:  # damaged: whoever brings the run anew mends it
        return None


def _clear_away(final: StorePath, current: str, replaced: str) -> None:
    for path in list(final.glob(f"{VERSION}*")):
        name = path.name.removeprefix(VERSION)
        with contextlib.suppress(
            OSError, PipelineError, ValueError
        ):  # what cannot be cleared away now is left to the next one
            is_old = int(name.partition("-")[0], 16) < time.time() - LEFT_SECONDS
            if name != current and (is_old or name == replaced):
                path.remove()


@contextlib.contextmanager
def object_staging(archive: StorePath) -> Iterator[ObjectStaging]:
    yield ObjectStaging(str(archive), secrets.token_hex(8))
