"""Python code in a process of its own that has everything loaded: it starts in milliseconds.

Where processes can't be forked it is started as any other.
"""

import atexit
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


def run(script, *args, folder=None, env=None, timeout=120):
    """Run a script or code: what it prints, errors apart, and how it ended; -9: it was killed."""
    argv = [str(script), *map(str, args)]
    env = dict(os.environ if env is None else env)
    if not hasattr(os, "fork"):
        command = [sys.executable, *(argv if isinstance(script, Path) else ["-c", *argv])]
        return subprocess.run(
            command, cwd=folder, env=env, capture_output=True, encoding="utf-8", timeout=timeout
        )
    from peer import CONTEXT, forking  # of which there is none without forks

    forking()
    with tempfile.TemporaryDirectory() as told:
        given = (isinstance(script, Path), argv, str(folder or Path.cwd()), env, told)
        process = CONTEXT.Process(target=_be, args=given)
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(argv[:1], timeout)
        out, error = ((Path(told) / name).read_text("utf-8") for name in ("out", "error"))
        return subprocess.CompletedProcess(argv[:1], process.exitcode, out, error)


def _be(is_file, argv, folder, env, told):
    """Be that process, to its end."""
    for descriptor, name in ((1, "out"), (2, "error")):
        os.dup2(os.open(f"{told}/{name}", os.O_WRONLY | os.O_CREAT), descriptor)
    sys.stdout, sys.stderr = (
        open(d, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115  # to the end
        for d in (1, 2)
    )
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = argv if is_file else ["-c", *argv[1:]]
    code = 0
    try:
        if is_file:
            sys.path.insert(0, str(Path(argv[0]).parent))
            runpy.run_path(argv[0], run_name="__main__")
        else:
            exec(compile(argv[0], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  # as the interpreter does
        traceback.print_exc()
        code = 1
    # What multiprocessing leaves out at the end of its processes.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
