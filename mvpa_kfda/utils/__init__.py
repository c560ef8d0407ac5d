"""What knows no decoding: checks, files, checkpoints, workers."""
