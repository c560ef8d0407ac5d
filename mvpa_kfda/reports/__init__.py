"""What to hand on: a paragraph for a paper, a page for a laboratory."""
