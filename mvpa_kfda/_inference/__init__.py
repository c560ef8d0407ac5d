"""From scores and permuted scores to p-values: arrays in, arrays out."""
