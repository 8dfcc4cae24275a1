"""An embedded PostgreSQL for the demo and the tests, from a wheel, listening on loopback alone."""
