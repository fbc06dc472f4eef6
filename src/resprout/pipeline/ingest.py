"""Traces into an archive: any number at once, each verified row by row in a task of its own.

Either all of them come in or, when something is wrong with one, none. A run that is there already is left as it is, so
the same command can be given again. Only a kill while the verified runs are moved to their places lets some in and not
others, each of them whole.

Tasks copy from and to paths, so on a cluster the traces and the archive lie where all its machines see them.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from resprout.core.errors import ResproutError
from resprout.pipeline.archive import PARTS, Stage, check_trace, digest_if_sound, staging_in, write_manifest
from resprout.pipeline.errors import PipelineError
from resprout.pipeline.places import (
    FIGURES_FOLDER,
    archived_runs,
    check_archive,
    check_usable,
    info_in,
    is_archive,
    make_archive,
    place_of,
    run_folder,
    version_in,
)
from resprout.pipeline.session import SparkChoice, session
from resprout.pipeline.stores import Location, fetch, found_in, location, put
from resprout.pipeline.tasks import run_each
from resprout.trace.store import INFO_NAME

NAME_BYTES_MAX: Final = 255
"""Of a folder, on every common file system."""

OnProgress = Callable[[int, int], None]
"""Told how many runs of how many are verified."""


class TraceSource(msgspec.Struct, frozen=True):
    """A trace on its way into the archive."""

    experiment: str
    run: str
    folder: str
    """Whole: a task may begin in another folder than whoever named it."""
    digest: str

    @property
    def name(self) -> str:
        return f"{self.experiment}/{self.run}"


class Added(msgspec.Struct, frozen=True):
    added: tuple[str, ...]
    """Names, `experiment/run`."""
    replaced: tuple[str, ...]
    there: tuple[str, ...]
    """With the same digest: nothing was done about them."""


class _Staged(msgspec.Struct, frozen=True):
    source: TraceSource
    folder: str = ""
    reason: str = ""
    """Why it cannot be archived, when it cannot."""


def add_runs(
    archive: Location,
    folders: Sequence[Location],
    *,
    experiment: str | None = None,
    replace: bool = False,
    choice: SparkChoice = SparkChoice(),  # noqa: B008 (it is frozen)
    on_progress: OnProgress = lambda done, all_runs: None,
) -> Added:
    """Adds traces, folders of traces, and the runs of other archives with their figures. Makes the archive when there
    is none. Spark is started only when something is to be added. UsageError, in one line, for whatever cannot be."""
    check_usable(archive)
    sources = _without_doubles(_sources(folders, experiment))
    there = {source: digest for source in sources if (digest := _digest_in(archive, source, replace)) is not None}
    other = [source for source in sources if there.get(source, source.digest) != source.digest]
    if other and not replace:
        more = f" (and {len(other) - 1} more)" if len(other) > 1 else ""
        raise PipelineError(
            f"{other[0].name}: in the archive with another digest{more}; --replace exchanges it, --experiment renames"
        )
    others = set(other)
    todo = [source for source in sources if source not in there or source in others]
    moved = _move_in(archive, todo, replace, choice, on_progress) if todo else set()
    if experiment is None:
        for folder in folders:
            _bring_figures(archive, folder, replace)
    return Added(
        added=tuple(source.name for source in todo if source.name in moved and source not in others),
        replaced=tuple(source.name for source in other if source.name in moved),
        there=tuple(source.name for source in sources if source.name not in moved),
    )


def _move_in(
    archive: Location, todo: Sequence[TraceSource], replace: bool, choice: SparkChoice, on_progress: OnProgress
) -> set[str]:
    """The names of those that were not there, after all: somebody else may add the same ones."""
    for source in todo:
        place_of(location(source.folder), source.experiment, source.run)  # what can be said without reading rows
    with session(choice) as spark, staging_in(make_archive(archive)) as stage:
        staged: list[_Staged] = []
        try:
            for result in run_each(spark, partial(_stage, stage), todo):
                staged.append(result)
                on_progress(len(staged), len(todo))
            _check_all(staged)
        except BaseException:
            stage.clear([it.folder for it in staged if it.folder])
            raise
        return {
            it.source.name for it in staged if stage.publish(it.folder, it.source.experiment, it.source.run, replace)
        }


def _sources(folders: Sequence[Location], experiment: str | None) -> Iterator[TraceSource]:
    for folder in folders:
        if (folder / INFO_NAME).exists() or not folder.is_dir():
            yield _source(folder, experiment, folder.resolve().name)
            continue
        found = list(_below(folder, experiment, ""))
        if not found:
            raise PipelineError(f"{folder}: holds no trace ({INFO_NAME})")
        yield from found


def _below(folder: Location, experiment: str | None, name: str) -> Iterator[TraceSource]:
    """Archives keep the names of their runs; traces are called by the way to them."""
    if is_archive(folder):
        check_archive(folder)
        for place in archived_runs(folder):
            yield TraceSource(experiment or place.experiment, place.run, place.folder, place.info.digest)
    elif (folder / INFO_NAME).exists():
        yield _source(folder, experiment, name)
    else:
        for path in found_in(folder, "*"):
            if path.is_dir():
                yield from _below(path, experiment, f"{name}/{path.name}" if name else path.name)


def _bring_figures(archive: Location, folder: Location, replace: bool) -> None:
    """Runs of other archives come with the figures of their sweeps. Those that are there stay, unless they are to be
    replaced."""
    if not is_archive(folder):
        for path in found_in(folder, "*") if not (folder / INFO_NAME).exists() else ():
            if path.is_dir():
                _bring_figures(archive, path, replace)
        return
    for path in found_in(folder / FIGURES_FOLDER, "*.json"):
        kept = archive / FIGURES_FOLDER / path.name
        try:
            if replace or not kept.exists():
                put(kept, path.read_bytes())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise PipelineError(f"{error.filename or kept}: the figures cannot be copied: {reason}") from None


def _source(folder: Location, experiment: str | None, run: str) -> TraceSource:
    info = info_in(folder)
    name = experiment or info.scenario.get("name")
    source = TraceSource(name if isinstance(name, str) and name else run, run, str(folder.absolute()), info.digest)
    longest = max(len(part) for part in run_folder(Path(), source.experiment, source.run).parts)
    if longest > NAME_BYTES_MAX:
        raise PipelineError(f"{folder}: its name is too long for a folder; name it with --experiment")
    return source


def _without_doubles(sources: Iterator[TraceSource]) -> list[TraceSource]:
    found: dict[str, TraceSource] = {}
    for source in sources:
        first = found.setdefault(source.name, source)
        if first.digest != source.digest:
            raise PipelineError(
                f"{first.folder} and {source.folder} are different runs and would both be called {source.name};"
                " add them one by one, with --experiment"
            )
    return list(found.values())


def _digest_in(archive: Location, source: TraceSource, replace: bool) -> str | None:
    """Of the run that has this place; None when it is free. A damaged run has no digest to whoever replaces."""
    folder = version_in(run_folder(archive, source.experiment, source.run))
    if folder is None:
        return None
    return digest_if_sound(folder) or "" if replace else info_in(folder).digest


def _stage(stage: Stage, source: TraceSource) -> _Staged:
    """In a task. The copy is what is verified, so nothing that changes meanwhile can come in unseen."""
    origin = location(source.folder)
    copy = stage.new_folder()
    try:
        for path in (*found_in(origin, PARTS), origin / INFO_NAME):
            fetch(path, copy / path.name)
        info = place_of(copy, source.experiment, source.run).info
        write_manifest(copy, info, check_trace(copy))
        if info.digest == source.digest:
            return _Staged(source, stage.bring(copy, source.experiment, source.run))
    except OSError as error:
        reason = f"{error.filename or origin}: {(error.strerror or str(error)).lower()}"
        stage.drop(copy)
        return _Staged(source, reason=reason)
    except ResproutError as error:
        stage.drop(copy)
        return _Staged(source, reason=str(error).replace(str(copy), str(origin)))  # the user knows only the original
    stage.drop(copy)
    return _Staged(source, reason=f"{origin}: it was written anew meanwhile")


def _check_all(staged: Sequence[_Staged]) -> None:
    if bad := sorted(it.reason for it in staged if it.reason):
        more = f" (and {len(bad) - 1} more traces that cannot be archived)" if len(bad) > 1 else ""
        raise PipelineError(f"{bad[0]}{more}; nothing was archived")
