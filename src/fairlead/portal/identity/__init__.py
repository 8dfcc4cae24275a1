"""Identity: people of an issuer, their sessions, and sign-in."""
