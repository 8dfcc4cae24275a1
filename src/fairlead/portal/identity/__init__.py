"""Who asks: people of an issuer, their sessions, and how they sign in."""
