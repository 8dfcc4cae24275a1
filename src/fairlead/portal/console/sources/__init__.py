"""The sources of pages: a provider's caches, per person, or looks at one's own cluster.

Sources fill the model. Rights are a property of the source, and a page asks it without knowing
which it is.
"""
