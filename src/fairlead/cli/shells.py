"""``fairlead completion``, and the programs that kubectl runs to complete a line."""

from __future__ import annotations

import sys

import click
from click.shell_completion import ShellComplete, get_completion_class

from fairlead.cli.completion import silence


_BASH_ADDS = "COMPREPLY+=($value)"
_BASH_ADDS_QUOTED = """case ${COMP_WORDS[COMP_CWORD]} in
                [\\'\\"]*) COMPREPLY+=("$value") ;;
                *) COMPREPLY+=("$(printf %q "$value")") ;;
            esac"""
"""Bash inserts candidates as they are; click's function leaves spaces in them unquoted."""
PROGRAMS = ("fairlead", "kubectl-fairlead")
BIND = "kubectl-bind"
"""The program with the commands of kube-bind's own plugin."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def command(shell: str) -> None:
    """Print shell code that completes commands, options and names of a cluster.

    Names of bindings, consumers and templates come from the cluster of --kubeconfig and --context
    on the same line, or from the default one. `kubectl fairlead` and `kubectl bind` are completed
    by kubectl 1.26 and newer, which finds the executables kubectl_complete-fairlead and
    kubectl_complete-bind on PATH. If the cluster does not answer within 1.5 s, no names are
    completed; $FAIRLEAD_COMPLETION_SECONDS changes that time.

    \b
    Example:
        source <(fairlead completion bash)      # in ~/.bashrc
        source <(fairlead completion zsh)       # in ~/.zshrc, after compinit
        fairlead completion fish > ~/.config/fish/completions/fairlead.fish
    """  # noqa: D301
    from fairlead.cli import main

    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101
    for program in (*PROGRAMS, BIND):
        # The name that click gives the variable, by which the program notices a completion.
        variable = f"_{program}_COMPLETE".replace("-", "_").upper()
        click.echo(
            complete(main, {}, program, variable).source().replace(_BASH_ADDS, _BASH_ADDS_QUOTED)
        )


def kubectl_complete() -> None:
    """Complete the words of a line, as kubectl's program ``kubectl_complete-fairlead``.

    The last word is the one to complete, and may be empty. Prints a candidate a line, after a tab
    its description, and at the end a colon and the shell's directive: a sum of cobra's
    ShellCompDirective, of which 4 is to complete no files, 16 to complete folders alone and 0 to
    complete files (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
    """
    from fairlead.cli import main

    _tell_kubectl(main, "kubectl fairlead")


def kubectl_complete_bind() -> None:
    """Complete the words of a line, as kubectl's program ``kubectl_complete-bind``."""
    from fairlead.cli.frontdoor.kubectl_bind import main

    _tell_kubectl(main, "kubectl bind")


def _tell_kubectl(commands: click.Command, program: str) -> None:
    *words, incomplete = sys.argv[1:] or [""]
    with silence():
        completions = ShellComplete(commands, {}, program, "").get_completions(words, incomplete)
    directive = 4
    for item in completions:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        else:
            directive = 16 if item.type == "dir" else 0
    click.echo(f":{directive}")
