"""What an answer says: brand mentions, their place, and the pages it cites (3-results §3.3)."""
