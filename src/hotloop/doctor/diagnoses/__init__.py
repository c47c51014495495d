"""One file each: `find(case)` says what it found, or nothing. A diagnosis reads the case and runs nothing."""
