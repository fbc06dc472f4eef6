"""MQTT 3.1, 3.1.1 and 5 without I/O: packets, codec, the server's session state machine, the retained message store."""
