"""What every run of processes that nobody is lost in has to show."""

from resprout.audit.verdict import Verdict


def assert_everything_arrived(verdict: Verdict, publications: int, subscribers: int) -> None:
    """To every subscriber: all of them are subscribed before the first publication."""
    assert verdict.counts["publications"] == publications
    assert verdict.counts["owed"] == verdict.counts["deliveries"] == subscribers * publications
