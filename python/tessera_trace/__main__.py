"""python -m tessera_trace FILE:FUNCTION --mesh dp=64,tp=8 [-o run.json] [--name NAME] [--root FOLDER]

Exit codes: 0 fine; 2 the command line, or a build function that fails; 3 what it returned, or a mesh, that cannot be traced;
4 a file that cannot be read or written, or no torch.
"""
import argparse
import importlib.util
import os
import sys
import tempfile
import traceback


def main(arguments=None):
    options = _options(arguments)
    try:
        from . import BuildFailed, TraceError, mesh_axes, trace  # torch takes seconds to load: not for a misspelt option
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"tessera_trace: {sys.executable} has no torch; 2.9 or later is needed: pip install torch", file=sys.stderr)
        return 4

    try:
        mesh_axes(options.mesh)
    except TraceError as error:
        print(f"tessera_trace: {error}", file=sys.stderr)
        return 2
    path, _, function = options.program.rpartition(":")
    try:
        build = _loaded(path, function)
        made = trace(build, options.mesh, name=options.name, command=f"{os.path.basename(path)}:{function}",
                     root=options.root)
        _write(options.output, made.text)
    except BuildFailed as error:
        _print_failure(error)
        return 2
    except TraceError as error:
        print(f"tessera_trace: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"tessera_trace: {error.filename}: {error.strerror}", file=sys.stderr)
        return 4
    counts = made.counts
    print(f"tessera_trace: {made.records} steps; {counts['mapped']} of {counts['ops']} ops mapped "
          f"({100 * made.mapped_share:.1f} %); {len(made.warnings)} warnings", file=sys.stderr)
    for name, calls in sorted(counts["unmapped"].items(), key=lambda item: (-item[1], item[0])):
        print(f"  not mapped: {name} ({calls})", file=sys.stderr)
    return 0


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m tessera_trace", description=__doc__.split("\n\n")[1],
                                     usage=__doc__.split("\n\n")[0].removeprefix("usage: "), allow_abbrev=False)
    parser.add_argument("program", metavar="FILE:FUNCTION", help="the build function: build(mesh) or build(mesh, stage=0)")
    parser.add_argument("--mesh", required=True, help="axes and sizes, outermost first: dp=64,tp=8")
    parser.add_argument("-o", "--output", default="-", help="where the program goes; - is standard output")
    parser.add_argument("--name", help="the program's name; left out, the function's")
    parser.add_argument("--root", help="source lines are told from this folder; left out, the current one")
    options = parser.parse_args(arguments)
    path, colon, function = options.program.rpartition(":")
    if not colon or not path or not function.isidentifier():
        parser.error(f"{options.program!r}: allowed: FILE:FUNCTION, train.py:build")
    return options


def _loaded(path, function):
    """The function of a file, whose folder comes first where it imports. Errors: TraceError, BuildFailed, OSError."""
    from . import BuildFailed, TraceError

    with open(path, "rb"):  # so that a missing file is told as one
        pass
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(file)[0], path)
    if spec is None:
        raise TraceError(f"{path}: allowed: a Python file, .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever a user's file may raise
        raise BuildFailed(f"importing {file}", "tessera_trace/__main__.py") from error
    build = getattr(module, function, None)
    if not callable(build):
        seen = "there is no such name" if build is None else f"it is a {type(build).__name__}"
        names = [name for name, each in vars(module).items()
                 if callable(each) and getattr(each, "__module__", "") == spec.name]
        raise TraceError(f"{file}: {function}: {seen}; functions there: {', '.join(sorted(names)) or 'none'}")
    return build


def _print_failure(error):
    """The user's own traceback, from the first frame that is not ours on; then which line of ours called it."""
    cause, own = error.__cause__, os.path.dirname(os.path.abspath(__file__))
    frames = traceback.extract_tb(cause.__traceback__)
    kept = [frame for frame in frames
            if not os.path.abspath(frame.filename).startswith(own) and not frame.filename.startswith("<")]
    print("Traceback (most recent call last):", file=sys.stderr)
    print("".join(traceback.format_list(kept)) + "".join(traceback.format_exception_only(type(cause), cause)).rstrip(),
          file=sys.stderr)
    print(f"tessera_trace: {error}", file=sys.stderr)


def _write(output, text):
    """Whole or not at all."""
    if output == "-":
        sys.stdout.write(text)
        return
    folder = os.path.dirname(os.path.abspath(output))
    try:
        handle, made = tempfile.mkstemp(dir=folder, prefix=".tessera_trace.")
    except OSError as error:
        raise OSError(error.errno, error.strerror, output) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(made, 0o644)
        os.replace(made, output)
    except OSError:
        os.unlink(made)
        raise


if __name__ == "__main__":
    sys.exit(main())
