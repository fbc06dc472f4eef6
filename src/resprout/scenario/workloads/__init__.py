"""What clients do: one application per file. Their options are in `scenario.model`."""
