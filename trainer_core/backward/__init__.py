"""From rows to gradients: the whole graph at once, or layer segment by layer segment."""
