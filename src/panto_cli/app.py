"""The command line: which words and options there are, and what each starts.

Law: `panto QUESTION` is the command; a first word that names another command is that command, and `--` before it makes
it a question. Everything the user can do wrong ends in a paragraph and a status, here.
"""

from __future__ import annotations

import importlib
from typing import Final

import click

from .failures import CommandError, Exit, ReaderGone, explain
from .near import near
from .options import debug_option, set_up, store_option
from .terminal import Console

__all__ = ["run"]

COMMANDS: Final = {
    "models": ("panto_cli.commands.models", "List the models that can be asked, and where each name comes from."),
    "sessions": ("panto_cli.commands.sessions", "List, show, search and delete saved sessions."),
    "local": ("panto_cli.commands.local", "Install the embedded local model."),
}
"""The commands beside the question: module, and what the help says."""

STATUSES: Final = (
    ("0", "the answer is whole (also when the reader of a pipe went away)"),
    ("1", "the provider, the network, a store or the disk failed"),
    ("2", "the command line, the environment or the config file is wrong; nothing was sent"),
    ("3", "an answer came and is not whole"),
    ("130", "Ctrl-C"),
    ("143", "SIGTERM, or the terminal was closed"),
)


class _Ask(click.Command):
    """The command without a name, whose help tells of the others."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])
        with formatter.section("Exit status"):
            formatter.write_dl(list(STATUSES))


@click.command(cls=_Ask, name="panto", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("question", nargs=-1)
@click.option(
    "-m", "--model", metavar="ALIAS|MODEL", help="Who answers: an alias of `panto models`, or PROVIDER/MODEL."
)
@click.option("--system", metavar="TEXT", help="The system prompt.")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with the session used last.")
@click.option("-r", "--resume", metavar="ID", help="Go on with this session; the beginning of its id is enough.")
@click.option("--no-session", is_flag=True, help="Save nothing.")
@click.option("--json", "as_json", is_flag=True, help="Show the events of the run as JSON lines.")
@store_option
@debug_option
@click.option("-V", "--version", is_flag=True, help="Show the version.")
def ask_command(
    question: tuple[str, ...],
    model: str | None,
    system: str | None,
    go_on: bool,
    resume: str | None,
    no_session: bool,
    as_json: bool,
    store: str | None,
    debug: bool,
    version: bool,
) -> Exit:
    """Ask a model, and show its answer as it comes.

    Text that is piped in is the question, or follows the QUESTION after a blank line. With no key in the environment
    and no config file, a very small model on this machine answers.
    """
    console = click.get_current_context().ensure_object(Console)
    if version:
        from panto import __version__

        console.write(f"panto {__version__}\n")
        return Exit.OK
    if go_on and resume is not None:
        raise CommandError("-c goes on with the session used last and -r with a certain one; give one of them")
    catalogue = set_up(console, debug)

    from .oneshot import Question, ask, read_question

    text = read_question(" ".join(question) if question else None, console)
    asked = Question(
        text=text,
        model=model,
        system=system,
        resume=resume,
        go_on=go_on,
        no_session=no_session,
        store=store,
        json=as_json,
    )
    return ask(asked, catalogue, console)


def run(args: list[str]) -> int:
    """Run the command with these arguments; the exit status."""
    console = Console.of_process()
    try:
        status = _invoke(args, console)
        console.finish()
    except ReaderGone:
        console.abandon()
        return int(Exit.OK)
    except click.exceptions.Exit as error:
        return error.exit_code
    except OSError as error:  # help text, which click writes, or a file of the configuration
        console.abandon()
        if isinstance(error, BrokenPipeError):
            return int(Exit.OK)
        message, exit_ = explain(error)
        console.error(message)
        console.traceback(error)
        return int(exit_)
    except click.exceptions.NoArgsIsHelpError as error:
        console.progress(error.format_message())
        return int(Exit.USAGE)
    except click.UsageError as error:
        name = error.ctx.command_path if error.ctx else "panto"
        console.error(f"{error.format_message()}\nTry: {name} --help")
        return int(Exit.USAGE)
    except KeyboardInterrupt:
        console.end_line()
        return int(Exit.INTERRUPTED)
    except ModuleNotFoundError:
        raise
    except Exception as error:
        message, exit_ = explain(error)
        console.error(message)
        console.traceback(error)
        return int(exit_)
    return int(status)


def _invoke(args: list[str], console: Console) -> int:
    command, rest = _command_of(args)
    with command.make_context("panto" if command is ask_command else f"panto {command.name}", rest, obj=console) as ctx:
        status: object = command.invoke(ctx)
    return status if isinstance(status, int) else 0


def _command_of(args: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the first word names, with all other arguments; the question otherwise."""
    at = 0
    while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
        at += 2 if _takes_next(args[at]) else 1
    if at >= len(args) or args[at] == "--":
        return ask_command, args
    word = args[at]
    if word in COMMANDS:
        module = importlib.import_module(COMMANDS[word][0])
        command: click.Command = module.command
        return command, args[:at] + args[at + 1 :]
    if len(args) - at == 1 and (meant := near(word, COMMANDS, cutoff=0.8)):
        raise CommandError(f"there is no command {word!r}. Did you mean: panto {meant[0]}? To ask it: panto -- {word}")
    return ask_command, args


def _takes_next(arg: str) -> bool:
    """Whether the value of an option is the next argument: `--model x`, `-m x`, `-cm x`; not `--model=x`, `-mx`."""
    with_value = {
        name
        for param in ask_command.params
        if isinstance(param, click.Option) and not param.is_flag
        for name in param.opts
    }
    if arg.startswith("--"):
        return arg in with_value
    first = next((at for at, letter in enumerate(arg[1:], 1) if f"-{letter}" in with_value), None)
    return first == len(arg) - 1
