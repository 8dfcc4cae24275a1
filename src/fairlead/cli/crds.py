"""``fairlead crds``: the CustomResourceDefinitions, as YAML."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from fairlead.api import kubebind
from fairlead.api import postgresaccess as access
from fairlead.api.meta import JSON
from fairlead.api.servicebinding import spec as servicebinding


GROUPS = {
    "provider": kubebind.provider_crds,
    "consumer": kubebind.consumer_crds,
    "postgres": access.crds,
    "binding": servicebinding.crds,
}


def to_yaml(documents: list[JSON]) -> str:
    """Several objects as one YAML stream, fields in the order in which they were written."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=100)


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts in full: kubectl reads no anchors that we would want to explain."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def file_name(crd: JSON) -> str:
    """The file of a CRD in ``config/crd``, as kubebuilder names them."""
    spec = crd["spec"]
    return f"{spec['group']}_{spec['names']['plural']}.yaml"


@click.command("crds")
@click.argument("group", type=click.Choice(sorted(GROUPS)), required=False)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write one file for each CRD here instead of printing.",
)
def command(group: str | None, output_dir: Path | None) -> None:
    """Print the CustomResourceDefinitions as YAML.

    \b
    Example:
        fairlead crds provider | kubectl apply -f -
    """  # noqa: D301
    crds = [crd for name in ([group] if group else GROUPS) for crd in GROUPS[name]()]
    if output_dir is None:
        click.echo(to_yaml(crds), nl=False)
        return
    output_dir.mkdir(parents=True, exist_ok=True)
    for crd in crds:
        (output_dir / file_name(crd)).write_text(to_yaml([crd]))
