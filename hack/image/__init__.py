"""Builds the image without a daemon and without a base image: ``make image``.

Debian's Python is unpacked, the pinned requirements and the package lie on top, and each is a
layer. Nothing else is in it: no shell, no package manager, no program but Python and ours.
"""
