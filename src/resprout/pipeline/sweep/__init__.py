"""Sweeps: many simulations as Spark tasks, straight into an archive."""
