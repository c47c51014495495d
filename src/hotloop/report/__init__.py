"""What a person sees of a run. Knows figures, not the parts they came from; never imports torch."""
