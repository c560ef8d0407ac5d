"""Is it chance? Permutations, their null, and corrected p-values."""
