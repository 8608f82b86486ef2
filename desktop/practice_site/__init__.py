"""A small chat site to try the browser driver on: `giveway desktop practice-site`. It imitates no real one."""
