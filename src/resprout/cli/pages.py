"""Writes the page of a report: for `report`, and for whoever has made runs and shows them at once."""

from contextlib import nullcontext

from resprout.cli.progress import shown
from resprout.pipeline.report.command import GivenCommand
from resprout.pipeline.report.gather import find_all, gather, unknown
from resprout.pipeline.report.output import check_drawer, check_target, write_whole
from resprout.pipeline.report.sweep_report import known_reports
from resprout.pipeline.session import SparkChoice, check_installed, session
from resprout.pipeline.worth import is_worth_spark


def write_page(asked: GivenCommand, spark: SparkChoice, option: str = "--out") -> int:
    """How many runs are on it. Spark is started when there is much to look at, or when an option says how."""
    check_target(asked.out, option)
    found = find_all(asked.folders)
    reports = known_reports(asked.folders, asked.sweeps)
    check_installed()
    check_drawer()
    needs_spark = is_worth_spark(unknown(found), spark)
    with shown("looked at") as bar, session(spark) if needs_spark else nullcontext() as running:
        gathered = gather(running, found, bar.show)
    from resprout.pipeline.report.page import page_of  # brings the drawer, which a folder without runs does not need

    write_whole(asked.out, page_of(gathered.facts, gathered.trails, asked, reports), option)
    return len(gathered.facts)
