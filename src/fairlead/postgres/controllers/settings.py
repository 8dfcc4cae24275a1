"""The settings in force: the operator's flags, overlaid with the settings of its Controller.

They change while the operator runs. The oldest Controller in the operator's namespace is in
charge; without one the flags hold. A Controller with invalid settings stops all work until it is
corrected: to fall back on the flags would touch roles that it excludes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from fairlead.api.meta import Object
from fairlead.api.postgresaccess.controller import OperatorController
from fairlead.postgres.errors import AccessError, invalid
from fairlead.postgres.options import PostgresOptions, SettingError, overlaid
from fairlead.runtime import Delta, Informer


_log = structlog.get_logger(logger_name="fairlead.postgres")


class _Broken(NamedTuple):
    """Message in place of settings that are invalid."""

    message: str


class Settings:
    """The settings of all accesses; each piece of work reads ``current`` once more."""

    def __init__(self, flags: PostgresOptions, controllers: Informer | None = None) -> None:
        self._flags = flags
        self._controllers = controllers
        self._current: PostgresOptions | _Broken = flags
        self.namespace = flags.namespace
        """Namespace of the operator."""
        self.latest = flags
        """Last valid settings, for values that every moment needs, such as intervals."""
        self._lost = False
        self._turned = False
        if controllers is not None:
            controllers.subscribe(self._heard)

    @property
    def current(self) -> PostgresOptions:
        """Return the settings in force.

        Raises:
            AccessError: ControllerInvalid, where the Controller in charge is invalid.
        """
        if self._lost:
            self._choose()
        if isinstance(self._current, _Broken):
            raise invalid("ControllerInvalid", self._current.message)
        return self._current

    def turned(self, _delta: Delta) -> bool:
        """Whether the last change of a Controller has changed the settings or made them invalid.

        A watch with this predicate must begin after the subscription of these settings.
        """
        return self._turned

    def _heard(self, delta: Delta) -> None:
        before = self._current
        self._choose()
        # No work begins before the first list of Controllers is complete: no pass is outdated.
        self._turned = before != self._current and not delta.initial
        if self._turned:
            _log.info("the settings have changed", controller=str(delta.object.key))

    def _choose(self) -> None:
        if self._controllers is None:
            return
        chosen = in_charge(self._controllers.list(self._flags.namespace))
        # While the kind is not served, an empty cache does not mean that there is no Controller.
        self._lost = chosen is None and bool(self._controllers.error)
        if self._lost:
            return
        try:
            self._current = self.latest = in_force(self._flags, chosen)
        except AccessError as error:
            self._current = _Broken(error.message)


def in_charge(controllers: Iterable[Object]) -> Object | None:
    """Return the Controller in charge: the oldest one of the operator's namespace."""
    # Timestamps have whole seconds: within one second the uid decides.
    return min(
        controllers,
        key=lambda obj: (obj.meta.creation_timestamp or "", obj.meta.uid),
        default=None,
    )


def in_force(flags: PostgresOptions, controller: Object | None) -> PostgresOptions:
    """Return the flags, overlaid with the settings of a Controller.

    Raises:
        AccessError: ControllerInvalid; the message names object and field.
    """
    if controller is None:
        return flags
    try:
        return overlaid(flags, controller.decode(OperatorController).spec.settings)
    except (msgspec.ValidationError, SettingError) as error:
        raise invalid("ControllerInvalid", f"Controller {controller.key}: {error}") from None


class ReadyVerdict(NamedTuple):
    """Reason and message of a Controller's Ready condition, True for reason Ready."""

    reason: str
    message: str


def judge(
    controller: Object, controllers: Sequence[Object], flags: PostgresOptions
) -> ReadyVerdict:
    """Return the verdict on a Controller, among those of the operator's namespace."""
    if controller.meta.namespace != flags.namespace:
        return ReadyVerdict(
            "InvalidControllerNamespace",
            f"a Controller has no effect outside the operator's namespace {flags.namespace};"
            " create it there",
        )
    chosen = in_charge([*controllers, controller])
    if chosen is not None and chosen.meta.uid != controller.meta.uid:
        return ReadyVerdict(
            "MultipleControllersFound",
            f"the operator uses Controller {chosen.meta.name}, which is older; change that one,"
            " or delete it",
        )
    try:
        in_force(flags, controller)
    except AccessError as error:
        return ReadyVerdict(
            error.reason, f"{error.message}; the operator does nothing until you correct it"
        )
    postgres = controller.decode(OperatorController).spec.settings.postgres
    if postgres.stale_user_deletion_policy and postgres.unmanaged_users is None:
        return ReadyVerdict(
            "Ready",
            "the settings are in force; the operator ignores staleUserDeletionPolicy:"
            " unmanagedUsers decides about roles that no PostgresAccess asks for",
        )
    return ReadyVerdict("Ready", "the settings are in force")
