"""Duties of each program before it goes, one module for each."""
