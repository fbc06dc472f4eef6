"""What every run of processes that nobody is lost in has to show."""

from resprout.audit.verdict import Verdict


def assert_everything_arrived(verdict: Verdict, publications: int, subscribers: int) -> None:
    """To everybody who was owed it, which the verdict says. Where processes start slowly, a publication may come before
    a subscription is confirmed: it is not owed then, and need not come. That must be the exception."""
    most = subscribers * publications
    assert verdict.counts["publications"] == publications
    assert 0.8 * most < verdict.counts["owed"] <= verdict.counts["deliveries"] <= most
