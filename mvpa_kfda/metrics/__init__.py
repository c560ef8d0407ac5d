"""How predictions are scored, of any number of label vectors at once."""
