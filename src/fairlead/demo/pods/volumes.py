"""A pod's volumes as files below one private folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from fairlead.api.meta import JSON
from fairlead.demo.pods.source import PodRunError, PodSource


_FILE_MODE = 0o600


class Mounts:
    """Mount paths of a container, and their places in the local folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths: dict[PurePosixPath, Path] = {}

    def local(self, text: str, *, ancestors: bool = False) -> str:
        """Return the local path for a path at or below a mount path.

        In other texts such paths are translated where a sign of a setting is before them, as in
        ``sslrootcert=/bindings/db/ca.crt``. With ``ancestors``, the parent folders of mount paths
        are translated too.
        """
        path = PurePosixPath(text)
        # The longest path comes first, for one volume may be mounted inside another.
        mounts = sorted(self.paths, key=lambda item: -len(item.parts))
        if not path.is_absolute():
            return self._within(text, mounts)
        for mount in mounts:
            if path.is_relative_to(mount):
                return str(self.paths[mount] / path.relative_to(mount))
        if ancestors and any(mount.is_relative_to(path) for mount in self.paths):
            return str(self.place(path))
        return text

    def _within(self, text: str, mounts: Sequence[PurePosixPath]) -> str:
        if not mounts:
            return text
        either = "|".join(re.escape(str(mount)) for mount in mounts)

        def replace(match: re.Match[str]) -> str:
            return str(self.paths[PurePosixPath(match[0])])

        return re.sub(rf"(?<=[=\"'])(?:{either})(?![^/\"'&;])", replace, text)

    def place(self, path: PurePosixPath) -> Path:
        """Return the local path below the folder for a container path."""
        return self.folder.joinpath(*path.parts[1:])


async def mount(spec: JSON, container: JSON, source: PodSource, folder: Path) -> Mounts:
    """Write the volumes that a container mounts, below ``folder``.

    Raises:
        PodRunError: a volume is undefined, of a kind that needs a node, or refers to a missing
        object.
    """
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or []}
    mounts = Mounts(folder)
    for item in container.get("volumeMounts") or []:
        name = item["name"]
        if name not in volumes:
            raise PodRunError(f"container {container['name']} mounts volume {name}: there is none")
        # A kubelet takes a relative mountPath as one below /.
        path = PurePosixPath("/", item["mountPath"])
        if ".." in path.parts or path == PurePosixPath("/"):
            raise PodRunError(f"volume {name} cannot be mounted at {item['mountPath']}")
        files = await _files(volumes[name], source)
        mounts.paths[path] = _write(mounts.place(path), files, item.get("subPath") or "")
    return mounts


Files = dict[str, tuple[bytes, int]]
"""Contents and modes by relative path."""


async def _files(volume: JSON, source: PodSource) -> Files:
    if "emptyDir" in volume:
        return {}
    projected = volume.get("projected")
    if projected is not None:
        mode = projected.get("defaultMode")
        files: Files = {}
        for part in projected.get("sources") or []:
            files |= await _source(part, source, volume["name"], mode)
        return files
    # A volume says secretName where a source of a projected volume says name.
    renamed: JSON = {**volume}
    if "secret" in volume:
        renamed["secret"] = {**volume["secret"], "name": volume["secret"].get("secretName")}
    return await _source(renamed, source, volume["name"], None)


async def _source(part: JSON, source: PodSource, volume: str, mode: int | None) -> Files:
    entries: Mapping[str, bytes] | None
    if (secret := part.get("secret")) is not None:
        entries = await source.secret(secret["name"], optional=bool(secret.get("optional")))
        return _chosen(entries, secret, f"Secret {source.namespace}/{secret['name']}", mode)
    if (config := part.get("configMap")) is not None:
        entries = await source.config_map(config["name"], optional=bool(config.get("optional")))
        return _chosen(entries, config, f"ConfigMap {source.namespace}/{config['name']}", mode)
    if (downward := part.get("downwardAPI")) is not None:
        return _downward(downward, source, volume, mode)
    kinds = ", ".join(sorted(set(part) - {"name"}))
    raise PodRunError(f"volume {volume} is of a kind that only a node has: {kinds}")


def _downward(downward: JSON, source: PodSource, volume: str, mode: int | None) -> Files:
    files: Files = {}
    for item in downward.get("items") or []:
        if "fieldRef" not in item:
            raise PodRunError(f"volume {volume}: resourceFieldRef is known on a node alone")
        value = source.field(item["fieldRef"]["fieldPath"]).encode()
        files[item["path"]] = (value, _mode(item, downward, mode))
    return files


def _chosen(
    entries: Mapping[str, bytes] | None, definition: JSON, what: str, mode: int | None
) -> Files:
    """Return all entries, or those of ``items`` under their paths."""
    if entries is None:
        return {}
    items: Sequence[JSON] | None = definition.get("items")
    if not items:
        return {key: (value, _mode({}, definition, mode)) for key, value in entries.items()}
    files: Files = {}
    for item in items:
        if item["key"] in entries:
            files[item["path"]] = (entries[item["key"]], _mode(item, definition, mode))
        elif not definition.get("optional"):
            raise PodRunError(f"{what} has no entry {item['key']}")
    return files


def _mode(item: JSON, definition: JSON, inherited: int | None) -> int:
    """Return the file mode, with bits for the owner alone: no other user may enter the folder."""
    for mode in (item.get("mode"), definition.get("defaultMode"), inherited):
        if mode is not None:
            # The process is the owner here, and a mode such as 0040 would keep it from reading.
            return (int(mode) & 0o700) | 0o400
    return _FILE_MODE


def _write(place: Path, files: Files, sub_path: str) -> Path:
    """Write the files at ``place``; with a ``subPath`` only the file or folder that it names."""
    if sub_path:
        if sub_path in files:
            _file(place, *files[sub_path])
            return place
        start = f"{sub_path}/"
        files = {
            path.removeprefix(start): item
            for path, item in files.items()
            if path.startswith(start)
        }
    place.mkdir(parents=True, exist_ok=True)
    for path, (content, mode) in files.items():
        relative = PurePosixPath(path)
        # The path comes from the cluster, and must not lead out of the private folder.
        if relative.is_absolute() or ".." in relative.parts:
            raise PodRunError(f"a volume's file cannot be at {path}")
        _file(place.joinpath(*relative.parts), content, mode)
    return place


def _file(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=_FILE_MODE)
    path.write_bytes(content)
    # The mode comes last, since one without w would refuse the content.
    path.chmod(mode)
