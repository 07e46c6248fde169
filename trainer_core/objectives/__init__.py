"""From per-token log-probabilities to a loss and its metrics: pure functions for any head."""
