"""Building blocks that several systems of the laboratory share."""
