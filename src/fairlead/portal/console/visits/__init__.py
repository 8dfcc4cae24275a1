"""Requests of a browser: its session, the tokens of its forms, and the routes of pages."""
