"""The embedded issuer, for laptops and the demo: people from a file, on this machine only."""
