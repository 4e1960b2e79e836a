"""``python -m punctual worker module:app``: the command line of a worker."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any

from punctual.errors import ConfigurationError
from punctual.version import VERSION
from punctual.worker import POOLS, Worker


def main(arguments: list[str] | None = None) -> int:
    """0: ended in order; 1: refused; 2: usage."""
    parser = argparse.ArgumentParser(prog="punctual", description="Punctual for Python")
    parser.add_argument("--version", action="version", version=f"punctual {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_worker_arguments(commands.add_parser("worker", help="run the tasks of an application"))
    return _work(parser.parse_args(arguments))


def worker_main() -> int:
    """The same as a command of its own: ``punctual-worker module:app``."""
    parser = argparse.ArgumentParser(prog="punctual-worker", description="Run the tasks of an application")
    _add_worker_arguments(parser)
    return _work(parser.parse_args())


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="MODULE:APP", help="where the punctual.App is")
    parser.add_argument(
        "--queue",
        action="append",
        type=_queue,
        metavar="NAME[=MAX]",
        help="take tasks of this queue; again for several",
    )
    parser.add_argument("--concurrency", type=int, metavar="N", help="tasks at the same time")
    parser.add_argument("--pool", choices=POOLS, default="threads", help="what runs handlers (default: threads)")
    parser.add_argument(
        "--lease", default="30s", metavar="DURATION", help="how long a task is held without a heartbeat"
    )
    parser.add_argument("--grace", default="30s", metavar="DURATION", help="how long handlers may take after SIGTERM")
    parser.add_argument("--executor", metavar="NAME", help="the name in histories")
    parser.add_argument("--handlers-version", metavar="X.Y.Z", help="for tasks that demand handler_versions")
    parser.add_argument("--only-own-kinds", action="store_true", help="leave tasks of other kinds to other workers")
    parser.add_argument("--guard", metavar="REDIS_URL", help="guard each execution with SET NX")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])


def _queue(text: str) -> tuple[str, int | None]:
    name, equals, most = text.partition("=")
    return name, int(most) if equals else None


def _work(arguments: argparse.Namespace) -> int:
    logging.basicConfig(level=arguments.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    sys.path.insert(0, os.getcwd())
    try:
        worker = _worker(arguments)
    except (ConfigurationError, ImportError, ValueError) as error:
        print(f"punctual: {error}", file=sys.stderr)
        return 1
    worker.run()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # Handlers that did not end in time are threads, and their tasks were handed back: none of them goes on.
    os._exit(0)


def _worker(arguments: argparse.Namespace) -> Worker:
    from punctual._worker.processes import load_app

    options: dict[str, Any] = {}
    if arguments.guard:
        from punctual.guard import Guard

        options["guard"] = Guard(arguments.guard, holder=arguments.executor)
    return Worker(
        load_app(arguments.app),
        app_name=arguments.app,
        queues=dict(arguments.queue) if arguments.queue else None,
        concurrency=arguments.concurrency,
        pool=arguments.pool,
        lease=arguments.lease,
        grace=arguments.grace,
        executor=arguments.executor,
        version=arguments.handlers_version,
        only_own_kinds=arguments.only_own_kinds,
        **options,
    )


if __name__ == "__main__":
    sys.exit(main())
