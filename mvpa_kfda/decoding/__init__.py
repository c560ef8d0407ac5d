"""Decoding for one subject: epochs, arrays, images, and the run loop."""
