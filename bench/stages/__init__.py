"""One measurement per file: `run(quick) -> (settings, rows)`. The name of the file is the name of the stage."""
