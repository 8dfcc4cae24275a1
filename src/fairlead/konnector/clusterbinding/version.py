"""The konnector's version as the provider wants to read it: a semantic version after a ``v``."""

from __future__ import annotations

import re


UNKNOWN = "unknown"
_MARK = "+kube-bind-"
_NUMBER = r"(?:0|[1-9]\d*)"
_PART = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    rf"(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
"""https://semver.org/spec/v2.0.0.html"""
_PYTHON = re.compile(
    rf"(?P<release>{_NUMBER}\.{_NUMBER}\.{_NUMBER})"
    r"(?:(?P<phase>a|b|rc)(?P<candidate>\d+))?(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?"
    r"(?:\+(?P<local>[0-9A-Za-z]+(?:\.[0-9A-Za-z]+)*))?"
)
"""https://packaging.python.org/en/latest/specifications/version-specifiers/, with three numbers"""
_PHASES = {"a": "alpha", "b": "beta", "rc": "rc"}


def konnector_version(raw: str) -> str | None:
    """A build's version as a semantic one after a ``v``; None when it is none.

    Python writes pre-releases in its own way: ``1.0.0rc1`` is ``v1.0.0-rc.1``. Of kube-bind's own
    builds ``v1.2.3+kube-bind-v0.6.0`` is the version after the mark, and ``v0.0.0-…`` is
    ``v0.0.0`` (ClusterBinding's ``status.konnectorVersion``).
    """
    marked = (raw.partition(_MARK)[2] or raw).removeprefix("v")
    if marked.startswith("0.0.0-"):
        return "v0.0.0"
    if _SEMANTIC.fullmatch(marked):
        return f"v{marked}"
    found = _PYTHON.fullmatch(marked)
    return f"v{_semantic(found)}" if found else None


def _semantic(found: re.Match[str]) -> str:
    before = [f"{_PHASES[found['phase']]}.{int(found['candidate'])}"] if found["phase"] else []
    before += [f"dev.{int(found['dev'])}"] if found["dev"] else []
    # A post-release comes after its release, which only build metadata leaves in its place.
    after = [f"post.{int(found['post'])}"] if found["post"] else []
    after += [found["local"]] if found["local"] else []
    return "".join(
        [
            found["release"],
            f"-{'.'.join(before)}" if before else "",
            f"+{'.'.join(after)}" if after else "",
        ]
    )
