"""Makes a release: ``hack/release``.

All of it is made of one commit: wheel, sdist, image with its bill of materials, signed chart, the
changelog's section, checksums. It is there as a whole or not at all, so that it may be said again
after a kill; a registry is written to only when one is named.
"""
