"""What the filters floor promises, checked against independent readings of the same rules."""
