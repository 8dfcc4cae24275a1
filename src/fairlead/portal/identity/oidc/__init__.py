"""The OpenID Connect client: requests to an issuer, and verification of its tokens."""
