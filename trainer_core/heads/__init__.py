"""From hidden states to log-probabilities: several ways, one signature, equal results."""
