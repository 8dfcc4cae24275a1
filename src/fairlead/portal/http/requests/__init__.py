"""Reading of requests: address, parameters and body, with the limits of each."""
