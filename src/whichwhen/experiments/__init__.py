"""Sets of runs that belong together, declared as specs."""
