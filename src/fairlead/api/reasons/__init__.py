"""Tables of the reasons of conditions and Events: explanation, remedy and state of each.

Each of the three systems has a table; commands, pages and docs take their texts from it.
"""
