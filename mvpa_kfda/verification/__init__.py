"""Is it true? Results, checked by refitting some of their models from the data."""
