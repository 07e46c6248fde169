"""What the window reads beside the engine thread: rows, models and runs; nothing of MLX."""
