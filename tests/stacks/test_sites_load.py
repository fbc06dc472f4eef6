"""Sites under more load than a leader takes at a time: proposals wait, and none is lost."""

import pytest

from resprout.replicas import proposer
from resprout.replicas.ledger import Chosen, News
from resprout.replicas.messages import SlotEntry
from resprout.scenario.model import ChatterOptions, Mix, Scenario, WorkloadSpec
from resprout_lab.sites import agreement
from resprout_lab.sites.commands import Keeping, decode
from tests.stacks.sites_runs import WORK_BEGINS_US, Played, clients, play, scenario, sites

HOMES = {f"c{number}": f"s{number % 3}{letter}" for number, letter in enumerate("abcabc")}


def conversation(answers: int = 60) -> Scenario:
    """Clients of all sites that publish in reaction to deliveries, far more at once than the log decides at a time."""
    said = WorkloadSpec(
        "chatter", tuple(HOMES), ("t", "u"), operations=8, mix=Mix(eventual=0.5, total=0.5), interval_us=1_000,
        start_us=WORK_BEGINS_US, options=ChatterOptions(answers_max=answers),
    )  # fmt: skip
    return scenario(sites(), clients(HOMES, "t", "u"), said)


def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader with little room."""
    monkeypatch.setattr(proposer, "UNDER_WAY_MAX", 4)
    monkeypatch.setattr(proposer, "PENDING_MAX", 24)
    monkeypatch.setattr(agreement, "OFFERED_MAX", 8, raising=False)


def test_a_leader_with_a_full_queue_loses_no_proposal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that refused a proposal used to decide it seconds later or, in a run that comes to rest, never."""
    narrow(monkeypatch)
    played = play(conversation())
    played.check_clean()
    assert len(played.delivered("c0")) > 200


def test_no_leader_refuses_what_honest_brokers_propose(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas_max = 7
    assert replicas_max * agreement.OFFERED_MAX < proposer.PENDING_MAX
    refused = []
    take = proposer.Proposer.take

    def taken(self: proposer.Proposer, entry: SlotEntry) -> bool:
        refused.extend([] if take(self, entry) else [entry])
        return True

    narrow(monkeypatch)
    monkeypatch.setattr(proposer.Proposer, "take", taken)
    play(conversation(20))
    assert not refused


def test_one_watermark_of_a_link_is_under_way_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each acknowledgement used to add a command of its own to a queue that was full already."""
    decided = []
    learn = agreement.Agreement.learn

    def learned(self: agreement.Agreement, news: News) -> None:
        learn(self, news)
        if isinstance(news, Chosen) and news.entry.command:
            decided.append(decode(news.entry.command))

    monkeypatch.setattr(agreement.Agreement, "learn", learned)
    played: Played = play(conversation(100))
    played.check_clean()
    watermarks = sum(isinstance(command, Keeping) for command in decided)
    assert 0 < watermarks < len(decided) / 20
    for broker in played.brokers.values():
        assert all(len(link.out) < 64 for link in broker.agreement.state.links.values())
