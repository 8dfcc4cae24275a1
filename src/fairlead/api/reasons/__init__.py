"""Each reason of conditions and Events once: what happened, what helps, and how bad it is.

A table for each of the three systems; their commands, pages and docs tell it in these words.
"""
