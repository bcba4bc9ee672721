"""Hostile inputs for every public entry point: each must be answered well, or refused in words.

`make fuzz N=20000 SEED=7` runs that many library calls, the relations that must hold between
calls, and command lines. A case is known by a seed and its name alone, such as `call:381`.
"""
