"""`headway version` and `headway completion`: about the command line itself."""

from __future__ import annotations

import platform

import click

from headway import __version__
from headway.cli.frame import exits
from headway.cli.frame.examples import examples
from headway.cli.frame.options import output_options
from headway.cli.frame.output import Output, write


@click.command(epilog=examples("headway version", "headway version --json"))
@output_options
def version(output: Output) -> int:
    """Print the version."""
    told = {"version": __version__, "python": platform.python_version()}
    output.show(told, lambda: f"headway {__version__} (Python {told['python']})", lambda: [__version__])
    return exits.OK


@click.command(
    epilog=examples(
        "headway completion bash > ~/.local/share/bash-completion/completions/headway",
        'headway completion zsh > "${fpath[1]}/_headway"',
        "headway completion fish > ~/.config/fish/completions/headway.fish",
    )
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the completion script for a shell: of commands, files, jobs, states, queues, pools, nodes and more."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    # `source` asks the installed bash for its version and warns on stderr; the script itself needs no bash.
    maker = found(ctx.find_root().command, {}, "headway", "_HEADWAY_COMPLETE")
    write(maker.source_template % maker.source_vars())
    return exits.OK
