"""Sessions of MQTT clients in the tree. They run on an event loop that the driver provides, and have no sockets, clocks
or randomness of their own, so the simulator runs the same code as a broker's process."""
