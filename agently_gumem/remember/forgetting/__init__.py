"""Forgetting: what rests on what, what else says it, and how it goes for good."""
