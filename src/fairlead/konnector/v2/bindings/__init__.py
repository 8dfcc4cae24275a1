"""ClusterBindings and Bindings: which objects they cover, their CRDs, and their end.

``controller`` follows the bindings, and runs one ``api.SyncedAPI`` for each API that any of them
lists: a task of its own, so that no API or provider holds up another. ``coverage`` says which
binding decides about an object, ``crds`` what becomes of the consumer's CRD, ``status`` what a
binding reports. An API is synchronised by one engine of ``konnector.sync``, which ``objects``
sets up.
"""
