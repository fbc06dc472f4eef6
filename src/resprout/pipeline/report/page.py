"""The whole page. The same rows and the same command give the same bytes.

Jinja fills the templates: text from a trace is escaped, and letters that no page can hold are replaced.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from resprout import __version__
from resprout.pipeline.report.facts import RunFacts, Trails, by_experiment
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.measures import legible
from resprout.pipeline.report.output import GivenCommand
from resprout.pipeline.report.page_tables import anchor
from resprout.pipeline.report.sections import (
    ExperimentSection,
    general_section,
    sweep_command,
    sweep_section,
    targets_of,
)
from resprout.pipeline.report.single_run import RunSection, run_section
from resprout.pipeline.report.sweep_report import SweepReport
from resprout.pipeline.report.verdicts import NOT_KEPT, banner, verdicts_of


def page_of(facts: Sequence[RunFacts], trails: Trails, asked: GivenCommand, reports: Sequence[SweepReport] = ()) -> str:
    """`reports`: of sweeps, those without runs included."""
    experiments = by_experiment(facts)
    place = in_order(report.experiment for report in reports).index
    reports = sorted(reports, key=lambda report: (report.order, place(report.experiment)))
    present = [report for report in reports if report.experiment in experiments]
    known = {report.experiment for report in present}
    others = [name for name in in_order(experiments) if name not in known]
    return page_rendered(
        version=__version__,
        banner=banner(facts),
        lead=_lead(facts),
        contents=[
            ("Verdicts", "verdicts"),
            *((report.heading, anchor(report.experiment)) for report in present),
            *((_title(experiments[name]), anchor(name)) for name in others),
        ],
        verdicts=verdicts_of(facts, targets_of(facts)),
        not_kept=NOT_KEPT,
        sections=[
            *(sweep_section(report, experiments[report.experiment], asked) for report in present),
            *(_other_section(name, experiments[name], trails, asked) for name in others),
        ],
        missing=[(report.heading, sweep_command(report)) for report in reports if report not in present],
    )


def _lead(facts: Sequence[RunFacts]) -> str:
    runs = "1 run" if len(facts) == 1 else f"{len(facts):,} runs"
    stacks = in_order(one.stack for one in facts)
    published, delivered = (sum(getattr(one.run, name) for one in facts) for name in ("publications", "deliveries"))
    return (
        f"{runs} of {'the stack' if len(stacks) == 1 else 'the stacks'} {', '.join(stacks)}:"
        f" {published:,} publications, {delivered:,} deliveries."
    )


def _title(facts: Sequence[RunFacts]) -> str:
    return facts[0].run.scenario or facts[0].run.experiment if len(facts) == 1 else facts[0].run.experiment


def _other_section(
    name: str, facts: Sequence[RunFacts], trails: Trails, asked: GivenCommand
) -> ExperimentSection | RunSection:
    trail = trails.get((name, facts[0].run.run)) if len(facts) == 1 else None
    return general_section(name, facts, asked) if trail is None else run_section(facts[0], trail, asked)


def rendered(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)


def page_rendered(**values: Any) -> str:
    """The whole page: `page.html` with its style sheet and its script. Nothing else is allowed to run in it, or to be
    loaded: it says so to the browser."""
    style, script = source_of("style.css"), source_of("tips.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return rendered("page.html", style=Markup(style), script=Markup(script), script_digest=digest, **values)


def source_of(name: str) -> str:
    """A file of the folder `templates` as it is."""
    templates = environment()
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


@cache
def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("resprout.pipeline.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        keep_trailing_newline=True,
    )


def _finalized(value: object) -> object:
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
