"""Numbers of runs: latencies by guarantee and phase, repairs, throughput, what a delivery cost, load of each node.

A run is measured by one Spark task, as columns of numbers (`measure_run`); many runs are measured side by side
(`measure_runs`), and those of an archive once (`measure`), until their trace changes.
"""

from resprout.pipeline.metrics.measuring import Measurements, measure, measure_run, measure_runs

__all__ = ["Measurements", "measure", "measure_run", "measure_runs"]
