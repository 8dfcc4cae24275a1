"""The served resources and the rules of each.

``types`` has the resource type with its strategy, ``registry`` finds one by group, version and
plural, ``custom`` makes types from CustomResourceDefinitions. ``metadata`` has the rules for
metadata of every kind, ``columns`` the columns of Tables.
"""
