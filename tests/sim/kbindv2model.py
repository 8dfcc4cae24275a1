"""What shall be at rest in the world of kbind v2, written apart from the product.

It is read from the stores: what people wrote decides, and the konnector's marks on CRDs say which
Connection has come first.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import NamedTuple

from tests.sim.kbindv2world import (
    FORMER,
    KINDS,
    OFFERS,
    RELATED,
    SHOPS,
    BothProtocols,
    Platform,
)
from tests.sim.planes import Plane
from tests.sim.stores import held, one
from tests.support.waiting import condition

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONFLICT,
    ANNOTATION_CONNECTION,
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_RELATED_BINDING,
    ANNOTATION_SCHEMA_HASH,
    API_NOT_EXPORTED,
    AUTO_BIND_FAILING,
    CLUSTER_IDENTITY_CHANGED,
    CONSUMER_CLUSTER_UID,
    DRAINING_BINDINGS,
    FIELD_MANAGER,
    FINALIZER_SYNCER,
    FOREIGN_CRD,
    FOREIGN_OBJECT,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    OWNED_BY_ANOTHER,
    PENDING,
    SECRET_NOT_FOUND,
    SECRET_REFUSED,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE


UNSURE = "?"
"""A reason about which the model says nothing."""
FACTORYS = "factory"
"""The member of a copy's spec that the provider's factory adds."""


class Wish(NamedTuple):
    """A ClusterBinding or Binding as its author has it."""

    kind: Resource
    key: Key
    uid: str
    connection: str
    apis: tuple[str, ...]
    adopts: bool
    rules: list[JSON]
    deleting: bool
    obj: Object

    def covers(self, namespace: str) -> bool:
        """Whether objects of a namespace are in its scope."""
        return self.key.namespace in {"", namespace}

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.kind.kind} {self.key}"


def wishes(plane: Plane) -> list[Wish]:
    """All bindings, in the order in which they decide."""
    found = []
    for kind in (CLUSTERBINDINGS, BINDINGS):
        for obj in held(plane, kind):
            spec = obj.to_dict()["spec"]
            found.append(
                Wish(
                    kind,
                    obj.key,
                    obj.meta.uid,
                    spec["connectionRef"]["name"],
                    tuple(api["name"] for api in spec["apis"]),
                    spec.get("conflictPolicy") == "Adopt",
                    spec.get("relatedResources") or [],
                    obj.meta.deleting,
                    obj,
                )
            )
    return sorted(found, key=lambda wish: wish.key)


def is_made(crd: Object) -> bool:
    """Whether a konnector has made a CRD, and it still says so."""
    notes = crd.meta.annotations
    return crd.meta.labels.get(LABEL_MANAGED) == "true" and {
        ANNOTATION_CONNECTION,
        ANNOTATION_SCHEMA_HASH,
    } <= set(notes)


def content_of(found: Object | None) -> bytes:
    """The kubeconfig in a Secret."""
    data = (found.to_dict().get("data") or {}) if found else {}
    return base64.b64decode(data.get("kubeconfig", ""))


def is_marked(copy: Object) -> bool:
    """Whether a konnector's marks are on an object at a provider."""
    notes = copy.meta.annotations
    return CONSUMER_CLUSTER_UID in notes or ANNOTATION_CONSUMER_OBJECT_UID in notes


class Model:
    """Everything that shall be, and in which way it is not."""

    def __init__(self, world: BothProtocols) -> None:
        self.world = world
        self.left: set[str] = set()
        """The uids of objects whose copies may stay."""
        self.stale: set[str] = set()
        """The uids of bindings whose related copies may stay, for their provider was gone."""

    # --- Connections

    def platform(self, name: str) -> Platform | None:
        """The provider whose address is in the Secret of a Connection."""
        found = one(self.world.consumer, CONNECTIONS, name)
        content = self._content(found)
        for platform in self.world.platforms.values():
            if platform.admin.config.server.encode() in content:
                return platform
        return None

    def _content(self, found: Object | None) -> bytes:
        if found is None:
            return b""
        ref = found.to_dict()["spec"]["kubeconfigSecretRef"]
        if ref["namespace"] != KONNECTOR_NAMESPACE:
            return b""
        return content_of(one(self.world.consumer, SECRETS, ref["name"], ref["namespace"]))

    def is_valid(self, name: str) -> bool:
        """Whether the kubeconfig in a Connection's Secret is of the cluster that answers now."""
        platform = self.platform(name)
        content = self._content(one(self.world.consumer, CONNECTIONS, name))
        return platform is not None and content in platform.valid

    def unready(self, name: str) -> str:
        """Why a Connection cannot be used: the reason of its condition, "" if it can."""
        found = one(self.world.consumer, CONNECTIONS, name)
        if found is None:
            return "absent"
        content = self._content(found)
        if not content:
            return SECRET_NOT_FOUND
        if b"exec:" in content:
            return SECRET_REFUSED
        platform = self.platform(name)
        if platform is None or not self.is_valid(name):
            # A cluster that refuses a token does not say which one it is.
            return UNSURE
        pinned = found.to_dict().get("status", {}).get("remoteClusterUID", "")
        if pinned not in {"", platform.uid}:
            return CLUSTER_IDENTITY_CHANGED
        return ""

    def _connections(self) -> Iterator[str]:
        for found in held(self.world.consumer, CONNECTIONS):
            name = found.meta.name
            reason = self.unready(name)
            if found.meta.deleting:
                reason = DRAINING_BINDINGS
            ready = condition(found.to_dict(), "Ready")
            if reason == UNSURE:
                continue
            if reason and (ready.get("status"), ready.get("reason")) != ("False", reason):
                yield f"Connection {name} is {_said(ready)}, and not {reason}"
            if not reason and ready.get("status") != "True":
                yield f"Connection {name} is not Ready: {_said(ready)}"
            if not reason:
                yield from self._exports(found, name)

    def _exports(self, found: Object, name: str) -> Iterator[str]:
        offered = self.offered(name)
        listed = [api["name"] for api in found.to_dict().get("status", {}).get("exportedAPIs", [])]
        if offered != listed:
            yield f"Connection {name} lists {listed}, and {offered} are offered"

    def offered(self, name: str) -> list[str]:
        """The APIs that the provider of a Connection offers."""
        platform = self.platform(name)
        assert platform is not None
        return sorted(
            crd.meta.name
            for crd in held(platform.plane, CUSTOMRESOURCEDEFINITIONS)
            if crd.meta.labels.get(LABEL_EXPORTED) == "true"
        )

    # --- bindings

    def owner(self, api: str, every: list[Wish]) -> str:
        """The Connection to which the objects of an API go."""
        crd = one(self.world.consumer, CUSTOMRESOURCEDEFINITIONS, api)
        noted = crd.meta.annotations.get(ANNOTATION_CONNECTION, "") if crd else ""
        # Of a user's own CRD it is the Connection that objects have gone to before.
        owner = noted or (_bound_by(api, every) if crd else "")
        ways = [wish for wish in every if api in wish.apis]
        standing = [wish for wish in ways if not wish.deleting] or ways
        there = [
            wish for wish in standing if one(self.world.consumer, CONNECTIONS, wish.connection)
        ]
        if not owner:
            there = [wish for wish in there if not self._lacks(api, wish.connection)] or there
        named = not ways or any(wish.connection == owner for wish in ways)
        # Copies at a provider that is away keep the API there, until the patience ends.
        named = named or (bool(owner) and self._keeps_copies(api, owner))
        named = named or (bool(noted) and self.policy(noted) == "All")
        if owner and named and one(self.world.consumer, CONNECTIONS, owner):
            return owner
        return next((wish.connection for wish in there or standing), noted)

    def _lacks(self, api: str, connection: str) -> bool:
        """Whether a provider that can be used does not offer an API."""
        return not self.unready(connection) and api not in self.offered(connection)

    def _keeps_copies(self, api: str, owner: str) -> bool:
        has_copies = any(
            FINALIZER_SYNCER in obj.meta.finalizers
            for obj in held(self.world.consumer, KINDS[api])
        )
        return has_copies and self.is_stuck(api, owner)

    def decides(self, api: str, namespace: str, every: list[Wish]) -> Wish | None:
        """The binding that decides about objects of an API in a namespace."""
        owner = self.owner(api, every)
        for wish in every:
            fits = api in wish.apis and wish.connection == owner and wish.covers(namespace)
            if fits and not wish.deleting:
                return wish
        return None

    def fault(self, api: str, wish: Wish, every: list[Wish]) -> str:
        """Why an API is not bound for a binding: a reason, "" if it is."""
        owner = self.owner(api, every)
        if owner and owner != wish.connection:
            return FOREIGN_CRD
        if reason := self.unready(wish.connection):
            return UNSURE if reason == UNSURE else PENDING
        crd = one(self.world.consumer, CUSTOMRESOURCEDEFINITIONS, api)
        pulls = self.pulls(wish.connection)
        if api == FORMER or (crd is not None and pulls and not is_made(crd)):
            return FOREIGN_CRD
        platform = self.platform(wish.connection)
        offered = platform and one(platform.plane, CUSTOMRESOURCEDEFINITIONS, api)
        if not offered or offered.meta.labels.get(LABEL_EXPORTED) != "true":
            return API_NOT_EXPORTED
        return PENDING if crd is None and not pulls else ""

    def policy(self, name: str) -> str:
        """The CRDs that a Connection makes: None, Bound or All."""
        return str(self.schema(name).get("pullPolicy", "Bound"))

    def schema(self, name: str) -> JSON:
        """The schema policy of a Connection."""
        found = one(self.world.consumer, CONNECTIONS, name)
        policy: JSON = found.to_dict()["spec"].get("schema", {}) if found else {}
        return policy

    def pulls(self, name: str) -> bool:
        """Whether a Connection makes CRDs."""
        return self.policy(name) != "None"

    def _automatic(self, every: list[Wish]) -> Iterator[str]:
        """What is wrong with the ClusterBindings that Connections have by autoBind."""
        for found in held(self.world.consumer, CONNECTIONS):
            name = found.meta.name
            wish = next(
                (wish for wish in every if wish.kind is CLUSTERBINDINGS and wish.key.name == name),
                None,
            )
            owner = wish.obj.meta.controller() if wish else None
            ours = owner is not None and owner.uid == found.meta.uid
            if found.meta.deleting or not found.to_dict()["spec"].get("autoBind"):
                if wish and ours and not wish.deleting:
                    yield f"{wish.title} stays, and autoBind of its Connection is off"
                continue
            if self.unready(name) or (wish and (wish.deleting or not ours)):
                continue
            offered = self.offered(name)
            if wish is None:
                if offered:
                    yield f"autoBind of Connection {name} has no ClusterBinding"
                continue
            kept = {api for api in wish.apis if self._is_there(api, name)} - set(offered)
            if not offered and not kept:
                kept = set(wish.apis)
            if (wish.connection, set(wish.apis)) != (name, {*offered, *kept}):
                yield f"{wish.title} has {wish.apis}, {offered} are offered and {kept} are there"
            says = condition(found.to_dict(), AUTO_BIND_FAILING)
            if (says.get("status") == "True") != bool(kept):
                yield f"Connection {name} keeps {kept} bound, and says {_said(says)}"

    def _is_there(self, api: str, name: str) -> bool:
        platform = self.platform(name)
        return platform is not None and bool(one(platform.plane, CUSTOMRESOURCEDEFINITIONS, api))

    def _bindings(self, every: list[Wish]) -> Iterator[str]:
        for wish in every:
            if wish.deleting:
                stuck = any(self.is_stuck(api, wish.connection) for api in wish.apis)
                # So may copies of what it had before, at any provider that is away.
                stuck = stuck or any(
                    self._keeps_copies(api, name)
                    for api in KINDS
                    for name in (*OFFERS, self.owner(api, every))
                )
                if not stuck:
                    yield f"{wish.title} is going, and not gone: {_ready(wish)}"
                continue
            reasons = [self.fault(api, wish, every) for api in dict.fromkeys(wish.apis)]
            if UNSURE in reasons:
                continue
            reason = next((known for known in reasons if known), "")
            ready = condition(wish.obj.to_dict(), "Ready")
            state = ("False", reason) if reason else ("True", "AsExpected")
            if (ready.get("status"), ready.get("reason")) != state:
                yield f"{wish.title} is {_said(ready)}, and not {state}"
            if not any(reasons):
                yield from self._conflicts(wish, every)

    def is_stuck(self, api: str, connection: str) -> bool:
        """Whether nobody can say that copies are gone: the provider, or its CRD, is away."""
        platform = self.platform(connection)
        if platform is None or self.unready(connection):
            return True
        return one(platform.plane, CUSTOMRESOURCEDEFINITIONS, api) is None

    def _conflicts(self, wish: Wish, every: list[Wish]) -> Iterator[str]:
        count = sum(
            1
            for api, kind in KINDS.items()
            if api in wish.apis
            for obj in held(self.world.consumer, kind)
            if self.decides(api, obj.meta.namespace, every) == wish and self.conflict(obj, wish)
        )
        says = condition(wish.obj.to_dict(), "Conflicts")
        if says.get("status") != ("True" if count else "False"):
            yield f"{wish.title} has {count} conflicts and says {_said(says)}"

    # --- objects

    def conflict(self, obj: Object, wish: Wish) -> str:
        """Why an object may not have its copy's place: a reason, "" if it may."""
        platform = self.platform(wish.connection)
        kind = next(kind for kind in KINDS.values() if kind.kind == obj.kind)
        copy = platform and one(platform.plane, kind, obj.meta.name, obj.meta.namespace)
        if not copy:
            return ""
        cluster = copy.meta.annotations.get(CONSUMER_CLUSTER_UID)
        uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID)
        if cluster is None and uid is None:
            return "" if wish.adopts else FOREIGN_OBJECT
        if cluster != self.world.consumer_uid or uid is None:
            return OWNED_BY_ANOTHER
        return "" if wish.adopts or uid == obj.meta.uid else OWNED_BY_ANOTHER

    def copies_of(self, uid: str) -> list[tuple[Platform, Object]]:
        """All copies of an object of the consumer, wherever they are."""
        return [
            (platform, copy)
            for platform in self.world.platforms.values()
            for _, copy in self.world.objects(platform.plane)
            if copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID) == uid
            and copy.meta.annotations.get(CONSUMER_CLUSTER_UID) == self.world.consumer_uid
        ]

    def _objects(self, every: list[Wish]) -> Iterator[str]:
        for kind, obj in self.world.objects(self.world.consumer):
            api = kind.group_resource
            wish = self.decides(api, obj.meta.namespace, every)
            title = f"{kind.kind} {obj.key}"
            owner = self.owner(api, every)
            # A Connection that went while copies were released leaves them to the patience.
            stuck = bool(owner) and any(self.is_stuck(api, name) for name in (owner, *OFFERS))
            if obj.meta.deleting:
                if not stuck:
                    yield f"{title} is going, and not gone"
            elif wish is None:
                if FINALIZER_SYNCER in obj.meta.finalizers and not stuck:
                    yield f"{title} is bound by nothing, and has our finalizer"
            elif not self.fault(api, wish, every):
                for text in self._unlike(kind, obj, wish):
                    yield f"{title}: {text}"

    def _unlike(self, kind: Resource, obj: Object, wish: Wish) -> Iterator[str]:
        platform = self.platform(wish.connection)
        assert platform is not None
        copy = one(platform.plane, kind, obj.meta.name, obj.meta.namespace)
        if copy is None:
            yield f"it has no copy at {platform.name}"
            return
        says = obj.meta.annotations.get(ANNOTATION_CONFLICT, "")
        reason = self.conflict(obj, wish)
        if says != reason:
            yield f"its conflict is {reason!r}, and it says {says!r}"
        if reason:
            return
        if copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID) != obj.meta.uid:
            yield f"its copy at {platform.name} does not name it"
        here, there = obj.to_dict(), copy.to_dict()
        sent = {key: there["spec"].get(key) for key in {*here["spec"], *_applied(there)}}
        if here["spec"] != sent:
            yield f"its spec {here['spec']} went up as {there['spec']}"
        if here.get("status") != there.get("status"):
            yield f"its status is {here.get('status')}, and the copy's {there.get('status')}"

    def _copies(self) -> Iterator[str]:
        originals = {obj.meta.uid for _, obj in self.world.objects(self.world.consumer)}
        for platform in self.world.platforms.values():
            if one(self.world.consumer, CONNECTIONS, platform.name) is None:
                continue
            for kind, copy in self.world.objects(platform.plane):
                if copy.meta.annotations.get(CONSUMER_CLUSTER_UID) != self.world.consumer_uid:
                    continue
                uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID, "")
                if uid and uid not in originals | self.left:
                    yield f"copy {kind.kind} {copy.key} is left at {platform.name}"

    # --- related objects

    def _sources(self, wish: Wish, kind: Resource, direction: str) -> dict[Key, JSON]:
        """What a binding has to copy, by keys."""
        platform = self.platform(wish.connection)
        if wish.deleting or platform is None or self.unready(wish.connection):
            return {}
        ruled = any(
            (known["resource"], known["direction"]) == (kind.plural, direction)
            for known in wish.rules
        )
        source = platform.plane if direction == "FromProvider" else self.world.consumer
        return {
            found.key: found.to_dict().get("data", {})
            for found in (held(source, kind) if ruled else [])
            if found.meta.labels.get(RELATED) == "true"
            and wish.covers(found.meta.namespace)
            and found.meta.namespace in SHOPS
            and ANNOTATION_RELATED_BINDING not in found.meta.annotations
        }

    def _related(self, every: list[Wish]) -> Iterator[str]:
        for kind, direction in ((SECRETS, "FromProvider"), (CONFIGMAPS, "FromConsumer")):
            for plane in self.world.planes:
                if (plane is self.world.consumer) is not (direction == "FromProvider"):
                    continue
                sources = {
                    wish.uid: self._sources(wish, kind, direction)
                    for wish in every
                    if direction == "FromProvider" or self._goes_to(wish, plane)
                }
                yield from self._related_at(plane, kind, sources, every)

    def _goes_to(self, wish: Wish, plane: Plane) -> bool:
        platform = self.platform(wish.connection)
        return platform is not None and platform.plane is plane

    def _related_at(
        self,
        plane: Plane,
        kind: Resource,
        sources: dict[str, dict[Key, JSON]],
        every: list[Wish],
    ) -> Iterator[str]:
        named = {wish.uid: wish for wish in every}
        there = {found.key: found for found in held(plane, kind) if found.meta.namespace in SHOPS}
        for key in sorted({key for found in sources.values() for key in found}):
            found = there.get(key)
            if found is None:
                yield f"{kind.kind} {key} is not copied to {plane.name}"
        for key, found in there.items():
            uid = found.meta.annotations.get(ANNOTATION_RELATED_BINDING)
            if uid is None or uid in self.stale:
                continue
            wish = named.get(uid)
            if wish is None:
                yield f"{kind.kind} {key} is left in {plane.name}, whose binding is gone"
            elif self.unready(wish.connection):
                continue
            elif key not in sources.get(uid, {}):
                yield f"{kind.kind} {key} is left in {plane.name}, which {wish.title} has no more"
            elif sources[uid][key] != found.to_dict().get("data", {}):
                yield f"{kind.kind} {key} of {plane.name} is not as its original"

    # --- all

    def differences(self) -> list[str]:
        """Everything that is not as it shall be."""
        every = wishes(self.world.consumer)
        return [
            *self._connections(),
            *self._bindings(every),
            *self._automatic(every),
            *self._crds(every),
            *self._objects(every),
            *self._copies(),
            *self._related(every),
        ]

    def _crds(self, every: list[Wish]) -> Iterator[str]:
        for api in KINDS:
            bound = [
                wish
                for wish in every
                if api in wish.apis and not wish.deleting and not self.fault(api, wish, every)
            ]
            crd = one(self.world.consumer, CUSTOMRESOURCEDEFINITIONS, api)
            if bound and crd is None:
                yield f"CustomResourceDefinition {api} is not there, and {bound[0].title} has it"
            elif bound and crd is not None and is_made(crd):
                yield from self._outdated(crd, bound[0].connection)
        for found in held(self.world.consumer, CONNECTIONS):
            name = found.meta.name
            if self.policy(name) != "All" or self.unready(name) or found.meta.deleting:
                continue
            for api in self.offered(name):
                if self.owner(api, every) not in {"", name}:
                    continue
                if one(self.world.consumer, CUSTOMRESOURCEDEFINITIONS, api) is None:
                    yield f"CustomResourceDefinition {api} is not there, and {name} pulls all"

    def _outdated(self, crd: Object, connection: str) -> Iterator[str]:
        platform = self.platform(connection)
        offered = platform and one(platform.plane, CUSTOMRESOURCEDEFINITIONS, crd.meta.name)
        is_followed = self.schema(connection).get("updatePolicy") != "Once"
        if not offered or not is_followed or not self.pulls(connection):
            return
        here, there = (found.to_dict()["spec"]["names"] for found in (crd, offered))
        if here != there:
            yield f"CustomResourceDefinition {crd.meta.name} has {here}, and the provider {there}"


def _bound_by(api: str, every: list[Wish]) -> str:
    """The Connection of the first binding that says of an API that it is bound."""
    for wish in every:
        body = wish.obj.to_dict()
        ready = condition(body, "Ready").get("observedGeneration")
        bound = {found["name"] for found in body.get("status", {}).get("boundAPIs", [])}
        if api in wish.apis and api in bound and ready == body["metadata"].get("generation"):
            return wish.connection
    return ""


def _applied(copy: JSON) -> set[str]:
    """The members of a copy's spec that the konnector has applied: of others all may stay."""
    return {
        name.removeprefix("f:")
        for entry in copy["metadata"].get("managedFields", [])
        if entry["manager"] == FIELD_MANAGER and entry["operation"] == "Apply"
        for name in entry["fieldsV1"].get("f:spec", {})
    }


def _said(found: JSON) -> str:
    return f"{found.get('status')} {found.get('reason')} ({found.get('message')})"


def _ready(wish: Wish) -> str:
    return _said(condition(wish.obj.to_dict(), "Ready"))
