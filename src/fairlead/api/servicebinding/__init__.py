"""The objects of both Service Binding APIs.

Sources: https://servicebinding.io/spec/core/1.1.0/ and
https://github.com/redhat-developer/service-binding-operator.
:mod:`.spec` is ``servicebinding.io``, :mod:`.coreos` is ``binding.operators.coreos.com``;
:mod:`.common` has what both share, :mod:`.mapping` tells where a workload keeps its containers.
"""
