"""``geartrain bench composite``: problems with a non-smooth term, and what people use for them."""
