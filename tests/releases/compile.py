#!/usr/bin/env python3
"""Whether the compiler of this release of Debian takes our sources: warnings are errors, and no code is made.

    compile.py [--compiler=g++|g++-N|clang++|clang++-N] [--together] [--product] [--jobs=N]

Installs what the sources are compiled with, configures a build for it in a folder of its own, and has the compiler
read every source and every header by itself.
  --compiler  also another version than the release's own, if it has a package of it
  --together  sources are read in the batches of a unity build, with precompiled headers. That takes a fraction of the
              time, and does not see an include that a source lacks where another one of its batch, or the precompiled
              header, has it
  --product   without tests/ and bench/

    tools/on-debian trixie -- tests/releases/compile.py --together --product

Exit status: 0 the compiler takes all, 1 it does not, 64 wrong usage, 69 a package could not be had.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Usage(argparse.ArgumentParser):
    def error(self, message):
        print(f"compile.py: {message}\n{__doc__}", file=sys.stderr)
        sys.exit(64)


def run_quietly(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode != 0:
        print(run.stdout.decode(), file=sys.stderr)
        sys.exit(1)


def install(compiler):
    """Installs the packages. That of a version has its name: g++-13 is in g++-13, and clang++-16 in clang-16."""
    groups = ["build", "compile"] + (["clang"] if compiler == "clang++" else [])
    if subprocess.run([ROOT / "tools/install-deps", *groups], check=False).returncode != 0:
        return False
    if "-" not in compiler or shutil.which(compiler):
        return True
    install = ["install", "--yes", "--no-install-recommends", compiler.replace("clang++", "clang")]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    return all(
        subprocess.run(["apt-get", "-qq", *step], stdout=subprocess.DEVNULL, env=environment, check=False).returncode == 0
        for step in (["update"], install)
    )


def c_compiler_of(compiler):
    return compiler.replace("clang++", "clang").replace("g++", "gcc")


def configure(build, compiler, together, product):
    """Returns the compile commands."""
    quick = "ON" if together else "OFF"
    run_quietly(
        [
            "cmake", "-S", ROOT, "-B", build, "--preset", "dev", "-DCMAKE_CXX_FLAGS=", "-DCMAKE_C_FLAGS=",
            f"-DCMAKE_CXX_COMPILER={compiler}", f"-DCMAKE_C_COMPILER={c_compiler_of(compiler)}", "-DREMORA_CTEST=shards",
            "-DREMORA_MUTANTS=OFF", f"-DREMORA_PRECOMPILE_HEADERS={quick}",
            f"-DREMORA_UNITY_BUILD={quick}", f"-DREMORA_UNITY_TESTS={quick}", "-DREMORA_UNITY_BATCH_SIZE=100",
        ]
    )  # fmt: skip
    # The tests' headers are always precompiled.
    precompiled = ([] if product else ["shared_headers_of_tests"]) + (["common_headers"] if together else [])
    if precompiled:
        run_quietly(["cmake", "--build", build, "--target", *precompiled])
    units = json.loads((build / "compile_commands.json").read_text())
    # Those were taken just now. Clang would write them to its output once more.
    return [unit for unit in units if "cmake_pch" not in pathlib.Path(unit["file"]).name]


def read(entry):
    """Returns what the compiler says of one unit, and how: nothing where all is well."""
    command = shlex.split(entry["command"])
    output = command.index("-o")
    command[output : output + 2] = []
    run = subprocess.run(
        [*command, "-fsyntax-only"], cwd=entry["directory"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    said = run.stdout.decode(errors="replace")
    return f"{entry['file']}: status {run.returncode}\n{said}" if run.returncode != 0 or said else ""


def is_product(name, build):
    """So are the sources that a build makes in tests/lint to read the product's headers by themselves."""
    path = pathlib.Path(name)
    inside = path.relative_to(build if build in path.parents else ROOT).as_posix()
    return not inside.removeprefix("tests/lint/headers/").startswith(("tests/", "bench/"))


def main():
    parser = Usage(add_help=False)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--product", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    if not re.fullmatch(r"(g|clang)\+\+(-[1-9][0-9]?)?", arguments.compiler):
        parser.error(f"--compiler takes g++, clang++ or a version of them as clang++-16, not '{arguments.compiler}'")
    if not install(arguments.compiler):
        return 69
    begun = time.monotonic()
    build = ROOT / f"build-compile-{arguments.compiler.replace('++', '')}{'-together' if arguments.together else ''}"
    units = configure(build, arguments.compiler, arguments.together, arguments.product)
    if arguments.product:
        units = [unit for unit in units if is_product(unit["file"], build)]
    rejections = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as readers:
        for said in filter(None, readers.map(read, units)):
            print(said, flush=True)
            rejections += 1
    version = subprocess.run([arguments.compiler, "--version"], stdout=subprocess.PIPE, check=True).stdout
    name = version.decode().splitlines()[0]
    print(f"{name}: {len(units)} units, {rejections} not taken, {time.monotonic() - begun:.0f} s")
    return 1 if rejections else 0


if __name__ == "__main__":
    sys.exit(main())
