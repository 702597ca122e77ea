"""What people ask of a memory about them: list, correct, explain, report, move and forget it."""
