"""``geartrain bench seconds``: the user's clock on problems with real structure."""
