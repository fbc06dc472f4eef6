"""When a bundle may be shown: the log, duplicate detection, acknowledgement levels."""
