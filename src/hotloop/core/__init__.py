"""The nouns every stage shares. Knows no stage, imports nothing of ours and no torch."""
