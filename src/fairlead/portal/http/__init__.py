"""The HTTP server: sockets, TLS, the middleware of all requests, headers, errors and metrics."""
