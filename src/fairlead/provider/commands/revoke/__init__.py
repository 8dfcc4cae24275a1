"""Taking a consumer away: its access first, then its data, and its cluster namespace last.

Every step looks at what is there and takes away what it finds, so that whoever was interrupted
does it again. The cluster namespace carries the identity and therefore goes last.
"""
