"""Temporal workflows, one a file: order of steps, signals, generations, deadlines. No traffic, no I/O."""
