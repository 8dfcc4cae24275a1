"""The values that pages show: states, timelines, readable objects and lists. Pure.

A page asks the model, and never which console it stands in.
"""
