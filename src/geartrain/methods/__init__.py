"""The methods: one algorithm a file."""
