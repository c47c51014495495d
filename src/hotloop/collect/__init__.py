"""Environments → blocks. A collector is what `collector.py` says; nothing here learns."""
