"""The write path: a module a stage, in the order in which data flows."""
