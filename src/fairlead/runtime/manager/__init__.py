"""Programs: clusters and controllers as one tree of tasks.

``manager`` runs the tree, ``lease`` elects who leads, ``health`` answers probes and serves what
``metrics`` counts.
"""
