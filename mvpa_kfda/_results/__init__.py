"""What results are made of: their base, file, channels, space, summaries."""
