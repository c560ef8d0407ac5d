"""The command line ``mvpa-kfda``."""

from .main import main

__all__ = ["main"]
