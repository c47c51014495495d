"""What runs inside the examined script's own process: probes, sampler, recorder, remedies. Standard library only and
Python 3.9 or newer, since it is loaded by path into interpreters that have no hotloop. It interprets nothing."""
