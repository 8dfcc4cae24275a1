"""The objects of both Service Binding APIs.

:mod:`.spec` is ``servicebinding.io``, :mod:`.coreos` is ``binding.operators.coreos.com``;
:mod:`.common` has what both share, :mod:`.mapping` tells where a workload keeps its containers.
"""
