"""What people ask of a memory about them: correct, explain, report, move and forget it."""
