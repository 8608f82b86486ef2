"""The effects that workflows call, one class a file. Each effect is idempotent and one transaction."""
