"""The two launchers."""

LAUNCHERS = {
    "mpich": ["mpirun.mpich"],
    # More ranks than cores, and only what works on one machine.
    "openmpi": ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader"],
}


def launch(mpi, ranks, *command):
    """The command line that starts a program on so many ranks."""
    return [*LAUNCHERS[mpi], "-n", str(ranks), *map(str, command)]
