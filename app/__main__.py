"""Starts the app, or with `--engine` the engine's command line: a bundle has no `python -m`."""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point of `burnish` and `python -m app`."""
    if sys.argv[1:2] == ["--engine"]:
        from trainer_core.__main__ import main as engine_main

        return engine_main(sys.argv[2:])
    from app.application import main as app_main
    from app.crash import log_to_file
    from app.paths import AppPaths

    paths = AppPaths.of_user()
    log_to_file(paths.log_file)
    return app_main(sys.argv, paths)


if __name__ == "__main__":
    sys.exit(main())
