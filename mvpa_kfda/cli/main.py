"""The command line: the public functions, from file to figure, table and result."""

import signal
import sys
import time
import warnings

from .. import __version__
from ..utils.signals import interrupting_signals
from . import bids, decoding, results
from .command import Command, Parser, check_out, one_line, tell_of, with_nearest

#: Warnings about the data. Others are about programs, of interest to nobody here.
SHOWN_WARNINGS = (UserWarning, RuntimeWarning)


def main(argv=None):
    """Run the ``mvpa-kfda`` command.

    Parameters
    ----------
    argv : list of str or None, default=None
        The arguments after the command's name; None takes the process' own.

    Returns
    -------
    status : int
        0, or 2 after an error, which is one line on the standard error stream; 1 if
        some subjects of a dataset failed, and others did not, or if a result differs
        from what is refitted; or what a shell says of a
        program that was stopped: 130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.

    Examples
    --------
    The error goes to the standard error stream.

    >>> main(["epochs", "no-such-file-epo.fif"])
    2
    """
    with warnings.catch_warnings(), interrupting_signals() as caught:
        warnings.simplefilter("ignore")
        for category in SHOWN_WARNINGS:
            warnings.simplefilter("default", category)
        # In one line, without a place in a program.
        warnings.showwarning = lambda message, *place, **_: tell_of(
            "warning: ", message
        )
        try:
            arguments = _parse(sys.argv[1:] if argv is None else [*argv])
            status = COMMANDS[arguments.command](arguments)
        except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
            tell_of("error: ", with_nearest(one_line(error)))
            return 2
        except KeyboardInterrupt as stop:
            tell_of("", stop if stop.args else "stopped")
            return 128 + (caught or [signal.SIGINT])[0]
    return status or 0


def _parse(argv):
    """What is given to the command that is named, which alone gets its arguments."""
    parser = Parser(
        prog="mvpa-kfda",
        description="Decode brain recordings using kernel Fisher discriminant "
        "analysis, with exact cross-validation and label permutations without "
        "retraining.",
        epilog="mvpa-kfda COMMAND --help lists what a command takes.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", dest="command"
    )
    for name, command in COMMANDS.items():
        summary = (command.run.__doc__ or "").partition(".\n")[0]
        each = commands.add_parser(name, help=summary)
        if argv[:1] == [name]:
            command.add_to(each)
    return parser.parse_args(argv)


class Demo:
    """Where the demo writes.

    Parameters
    ----------
    out : path, default=mvpa_kfda_demo
        output folder, created if needed (default: mvpa_kfda_demo). Existing files with
        the same names are overwritten.
    """


def _run_demo(given, _):
    """Simulate three-class EEG and decode it.

    There are 1000 label permutations; files demo.png, demo.csv and demo.h5 are
    written. Nothing is downloaded.
    """
    from .. import decode_epochs, simulate_epochs  # loads MNE-Python
    from .output import write_and_print

    start = time.perf_counter()
    check_out(given.out, "demo")
    epochs = simulate_epochs(random_state=0)
    result = decode_epochs(epochs, n_permutations=1000, random_state=0)
    write_and_print(result, "simulated EEG", given.out / "demo", "max", start)


def _run_sys_info(given, _):
    """Print version information for bug reports.

    Versions of this package and its dependencies, the system, processors,
    memory and linear algebra libraries.
    """
    from ..utils.system import sys_info

    sys_info()


COMMANDS = {
    "demo": Command(_run_demo, (Demo,)),
    "bids": bids.COMMAND,
    **decoding.COMMANDS,
    **results.COMMANDS,
    "sys-info": Command(_run_sys_info),
}


if __name__ == "__main__":
    sys.exit(main())
