"""`giveway demo`: the main job on the embedded stack, driven through the public interfaces alone."""
