"""Objects of exported kinds as pages show them.

``standing``, ``rows``, ``timeline``, ``readable`` and ``waits`` are functions of objects;
``history`` records transitions, ``kinds`` watches, and ``sights`` checks rights.
"""
