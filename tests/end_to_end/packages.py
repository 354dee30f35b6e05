"""What `make package` and `make install` make works where nothing was built: each in a folder or a root of its own."""

import os
import shlex

from stage.building import RELEASE, ROOT
from stage.mpi import LAUNCHERS
from stage.registry import check, test

# In $FOLDER, with the installed command in the path: files, a program of each MPI, completions and a man page.
FIRST_USE = r"""
set -eu
cd "$FOLDER"
case $(command -v thalweg) in "$BIN"/thalweg) ;; *) echo "not $BIN" >&2; exit 1 ;; esac
thalweg --version | grep -q 'format 0, protocol'
thalweg init store
mkdir back
thalweg put "$SOURCE" store::tree/
thalweg get store::tree back
diff -r "$SOURCE" "back/tree/$(basename "$SOURCE")"
mpicc.mpich -O2 -std=gnu11 -o of-mpich "$SOURCE/particles.c" -lm
mpicc.openmpi -O2 -std=gnu11 -o of-openmpi "$SOURCE/particles.c" -lm
for mpi in mpich openmpi; do
    launcher=$([ $mpi = mpich ] && echo "$MPICH" || echo "$OPENMPI")
    mkdir plain-$mpi
    program="$launcher -n 2 ./of-$mpi --particles 2000 --steps 2 --moving 0.1 --out"
    $program plain-$mpi >/dev/null
    thalweg run --store store -- $program SD:/of-$mpi >/dev/null
    thalweg get store::of-$mpi back
    diff -r plain-$mpi back/of-$mpi
done
if [ -d "$LINKED" ]; then
    mpicc.mpich -O2 -std=gnu11 -o of-linked "$SOURCE/particles.c" -L"$LINKED" -lthalweg_mpich -ldl -lm
    program="$MPICH -n 2 ./of-linked --particles 2000 --steps 2 --moving 0.1 --out"
    thalweg run --store store -- env -u LD_PRELOAD $program SD:/of-linked >/dev/null
    thalweg get store::of-linked back
    diff -r plain-mpich back/of-linked
fi
bash -euc 'source "$1/bash-completion/completions/thalweg"; complete -p thalweg' bash "$SHARE" >/dev/null
ls "$SHARE"/man/man1/thalweg-put.1* "$SHARE"/fish/vendor_completions.d/thalweg.fish "$SHARE"/zsh/*/_thalweg >/dev/null
echo all of it
"""

# 12 until the codecs of issue 15 came in, a megabyte of which Pcodec takes nearly half (docs/decisions/0089), its model with 0.4
# and its pictures with 0.2 (0093); 14 until the planner came in (0095, 0097).
MAX_COMMAND_BYTES = 14_600_000


def make(scene, *words):
    built = {"CARGO_TARGET_DIR": str(RELEASE.parent), "PIP_CACHE_DIR": str(RELEASE.parent / "pip")}
    # Rust's tools live in the user's home.
    scene.run(["make", *words], cwd=ROOT, variables=built | {"HOME": os.environ["HOME"]})


def use(scene, name, prefix, before=()):
    """`before` is the command that runs another one, elsewhere."""
    folder = scene.new_folder(name)
    variables = {
        "FOLDER": folder, "SOURCE": ROOT / "examples", "BIN": f"{prefix}/bin", "SHARE": f"{prefix}/share",
        "LINKED": f"{prefix}/lib/thalweg/linked",
        "PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin",
        "MPICH": shlex.join(LAUNCHERS["mpich"]), "OPENMPI": shlex.join(LAUNCHERS["openmpi"]),
    }
    printed = scene.run([*before, "bash", "-c", FIRST_USE], variables={key: str(value) for key, value in variables.items()})
    check(printed.endswith("all of it\n"), f"{name}: {printed}")


@test(seconds=900)
def what_is_packaged_works_where_it_is_installed(scene):
    packages = scene.folder / "packages"
    make(scene, "package", f"PACKAGES={packages}")
    wheel, tarball, debian = (next(packages.glob(f"*.{kind}")) for kind in ("whl", "tar.xz", "deb"))
    scene.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=packages)
    from_wheel(scene, wheel)
    scene.run(["tar", "-C", scene.folder, "-xf", tarball])
    command = scene.folder / tarball.name.removesuffix(".tar.xz") / "bin" / "thalweg"
    check(command.stat().st_size <= MAX_COMMAND_BYTES, f"the command has {command.stat().st_size} bytes")
    use(scene, "of-tarball", scene.folder / tarball.name.removesuffix(".tar.xz"))
    from_debian_package(scene, debian)


def from_wheel(scene, wheel):
    environment = scene.folder / "environment"
    scene.run(["python3", "-m", "venv", environment])
    scene.run([environment / "bin/pip", "install", "--quiet", wheel], variables={"PIP_CACHE_DIR": str(RELEASE.parent / "pip")})
    use(scene, "of-wheel", environment)
    code = f"import fsspec; print(fsspec.open('thalweg://{scene.folder}/of-wheel/store!/tree/examples/demo').open().readline())"
    check(scene.run([environment / "bin/python", "-c", code]).startswith("b'#!/usr"), "Python reads what the command stored")


def from_debian_package(scene, debian):
    """In a root that shows this machine's, and keeps what is written for itself."""
    root = scene.new_folder("root")
    entered = f"""
        set -eu
        PATH=$PATH:/usr/sbin:/sbin
        mount -t tmpfs tmpfs {root}
        mkdir {root}/upper {root}/work {root}/all
        mount -t overlay overlay -o lowerdir=/,upperdir={root}/upper,workdir={root}/work {root}/all
        mount --bind {scene.folder} {root}/all{scene.folder}
        for part in dev proc; do mount --rbind /$part {root}/all/$part; done
        chroot {root}/all dpkg --install {debian} >/dev/null
        exec chroot {root}/all "$@"
    """
    use(scene, "of-debian", "/usr", ["unshare", "--mount", "sh", "-c", entered, "sh"])


@test(seconds=300)
def make_install_puts_all_below_a_prefix(scene):
    prefix = scene.folder / "prefix"
    make(scene, "install", f"PREFIX={prefix}")
    use(scene, "of-install", prefix)
    unit = (prefix / "lib/systemd/system/thalweg-node@.service").read_text()
    check(f"ExecStart={prefix}/bin/thalweg node %f " in unit, unit)
