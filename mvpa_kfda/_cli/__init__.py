"""The commands, and what they write and print."""
