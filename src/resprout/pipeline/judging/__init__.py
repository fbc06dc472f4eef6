"""The judge on Spark: the same verdicts as `resprout.audit.judge`, over many runs at once."""

from resprout.pipeline.judging.runs import judge_runs

__all__ = ["judge_runs"]
