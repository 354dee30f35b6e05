"""mpi4py as PyPI gives it: one wheel for every MPI, which uses whatever function of MPI 4 it finds a symbol of."""

import os
import subprocess
import sys
from pathlib import Path

from stage.building import MPIS, RELEASE, ROOT
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

WHEEL = "mpi4py==4.1.2"
PROGRAM = ROOT / "mpi" / "tests" / "programs" / "python_door.py"
MPICH_LIBRARY = "libmpich.so.12"


def wheel_environment():
    """A virtual environment with the wheel, made once and kept beside the built things."""
    folder = RELEASE.parent / f"mpi4py-environment-{WHEEL.partition('==')[2]}"
    if not (folder / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "pip", "--disable-pip-version-check", "install", "--quiet", "--only-binary", ":all:"]
        subprocess.run([*pip, WHEEL], check=True, env={**os.environ, "PIP_CACHE_DIR": str(RELEASE.parent / "pip")})
        (folder / "complete").touch()
    return folder


def library_folder(scene):
    """The wheel asks for MPICH's library by a name that Debian does not give it."""
    folder = scene.new_folder("libraries")
    found = next(Path("/usr/lib").glob(f"*-linux-gnu/{MPICH_LIBRARY}"))
    (folder / "libmpi.so.12").symlink_to(found)
    return folder


# One test for both, so that they do not make the environment at once.
@test(seconds=240)
def the_wheel_of_mpi4py_uses_plain_and_stored_files(scene):
    python = wheel_environment() / "bin" / "python"
    libraries = library_folder(scene)
    for mpi in MPIS:
        variables = {"MPI4PY_MPIABI": mpi, "LD_LIBRARY_PATH": str(libraries) if mpi == "mpich" else ""}
        store = Store(scene, f"store-{mpi}")
        # Open MPI names a semaphore by a plain file's last name, and one that a killed run left blocks the next.
        for prefix in (f"{scene.new_folder(mpi)}/plain-{scene.dice.getrandbits(32):x}-", "SD:/test-"):
            printed = store.run(launch(mpi, 2, python, PROGRAM, prefix), variables=variables)
            check(" No Errors" in printed, f"{prefix} with {mpi}: {printed}")
        store.verify()
