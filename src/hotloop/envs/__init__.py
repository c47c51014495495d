"""The worlds, one file each: batches of lanes that write into arrays they are given."""
