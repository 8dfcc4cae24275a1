"""Objects of exported kinds as pages show them.

``standing``, ``rows``, ``timeline``, ``readable`` and ``waits`` make what is shown from objects
alone; ``history`` remembers, ``kinds`` watches, and ``sights`` asks who may see what.
"""
