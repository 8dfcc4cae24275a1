"""``hack/cluster``: clusters with nodes on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hack.nodes.clusters import Cluster, ClusterError, clusters, down, up
from hack.nodes.machine import missing


def main() -> int:
    """Carry out one command; 1 when it failed."""
    parser = argparse.ArgumentParser(prog="hack/cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("up", help="make clusters; those of these names begin anew")
    make.add_argument("names", nargs="+", metavar="NAME")
    for name, text in (
        ("down", "take clusters away, all by default"),
        ("list", "print clusters and their kubeconfigs"),
    ):
        commands.add_parser(name, help=text).add_argument("names", nargs="*", metavar="NAME")
    for name, text in (
        ("cut", "cut the link between a cluster and the others"),
        ("join", "join a cluster to the others again"),
    ):
        commands.add_parser(name, help=text).add_argument("name", metavar="NAME")
    load = commands.add_parser("load", help="import an image's archive into a cluster")
    load.add_argument("name", metavar="NAME")
    load.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    asked = parser.parse_args()
    if asked.command != "list" and (reason := missing()):
        sys.exit(f"cluster: {reason}")
    try:
        _carry_out(asked)
    except ClusterError as error:
        sys.exit(f"cluster: {error}")
    return 0


def _carry_out(asked: argparse.Namespace) -> None:
    match asked.command:
        case "up":
            for cluster in up(asked.names):
                print(f"{cluster.name}: {cluster.kubeconfig}")
        case "down":
            down(asked.names)
        case "list":
            for cluster in clusters():
                if not asked.names or cluster.name in asked.names:
                    print(f"{cluster.name}: {cluster.kubeconfig}")
        case "load":
            for archive in asked.archives:
                Cluster.named(asked.name).load(archive)
        case "cut" | "join":
            Cluster.named(asked.name).link(up=asked.command == "join")


if __name__ == "__main__":
    raise SystemExit(main())
