"""The conformance suite of `giveway.v1`, both directions: against any hub, and as a scripted hub against any client."""
