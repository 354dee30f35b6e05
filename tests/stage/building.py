"""Where the built things are, and the programs that only these tests use, compiled by both MPIs."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve() / "release"
THALWEG = RELEASE / "thalweg"
MPIS = ["mpich", "openmpi"]

_compiled = {}


def compile_programs(folder):
    """Compiles programs/*.c: with each mpicc what includes mpi.h, once with cc what does not; and preloads/*.c."""
    if not THALWEG.exists():
        raise SystemExit(f"tests/run: {THALWEG} is missing: run `make build`")
    for source in sorted((ROOT / "tests" / "programs").glob("*.c")):
        for mpi in MPIS if "<mpi.h>" in source.read_text() or "check.h" in source.read_text() else [None]:
            program = folder / (mpi or "plain") / source.stem
            program.parent.mkdir(parents=True, exist_ok=True)
            compiler = [f"mpicc.{mpi}"] if mpi else ["cc"]
            flags = ["-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", f"-I{ROOT}/mpi/tests", "-Wno-unused-function"]
            subprocess.run([*compiler, *flags, "-o", program, source], check=True)
            _compiled[mpi, source.stem] = program
    for source in sorted((ROOT / "tests" / "preloads").glob("*.c")):
        library = folder / f"{source.stem}.so"
        subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", library, source], check=True)
        _compiled["preload", source.stem] = library


def own_program(name, mpi=None):
    return _compiled[mpi, name]


def preload(name):
    """One of preloads/, to be named in LD_PRELOAD."""
    return _compiled["preload", name]


def door_program(mpi, name):
    """One of mpi/tests/programs, as `make build` leaves it."""
    return RELEASE / "tests" / mpi / name


def door_programs():
    """The names of all programs of mpi/tests that work on a store, also those that failed to be built."""
    sources = (ROOT / "mpi" / "tests" / "programs").rglob("*.[cf]*")
    return sorted(source.stem for source in sources if source.suffix in (".c", ".f90") and source.stem not in APART)


# They are about the door without a store, or about an option.
APART = {"untouched", "lone_door", "inquire"}
