"""The wake-ups of reports. They stand here because structures are not compiled, and reports are."""

from resprout.core.contract import Timer


class ReportTaken(Timer, frozen=True):
    """When to tell neighbours, and clients that do not wait for it, how far the bundles that they sent have come."""


class ReportSpread(Timer, frozen=True):
    """When to tell neighbours how far the bundles that they were sent have come elsewhere."""


class ReportTotals(Timer, frozen=True):
    """When to tell neighbours of totals that are not delivered everywhere yet."""
