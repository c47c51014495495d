"""Scripts that are ill in a known way, one per file, for the doctor to examine: PLANTED in the stage doctor_patients
says with what. Each is self-contained: `python FILE [--seconds S] [--fixed NAME …]` ends with one line of JSON."""
