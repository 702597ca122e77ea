"""The read path: one user's index, the ranking over it, and the text of a recall."""
