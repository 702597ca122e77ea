"""The ways in which `tests/sabotage.py` breaks the package, a module a part."""
