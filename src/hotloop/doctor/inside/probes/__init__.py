"""One file per library: `install(doctor)` puts its probes where they belong, now or as soon as it is imported."""
