"""The dispatcher's rules in virtual time: the code of `domain/` under a day's load, to plan past one machine."""
