"""Bindings of Compose services: the same pipeline without a cluster.

``project`` reads Compose files, ``operations`` implements the operations on a service,
``override`` generates the Compose file and its secret files.

Source: the Compose specification (https://github.com/compose-spec/compose-spec). Spring Cloud
Bindings reads the files below SERVICE_BINDING_ROOT by the Service Binding specification.
"""
