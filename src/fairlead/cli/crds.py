"""``fairlead crds``: the CustomResourceDefinitions, as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from fairlead.api import kbind, kubebind
from fairlead.api import postgresaccess as access
from fairlead.api.meta import JSON
from fairlead.api.servicebinding import spec as servicebinding


GROUPS = {
    "provider": kubebind.provider_crds,
    "consumer": kubebind.consumer_crds,
    "kbind": kbind.crds,
    "postgres": access.crds,
    "binding": servicebinding.crds,
}


def to_yaml(documents: list[JSON]) -> str:
    """Return objects as one YAML stream, with the fields in their order."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Dumper without anchors and aliases: repeated parts are written in full, for readers."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def file_name(crd: JSON) -> str:
    """Return the file of a CRD in ``config/crd``, as kubebuilder names them."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


@click.command("crds")
@click.argument("group", type=click.Choice(sorted(GROUPS)), required=False)
@click.option(
    "--without-rules",
    is_flag=True,
    help="Leave out the validation rules (x-kubernetes-validations), which kubectl refuses for "
    "Kubernetes below 1.23. The controllers check the rules that matter for safety, too.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each CRD into this folder instead of printing.",
)
def command(group: str | None, without_rules: bool, output_dir: Path | None) -> None:
    """Print the CustomResourceDefinitions as YAML.

    Apply them in the cluster in which the program runs. A consumer's cluster gets the CRDs of its
    provider from `fairlead bind`; applying others there would overwrite them.

    \b
    Examples:
        fairlead crds provider | kubectl apply -f -
        fairlead crds --without-rules | kubectl apply -f -    # Kubernetes below 1.23
    """  # noqa: D301
    crds = [crd for name in ([group] if group else GROUPS) for crd in GROUPS[name]()]
    if without_rules:
        crds = [_without_rules(crd) for crd in crds]
    if output_dir is None:
        if any(crd != _without_rules(crd) for crd in crds):
            click.echo(_HINT)
        click.echo(to_yaml(crds), nl=False)
        return
    output_dir.mkdir(parents=True, exist_ok=True)
    for crd in crds:
        (output_dir / file_name(crd)).write_text(to_yaml([crd]))


_RULES = "x-kubernetes-validations"
_HINT = f"""\
# For Kubernetes 1.23 and newer. An older one does not know {_RULES}: there say
# `fairlead crds --without-rules`, or `kubectl apply --validate=false`."""


def _without_rules(value: Any) -> Any:
    """Return a schema, or any part of a CRD, without CEL rules."""
    if isinstance(value, dict):
        return {name: _without_rules(one) for name, one in value.items() if name != _RULES}
    if isinstance(value, list):
        return [_without_rules(one) for one in value]
    return value
