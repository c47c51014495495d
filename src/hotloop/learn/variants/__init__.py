"""One file per variant of DQN: its Options, what it asks of the target network, and its loss. See `_base`."""
