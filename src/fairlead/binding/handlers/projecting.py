"""Projecting: the binding's Secret onto workloads, in place and without duplicates.

The stages in order: choose the Secret; find the workloads; check for required entries; write the
Secret's name at the secretPath (for binding.operators.coreos.com alone); environment variables;
files; the mark of the content; settle each workload; and persist, after the last stage of
``unbinding``. A workload with a conflict is left unchanged, and the others are still projected
onto.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fairlead.api.servicebinding.common import (
    APPLICATION_NOT_FOUND,
    APPLICATION_UPDATED,
    COLLECTION_READY,
    DATA_COLLECTED,
    EMPTY_APPLICATION,
    ERROR,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    NO_BINDING_DATA,
    REQUIRED_BINDING_NOT_FOUND,
    ROOT_VARIABLE,
    WORKLOAD_NOT_ALLOWED,
)
from fairlead.api.servicebinding.wishes import ENVIRONMENT_ANNOTATION
from fairlead.binding import bounds
from fairlead.binding.contexts.protocol import Context, in_one
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.reads import ReadError
from fairlead.binding.services.clients import (
    CA_ENTRY,
    ClientVariable,
    UnsuitableEntriesError,
    besides,
    client_variables,
    withheld_key,
)
from fairlead.binding.services.items import Source
from fairlead.binding.workloads.operations import MappingError, Operations


async def binding_secret(context: Context) -> None:
    """Choose the Secret; this stage is first, so that it exists even without a workload."""
    try:
        await context.choose_secret()
    except ValueError as error:
        context.flow.fail(str(error))
        context.flow.stop_processing()
        context.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, str(error))
        return
    context.set_condition(COLLECTION_READY, "True", DATA_COLLECTED, _hidden(context))


def _hidden(context: Context) -> str:
    """Return a message on entries that another service's hide; the later entry wins."""
    sources: dict[str, Source] = {}
    hidden: dict[str, str] = {}
    for item in context.items():
        if item.source is None:
            continue
        before = sources.get(item.name)
        if before is not None and before != item.source:
            hidden[item.name] = (
                f"entry {item.name} of {before.kind} {before.name} is hidden by the entry of the"
                f" same name of {item.source.kind} {item.source.name}"
            )
        sources[item.name] = item.source
    return "; ".join(hidden[name] for name in sorted(hidden))


async def find_workloads(context: Context) -> None:
    """Stop without workloads; wait for them if they may still be created."""
    try:
        projections = await context.projections()
    except (ReadError, MappingError) as error:
        text = in_one([str(error), *context.refusals])
        if isinstance(error, ReadError) and error.failure.code == "Ineligible":
            context.flow.fail(text)
            context.flow.stop_processing()
            context.set_condition(INJECTION_READY, "False", WORKLOAD_NOT_ALLOWED, text)
            return
        if isinstance(error, ReadError) and error.missing:
            context.flow.wait_for_change(text)
        else:
            transient = isinstance(error, ReadError) and error.transient
            context.flow.retry_processing(text, transient=transient)
        context.set_condition(INJECTION_READY, "False", APPLICATION_NOT_FOUND, text)
        return
    # Refused workloads are reported at the end, and do not make the selection empty.
    if not projections and not context.refusals:
        # Without an error Ready is True: the Secret is there, and nothing else was asked for.
        context.set_condition(INJECTION_READY, "False", EMPTY_APPLICATION)
        context.flow.stop_processing()


def required_entries(*mandatory: str) -> Callable[[Context], None]:
    """Return a handler that stops if the binding lacks entries that its API demands."""

    def handler(context: Context) -> None:
        _check_items(context, mandatory)

    return handler


def _check_items(context: Context, mandatory: tuple[str, ...]) -> None:
    names = {item.name for item in context.items()}
    if not names:
        text = "no binding data to project"
        context.flow.wait_for_change(text)
        context.set_condition(INJECTION_READY, "False", NO_BINDING_DATA, text)
        return
    # The specification demands type; the Secret is in the status by now, as with Service Binding
    # Operator.
    for name in mandatory:
        if name not in names:
            text = (
                f"Mandatory binding '{name}' not found: add the entry to the service's Secret, or "
                f"set it in the binding's spec"
            )
            context.flow.fail(text)
            context.flow.stop_processing()
            context.set_condition(INJECTION_READY, "False", REQUIRED_BINDING_NOT_FOUND, text)
            return
    _check_env(context, names)


def _check_env(context: Context, names: set[str]) -> None:
    """Refuse variables of missing entries, with which a pod would not start.

    Also refuse the binding root as an entry's value: the mount path would be unknown.
    """
    if context.bind_as_files and ROOT_VARIABLE in dict(context.env_bindings):
        text = (
            f"spec.env: {ROOT_VARIABLE} says where bindings are mounted, so it cannot have the"
            " value of an entry: use another name; to use another root, set the variable in the"
            " workload"
        )
        context.flow.fail(text)
        context.flow.stop_processing()
        context.set_condition(INJECTION_READY, "False", ERROR, text)
        return
    if not _suits_client(context):
        return
    absent = [f"{name} reads {key!r}" for name, key in context.env_bindings if key not in names]
    if absent:
        text = (
            f"spec.env: {', '.join(absent)}, but the binding has no such entry: correct the key,"
            " or add the entry to the service's Secret"
        )
        context.flow.wait_for_change(text)
        context.set_condition(INJECTION_READY, "False", REQUIRED_BINDING_NOT_FOUND, text)


def _suits_client(context: Context) -> bool:
    """Stop if the entries do not suit the binding's client; return whether the pass goes on."""
    try:
        variables = _variables_of_client(context)("")
        has_ca = any(item.name == CA_ENTRY for item in context.items())
        if variables and has_ca and not context.bind_as_files:
            raise UnsuitableEntriesError(
                "without files the CA has no path: set spec.bindAsFiles to true, and annotation"
                f' {ENVIRONMENT_ANNOTATION} to "true" if all entries must also be variables'
            )
    except UnsuitableEntriesError as error:
        text, reason = str(error), ERROR
        if error.lacking:
            reason = REQUIRED_BINDING_NOT_FOUND
            context.flow.wait_for_change(text)
        context.flow.fail(text)
        context.flow.stop_processing()
        context.set_condition(INJECTION_READY, "False", reason, text)
        return False
    return True


def _variables_of_client(context: Context) -> Callable[[str], list[ClientVariable]]:
    """Return the function of the variables of the binding's client by the directory's path.

    It returns none without a client, and raises UnsuitableEntriesError for unsuitable entries.
    """
    client = context.client
    if client is None:
        return lambda _: []
    # Once for all containers, since a binding may have many entries.
    entries = {item.name: item.value for item in context.items()}

    def variables(directory: str) -> list[ClientVariable]:
        return client_variables(
            client,
            entries,
            context.env_bindings,
            binding=context.binding_name,
            directory=directory,
            # Without files there is no path of a key.
            mode=context.file_mode if context.bind_as_files else None,
        )

    return variables


async def inject_secret_ref(context: Context) -> None:
    """Write the Secret's name at the ``secretPath`` of each workload that has one."""

    async def project(projection: Operations) -> None:
        if projection.workload.secret_path:
            await projection.secret_name(projection.workload.secret_path, context.secret)

    await _each(context, project)


async def bindings_as_env(context: Context) -> None:
    """Project the whole Secret by envFrom, and single entries as variables, if requested.

    Single ones are those of the spec, and those of the client, with the paths of its files in
    each container.
    """
    client = context.client
    variables = _variables_of_client(context)

    async def project(projection: Operations) -> None:
        for container in projection.containers(context.container_names):
            if context.bind_as_env:
                await projection.whole(container, context.secret)
            of_client: list[ClientVariable] = []
            if client is not None:
                # A path sets SERVICE_BINDING_ROOT, which has a meaning with files alone.
                files = context.bind_as_files
                path = projection.path(container, context.binding_name) if files else ""
                try:
                    of_client = variables(path)
                except UnsuitableEntriesError as error:
                    raise ProjectionError(f"{container}: {error}") from None
            for name, key in besides(context.env_bindings, of_client):
                await projection.variable(container, name, key, context.secret)
            for variable in of_client:
                if variable.key:
                    await projection.variable(
                        container, variable.name, variable.key, context.secret
                    )
                else:
                    await projection.text(container, variable.name, variable.text)

    if context.bind_as_env or context.env_bindings or client is not None:
        await _each(context, project)


async def bindings_as_files(context: Context) -> None:
    """Project files: a Secret volume per workload, and a mount per container."""

    async def project(projection: Operations) -> None:
        containers = projection.containers(context.container_names)
        # An unmounted volume would still make Pods wait for its Secret.
        if containers:
            await projection.volume(context.volume_name, context.secret, context.file_mode)
        for container in containers:
            await projection.mount(container, context.volume_name, context.binding_name)

    if context.bind_as_files:
        await _each(context, project)


async def content_mark(context: Context) -> None:
    """Mark the pods with the content, if a change has to roll them out."""

    async def project(projection: Operations) -> None:
        projection.content(context.content_mark)

    if context.content_mark:
        await _each(context, project)


async def _each(context: Context, project: Callable[[Operations], Awaitable[None]]) -> None:
    """Project onto each workload independently of the others (specification 1.1)."""
    for projection in await context.projections():
        try:
            await project(projection)
        except ProjectionError as error:
            text, name = str(error), str(projection.workload)
            context.refuse(projection, text if name in text else f"{name}: {text}")


async def postflight(context: Context) -> None:
    """Settle each workload, and set InjectionReady."""
    remaining: list[str] = []

    async def project(projection: Operations) -> None:
        remaining.append(projection.settle())

    await _each(context, project)
    if not context.refusals:
        said = [text for text in (_withheld_key(context), *remaining) if text]
        more = f"and {len(said) - bounds.NAMED} more" if len(said) > bounds.NAMED else ""
        text = "; ".join([*said[: bounds.NAMED], more] if more else said)
        context.set_condition(INJECTION_READY, "True", APPLICATION_UPDATED, text)
        return
    text = in_one(context.refusals)
    context.flow.fail(text)
    context.flow.stop_processing()
    context.set_condition(INJECTION_READY, "False", ERROR, text)


def _withheld_key(context: Context) -> str:
    client = context.client
    if client is None or not context.bind_as_files:
        return ""
    entries = {item.name: item.value for item in context.items()}
    return withheld_key(client, entries, context.file_mode)


def persist(context: Context) -> None:
    """Hand over the decisions to the pipeline's caller, also of a pass that stopped early."""
    context.persist()
