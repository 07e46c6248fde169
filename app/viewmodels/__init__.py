"""What the panels show, as plain values: QtCore only, tested without widgets."""
