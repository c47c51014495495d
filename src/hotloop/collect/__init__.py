"""Environments → blocks. A collector is `next_block()`, `publish(weights)`, `state()`; nothing here learns."""
