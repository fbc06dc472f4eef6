"""A scenario in a few lines, for people."""

from resprout.scenario.model import Scenario
from resprout.scenario.units import format_duration


def describe(scenario: Scenario) -> str:
    """What was drawn, in a few lines: printed before a run, so that a run that never ends has said what it is."""
    latencies = [broker.latency_us for broker in scenario.brokers[1:]] or [0]
    narrow = sum(broker.bandwidth_bps is not None for broker in scenario.brokers)
    subscriptions = [s for client in scenario.clients for s in client.subscriptions]
    filtered = sum(s.where is not None for s in subscriptions)
    options = ", ".join(f"{name} {value}" for name, value in scenario.options.items()) or "none"
    lines = [f"{scenario.name}: stack {scenario.stack}, options: {options}"]
    lines.append(
        f"  {len(scenario.brokers)} brokers ({narrow} with a bandwidth), links {format_duration(min(latencies))}"
        f" to {format_duration(max(latencies))}, {len(scenario.clients)} clients with {len(subscriptions)}"
        f" subscriptions ({filtered} by content), {len(scenario.faults)} faults"
    )
    for workload in scenario.workloads:
        mix = ", ".join(f"{guarantee.label} {share:g}" for guarantee, share in workload.mix.shares)
        lines.append(
            f"  {workload.kind}: {len(workload.clients)} clients x {workload.operations} operations on"
            f" {len(workload.topics)} topics, {mix}, every {format_duration(workload.interval_us)},"
            f" window {workload.window}, payload {workload.payload}, {workload.keys} keys"
        )
    return "\n".join(lines)
