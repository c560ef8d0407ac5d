"""Parts that the figures share."""
