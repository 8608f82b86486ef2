"""Reference desktop client (2-desktop §2.2–2.4): a library and a program that knows the protocol alone."""
