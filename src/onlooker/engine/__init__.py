"""The only place that waits: it loads, asks the policy, calls the model, and commits."""
