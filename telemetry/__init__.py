"""What a process counts and measures, and how Prometheus reads it (dispatch §15.1, ADR 0031)."""
