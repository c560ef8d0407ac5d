"""Inference for many subjects, from their results."""
