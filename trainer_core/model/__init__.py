"""Models: finding, loading and adapting them."""
