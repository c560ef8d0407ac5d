"""How it looks: the figures of all results."""
