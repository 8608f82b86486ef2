"""Driver `api`: questions go to OpenAI-compatible endpoints, chat completions or responses (2-desktop §2.4)."""
