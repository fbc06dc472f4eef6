"""The table `sweep`: one row for each run, made from what lies in its folder, so it can always be made again."""

from collections.abc import Iterable
from typing import ClassVar

from resprout.pipeline import results
from resprout.pipeline.archive.manifest import read_manifest
from resprout.pipeline.places import RunPlace, place_of, run_folder, version_in
from resprout.pipeline.stores import Location, location
from resprout.pipeline.sweep.plan import SweepPlan, WantedRun
from resprout.pipeline.tables import ResultRow


class SweepRow(ResultRow, kw_only=True, frozen=True):
    TABLE: ClassVar[str] = "sweep"

    labels: dict[str, str]
    seed: int
    stack: str
    ended: str
    rows: int
    publications: int | None
    deliveries: int | None
    wall_s: float | None
    """How long it took to simulate and to write."""
    command: str
    """Makes the same run once more."""


def places_of(plan: SweepPlan, archive: Location, runs: Iterable[WantedRun]) -> list[RunPlace]:
    experiment = plan.sweep.name
    found = ((run.name, version_in(run_folder(archive, experiment, run.name))) for run in runs)
    return [place_of(folder, experiment, name) for name, folder in found if folder is not None]


def store_rows(plan: SweepPlan, archive: Location, runs: list[WantedRun]) -> list[SweepRow]:
    """The rows of finished runs; those that were not in the table are added to it."""
    if not runs:
        return []
    places = places_of(plan, archive, runs)
    made = {place.run: row_of(plan, place, wanted) for place, wanted in zip(places, runs, strict=True)}
    missing = results.missing(archive, [SweepRow], places)
    results.append(archive, SweepRow, [made[place.run] for place in missing])
    return list(made.values())


def row_of(plan: SweepPlan, place: RunPlace, wanted: WantedRun) -> SweepRow:
    manifest = read_manifest(location(place.folder))
    return SweepRow(
        experiment=place.experiment,
        run=place.run,
        digest=place.info.digest,
        labels=wanted.labels,
        seed=place.info.seed,
        stack=str(place.info.scenario.get("stack", "")),
        ended=place.info.ended,
        rows=place.info.rows,
        publications=manifest.publications if manifest else None,
        deliveries=manifest.deliveries if manifest else None,
        wall_s=manifest.wall_s if manifest else None,
        command=plan.command_of(wanted),
    )
