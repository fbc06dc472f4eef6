"""The contract everything else is written against. Imports nothing from the project but itself."""
