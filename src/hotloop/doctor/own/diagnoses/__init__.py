"""One file per diagnosis: `find(examined)` says what the evidence supports, with the gain that was measured."""
