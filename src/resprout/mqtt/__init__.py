"""MQTT 3.1, 3.1.1 and 5 without input and output: packets, codec, the session machine of the server, retained store."""
