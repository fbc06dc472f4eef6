"""Names for links inside the page, another one for each experiment and each run."""

import re

from resprout.pipeline.report.facts import RunFacts


def anchor(experiment: str) -> str:
    return f"at-{_plain(experiment)}"


def run_anchor(facts: RunFacts) -> str:
    return f"run-{_plain(facts.run.experiment)}.{_plain(facts.name)}"


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", lambda odd: f"_{ord(odd[0]):x}_", name)
