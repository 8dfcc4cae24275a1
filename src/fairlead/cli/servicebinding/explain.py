"""``fairlead binding explain``: the chain from a workload to its service, and where it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from fairlead.api.meta import JSON
from fairlead.cli.options import cluster_options, json_option, namespace_option
from fairlead.cli.printing import console
from fairlead.cli.texts import to_json


if TYPE_CHECKING:
    from fairlead.explain.explaining import Explanation


@click.command("explain")
@cluster_options
@click.argument("target", required=False, default="", metavar="[KIND/NAME]")
@namespace_option("Namespace of the bindings; default: the context's.")
@json_option
def command(
    target: str, namespace: str, as_json: bool, kubeconfig: str | None, context: str | None
) -> None:
    """Explain whether workloads have the data of their bindings, and if not, why.

    The command follows the chain workload < binding < Secret < service < the provider's object <
    role as far as it goes, and shows the state of each part. For the broken part that is nearest
    to the role it shows the reason and the remedy. KIND/NAME is a workload or a binding, such as
    deployment/web or servicebinding/web-db; without it the command explains all bindings of the
    namespace. The command changes nothing and shows no value of a Secret. The exit code is 0 if
    all is well, else 1.

    \b
    Example:
        fairlead binding explain deployment/web -n shop
        fairlead binding explain servicebinding/web-db -n shop
        fairlead binding explain -n shop --json | jq -r '.chains[] | select(.ready | not).nextStep'
    """  # noqa: D301
    # Imported here: it knows all four systems, and `fairlead binding run` is of one.
    from fairlead.cli.explain import answer, show
    from fairlead.postgres.options import DEFAULT_NAMESPACE

    explanation = answer(
        target, namespace, DEFAULT_NAMESPACE, kubeconfig, context, bindings_only=True
    )
    if as_json:
        click.echo(to_json(_document(explanation)))
    else:
        show(console(), explanation, bindings_only=True)
    raise click.exceptions.Exit(0 if explanation.ready else 1)


def _document(explanation: Explanation) -> JSON:
    """Return the JSON document, in which the subject is called ``binding``."""
    document: JSON = msgspec.to_builtins(explanation)
    document["chains"] = [
        {"binding": chain.pop("subject"), **chain, "works": chain["ready"] or chain["works"]}
        for chain in document["chains"]
    ]
    return document
