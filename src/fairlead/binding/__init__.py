"""Service bindings: a backing service's connection data reaches a workload.

What comes in: a ServiceBinding of servicebinding.io or binding.operators.coreos.com, which names
services and workloads. The controller runs a pipeline of handlers over a context: they collect
entries from the services, name them, put them together as a Secret, and project that onto the
workloads. Handlers decide only: they read from a snapshot and write into the context. What goes
out: the Secret, changed workloads, and a status with its Event, written at the end in an order
that never leaves a projection unaccounted for. What was read is watched until the next pass.

``pipeline`` has the stages of both APIs, ``handlers`` one module for each part of the way,
``contexts`` what each API has, ``cluster`` what is read from and written to a cluster, and
``expressions`` the languages that users write in.

Sources: the Service Binding specification 1.1 (https://servicebinding.io/spec/core/1.1.0/), and
Service Binding Operator for binding.operators.coreos.com
(https://redhat-developer.github.io/service-binding-operator/).
"""
