"""The judge: a trace in, anomalies with explanations out. Pure, and blind to what protocol made the trace."""
