"""MQTT in the simulator: brokers serve MQTT clients in virtual time, with the sessions that real brokers have."""
