"""The command line: thin. Reads arguments, calls the floors below, prints."""
