"""Examples of Fairlead's own kinds, whose schemas require less than a login or a binding needs."""

from __future__ import annotations

from typing import Final

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.servicebinding.spec import SERVICEBINDINGS


FIXED: Final = {
    (POSTGRESACCESSES.group, POSTGRESACCESSES.kind): """\
spec:
  connection:
    serverRef:
      # A server that the provider offers.
      name: main
  username: example
  # The Secret that will have the login.
  generatedSecret: example-login
  grants:
  # A database of this server.
  - database: example
    privileges:
    - CONNECT
""",
    (SERVICEBINDINGS.group, SERVICEBINDINGS.kind): """\
spec:
  # The Secret with the login, or an object that names one in its status.
  service:
    apiVersion: v1
    kind: Secret
    name: example-login
  # The app that gets it as files.
  workload:
    apiVersion: apps/v1
    kind: Deployment
    name: example
""",
}
"""The spec, by group and kind."""
