"""`giveway clients`: the fleet as an operator sees it."""

import typer

app = typer.Typer(no_args_is_help=True, help="The fleet: who is online, what runs, which logins are broken.")
