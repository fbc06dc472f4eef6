"""Whether a fault can be done to the nodes of a scenario, whatever driver does it."""

from resprout.core.errors import UsageError
from resprout.scenario.model import FaultKind, FaultSpec, Scenario


def check_possible(scenario: Scenario, fault: FaultSpec) -> None:
    """UsageError for what the stack cannot do."""
    clients = [client.name for client in scenario.clients]
    if fault.kind is FaultKind.LEAVE and (brokers := [name for name in fault.nodes if name not in clients]):
        raise UsageError(f"{brokers[0]} cannot leave: brokers of the stack {scenario.stack!r} stay")
