"""What the user sees: one panel per file, no logic."""
