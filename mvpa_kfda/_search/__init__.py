"""What the run loop is made of: memory, workers, stacks, what a run yields."""
