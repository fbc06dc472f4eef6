"""The whole page. The same rows and the same command give the same bytes."""

from collections.abc import Sequence

from resprout import __version__
from resprout.pipeline.report.chapters import CHAPTERS
from resprout.pipeline.report.facts import RunFacts, by_experiment
from resprout.pipeline.report.figures import in_order
from resprout.pipeline.report.markup import Markup, element
from resprout.pipeline.report.sections import GivenCommand, anchor, chapter_section, general_section, missing_section
from resprout.pipeline.report.single_run import run_section
from resprout.pipeline.report.style import CSS, PATTERNS
from resprout.pipeline.report.trail import Trails
from resprout.pipeline.report.verdicts import banner, verdict_section


def page_of(facts: Sequence[RunFacts], trails: Trails, asked: GivenCommand) -> str:
    experiments = by_experiment(facts)
    chapters = [chapter for chapter in CHAPTERS if chapter.experiment in experiments]
    known = {chapter.experiment for chapter in chapters}
    others = [name for name in in_order(experiments) if name not in known]
    contents = [
        ("Verdicts", "verdicts"),
        *((chapter.title, anchor(chapter.experiment)) for chapter in chapters),
        *((_title(experiments[name]), anchor(name)) for name in others),
    ]
    missing = missing_section(known) if chapters else None
    body = [
        element("a", "To the content", href="#content", class_="skip"),
        PATTERNS,
        _header(facts, contents),
        element(
            "main",
            verdict_section(facts),
            [chapter_section(chapter, experiments[chapter.experiment], asked) for chapter in chapters],
            [_other_section(name, experiments[name], trails, asked) for name in others],
            missing,
            id="content",
        ),
        element("footer", element("p", f"Made by resprout {__version__} from the traces alone.")),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "Resprout report"),
        element("style", CSS),
    ]
    return "<!doctype html>\n" + element("html", element("head", head), element("body", body), lang="en") + "\n"


def _header(facts: Sequence[RunFacts], contents: Sequence[tuple[str, str]]) -> Markup:
    links = [element("li", element("a", title, href=f"#{target}")) for title, target in contents]
    return element(
        "header",
        element("h1", "Resprout report"),
        banner(facts),
        element("p", _lead(facts), class_="lead"),
        element("nav", element("ul", links), aria_label="Contents"),
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


def _other_section(name: str, facts: Sequence[RunFacts], trails: Trails, asked: GivenCommand) -> Markup:
    trail = trails.get((name, facts[0].run.run)) if len(facts) == 1 else None
    return general_section(name, facts, asked) if trail is None else run_section(facts[0], trail, asked)
