"""Bindings of Compose services: no cluster, the same pipeline.

``project`` reads Compose files, ``operations`` is what can be done to a service, ``override``
makes the Compose file and the secret files of it.

Source: the Compose specification (https://github.com/compose-spec/compose-spec); Spring Cloud
Bindings reads what is below SERVICE_BINDING_ROOT as the Service Binding specification has it.
"""
