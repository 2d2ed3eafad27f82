"""Benchmarks: each writes its numbers to `results/` with what is needed to read them."""
