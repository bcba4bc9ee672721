"""Benchmarks: speed and quality beside peers, one command each."""
