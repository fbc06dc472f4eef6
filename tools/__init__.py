"""What is needed to build the package, and not to use it."""
