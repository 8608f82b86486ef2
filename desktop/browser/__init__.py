"""Driver `browser`: Chromium through a declarative site adapter (2-desktop §2.4). Playwright is imported only here."""
