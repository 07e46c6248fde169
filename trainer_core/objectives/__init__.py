"""From per-token log-probabilities to a loss and its metrics: pure functions, the same for every head."""
