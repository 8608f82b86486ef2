"""Sub-commands of `giveway`, a module each; `cli.py` registers them and nobody else imports them."""
