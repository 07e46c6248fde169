"""How sequences go through the layers: padded batches, or a prompt followed by its answers."""
