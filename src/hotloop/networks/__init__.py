"""Observation → Q-values. A torso is one file here: `Options` and `torso(spec, options)`; heads stand in
`_heads`. One without a place for a head has `whole(spec, options)` instead."""
