"""Runs a workload's container as a local process, with a kubelet's environment and files.

The pod template's environment and volumes are resolved from the cluster. Volumes become files in
a private temporary folder, and paths below a mountPath in environment values are rewritten to that
folder.
Image, init containers, probes and limits are ignored.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import ROOT_VARIABLE
from fairlead.client import Client, NotFound
from fairlead.demo.pods.source import PodRunError, PodSource
from fairlead.demo.pods.volumes import Mounts, mount


# Names as a kubelet takes them without KEP-4369, which allows nearly every printable character.
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


async def environment(container: JSON, source: PodSource) -> dict[str, str]:
    """Resolve the variables of ``envFrom`` and ``env``, the later winning; expand ``$(NAME)``.

    Raises:
        PodRunError: a referenced object is missing, or a value exists on nodes only.
    """
    result: dict[str, str] = {}
    for item in container.get("envFrom") or []:
        entries = await _whole(item, source)
        prefix = item.get("prefix") or ""
        for key, content in entries.items():
            # A kubelet leaves out keys that cannot be names of variables, and starts the container
            # all the same.
            if _NAME.fullmatch(prefix + key):
                result[prefix + key] = _text(prefix + key, content)
    for item in container.get("env") or []:
        # As with a kubelet, $(NAME) means a variable that was defined before this one.
        value = await _variable(item, source, result)
        if value is not None:
            result[item["name"]] = value
    return result


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` by the value of a known variable, and ``$$`` by one dollar sign.

    An unknown name stays as it is: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/.
    """

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


async def _whole(item: JSON, source: PodSource) -> Mapping[str, bytes]:
    if reference := item.get("secretRef"):
        secret = await source.secret(reference["name"], optional=bool(reference.get("optional")))
    elif reference := item.get("configMapRef"):
        secret = await source.config_map(
            reference["name"], optional=bool(reference.get("optional"))
        )
    else:
        secret = None
    return secret or {}


async def _variable(item: JSON, source: PodSource, variables: Mapping[str, str]) -> str | None:
    """Resolve one variable; return None if its optional source is missing."""
    origin: JSON | None = item.get("valueFrom")
    name = item["name"]
    if not origin:
        return expand(item.get("value") or "", variables)
    if "fieldRef" in origin:
        return source.field(origin["fieldRef"]["fieldPath"])
    for kind, field in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if field in origin:
            value = await source.entry(kind, origin[field])
            return None if value is None else _text(name, value)
    raise PodRunError(f"variable {name} has a source that is known on a node alone")


def _text(name: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise PodRunError(f"variable {name} would not be text: mount it as a file") from None
    # A process gets its environment as C strings, which end at a null.
    if "\0" in text:
        raise PodRunError(f"variable {name} would contain a null: mount it as a file")
    return text


__all__ = ["PodRunError", "RunResult", "run_workload"]

GRACE_SECONDS = 5.0
"""Seconds that a process may take to end after SIGTERM before it is killed."""

# All that a process gets of the caller's environment: it may hold credentials.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "TMPDIR")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class RunResult(NamedTuple):
    """Exit code of a process, 128 plus the signal's number for a killed one, and its output."""

    exit_code: int
    output: str = ""


class _Process(NamedTuple):
    arguments: list[str]
    variables: dict[str, str]
    directory: str | None


async def run_workload(
    client: Client,
    resource: Resource,
    namespace: str,
    name: str,
    *,
    container: str = "",
    command: Sequence[str] | None = None,
    capture: bool = False,
) -> RunResult:
    """Run one container of a workload here, and wait for its end.

    Args:
        client: a client of the cluster with the workload, its Secrets and ConfigMaps.
        resource: the workload's kind: any with a pod template, or a Pod.
        namespace: the workload's namespace.
        name: the workload's name.
        container: the container to run; default: the pod's default one, or the first.
        command: runs instead of the container's own command and arguments.
        capture: return stdout and stderr, as one text, instead of passing them through. Without
            it the process gets this process's terminal, and its signals while it runs.

    Raises:
        PodRunError: a referenced object is missing, or a value exists on nodes only.
        ClientError: the cluster cannot be asked.
    """
    place = f"{resource.kind} {namespace}/{name}"
    with _Signals(active=not capture) as signals, private_folder() as folder:
        try:
            workload = await client.get(resource, name, namespace)
            template = pod_template(workload.to_dict())
            chosen = choose_container(template, container, place)
            source = PodSource(client, workload, template)
            mounts = await mount(template["spec"], chosen, source, folder)
            variables = await environment(chosen, source)
            process = _prepare(chosen, mounts, variables, command)
            # The folder outlives the process, which may still read its files while it ends.
            return await _run(process, signals, capture=capture)
        except NotFound:
            raise PodRunError(f"{place} does not exist") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # A signal before the process started has cancelled us, and no other caller has: then
            # the run ends as the process would have ended.
            if signals.ended_by and task is not None and task.uncancel() == 0:
                return RunResult(128 + signals.ended_by)
            raise


def pod_template(body: JSON) -> JSON:
    """Return the pod template of a workload, or a Pod itself, which has the same fields.

    Raises:
        PodRunError: the object has no pod template.
    """
    spec: JSON = body.get("spec") or {}
    # Only a CronJob has its pod template one level deeper.
    if "jobTemplate" in spec:
        spec = (spec["jobTemplate"] or {}).get("spec") or {}
    template: JSON = body if "containers" in spec else spec.get("template") or {}
    if not (template.get("spec") or {}).get("containers"):
        place = f"{body.get('kind')} {(body.get('metadata') or {}).get('name')}"
        raise PodRunError(f"{place} has no pod template with containers")
    return template


def choose_container(template: JSON, name: str, workload: str) -> JSON:
    """Return the named container, or the default one.

    Raises:
        PodRunError: no container has that name.
    """
    containers: list[JSON] = template["spec"]["containers"]
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    name_chosen = name or annotations.get(_DEFAULT_CONTAINER) or containers[0]["name"]
    for container in containers:
        if container["name"] == name_chosen:
            return container
    names = ", ".join(container["name"] for container in containers)
    raise PodRunError(f"{workload} has no container {name_chosen}; it has {names}")


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a temporary folder that only this user may enter, deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-pod-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(
    container: JSON, mounts: Mounts, variables: Mapping[str, str], command: Sequence[str] | None
) -> _Process:
    if command:
        # The caller's words are for this machine: they are neither expanded nor translated.
        arguments = list(command)
    else:
        own = [*(container.get("command") or []), *(container.get("args") or [])]
        if not container.get("command"):
            raise PodRunError(
                f"container {container['name']} has no command of its own, and its image is not "
                "used here: give a command"
            )
        arguments = [mounts.local(expand(argument, variables)) for argument in own]
    local = {
        # SERVICE_BINDING_ROOT is the parent of the mount paths, and mostly none itself.
        name: mounts.local(value, ancestors=name == ROOT_VARIABLE)
        for name, value in variables.items()
    }
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    directory = mounts.local(container.get("workingDir") or "")
    return _Process(arguments, inherited | local, directory if _is_folder(directory) else None)


def _is_folder(path: str) -> bool:
    return bool(path) and Path(path).is_dir()


async def _run(process: _Process, signals: _Signals, *, capture: bool) -> RunResult:
    try:
        child = await asyncio.create_subprocess_exec(
            *process.arguments,
            env=process.variables,
            cwd=process.directory,
            stdin=asyncio.subprocess.DEVNULL if capture else None,
            stdout=asyncio.subprocess.PIPE if capture else None,
            stderr=asyncio.subprocess.STDOUT if capture else None,
            # A process whose output is captured is ended with all that it has started. One that
            # has the terminal stays in its foreground group, or else it could not read from it.
            start_new_session=capture,
        )
    except OSError as error:
        what = error.strerror or error
        raise PodRunError(f"cannot start {process.arguments[0]}: {what}") from None
    async with _ending(child, group=capture):
        if capture:
            output, _ = await child.communicate()
        else:
            signals.child = child
            await child.wait()
            output = b""
    code = child.returncode or 0
    # asyncio says -N of a process that signal N ended, and shells say 128 + N.
    return RunResult(code if code >= 0 else 128 - code, output.decode(errors="replace"))


@asynccontextmanager
async def _ending(child: asyncio.subprocess.Process, *, group: bool) -> AsyncIterator[None]:
    """End the process and its process group when the block ends, also after an error."""
    try:
        yield
    finally:
        if child.returncode is None:
            _send(child, signal.SIGTERM, group=group)
            try:
                await asyncio.wait_for(child.wait(), GRACE_SECONDS)
            except TimeoutError:
                _send(child, signal.SIGKILL, group=group)
                await child.wait()


def _send(child: asyncio.subprocess.Process, number: signal.Signals, *, group: bool) -> None:
    try:
        if group:
            # The process leads its own session, so that its pid is the id of its group.
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
    except ProcessLookupError:
        pass


class _Signals:
    """Forwards signals to the process; the run ends with it, after the folder is removed.

    Before the process is started, a signal ends the run itself. A terminal sends Ctrl-C to the
    process too: that signal is not forwarded.
    """

    def __init__(self, *, active: bool) -> None:
        self.child: asyncio.subprocess.Process | None = None
        self.ended_by = 0
        self._active = active
        self._installed: list[signal.Signals] = []

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        for number in _FORWARDED if self._active else ():
            try:
                asyncio.get_running_loop().add_signal_handler(number, self._take, number)
            except (ValueError, RuntimeError, NotImplementedError):
                # Only the main thread gets signals; elsewhere they are its owner's.
                break
            self._installed.append(number)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number in self._installed:
            asyncio.get_running_loop().remove_signal_handler(number)

    def _take(self, number: signal.Signals) -> None:
        if self.child is None:
            self.ended_by = number
            if self._task is not None:
                self._task.cancel()
        elif number != signal.SIGINT or not sys.stdin.isatty():
            _send(self.child, number, group=False)
