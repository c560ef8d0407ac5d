"""What comes out: the result of every kind of analysis."""
