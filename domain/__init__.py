"""Pure rules and message types: no I/O, no clock, no database."""
