"""From files to token ids and masks: `load.read_rows`, `load.tokenise`, `batches.windows`."""
