"""What the server knows of each resource that it serves, and how it finds it.

``types`` has the resource type with its strategy, ``registry`` finds one by group, version and
plural, ``custom`` makes them out of CustomResourceDefinitions. ``metadata`` has the rules that
hold for every kind, ``columns`` what a Table shows.
"""
