"""The resources that the server serves, and the rules of each.

``types`` has the resource type with its strategy, ``registry`` finds one by group, version and
plural, ``custom`` makes them out of CustomResourceDefinitions. ``metadata`` has the rules that
hold for every kind, ``columns`` what a Table shows.
"""
