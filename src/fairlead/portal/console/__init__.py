"""Pages for people, rendered by the server; they work without script.

``pages`` has what every page needs, ``visits`` the session of a browser and the routes of pages.
``views`` are the pages about bindings and objects that both consoles have; ``sources`` fill the
model for them. ``offers`` and ``consumers`` are pages of a provider, ``own`` those of ``fairlead
console``. ``examples`` makes an object of a CRD's schema, and ``topology`` makes trees of chains.
"""
