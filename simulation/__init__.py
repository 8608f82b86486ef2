"""The same domain rules in virtual time, to plan past one machine."""
