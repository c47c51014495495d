"""One file per experiment: `trials(config, cores)` gives what is worth trying for this config on this machine."""
