"""One rival per file, and ourselves. Each answers requests from a process of its own, in its own environment."""
