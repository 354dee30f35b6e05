"""Jobs on several hosts: `thalweg run` within Slurm, with a controller and two hosts of the test's own."""

from stage.building import MPIS, ROOT, own_program
from stage.registry import check, test
from stage.slurm import Slurm
from stage.store import Store

SCRIPT = ROOT / "examples" / "slurm" / "job.slurm"


@test(seconds=120)
def a_slurm_job_on_two_hosts_writes_through_the_node_of_its_first(scene):
    store, cluster = Store(scene), Slurm(scene)
    # A process of its own on each host, with a file of its own.
    each = scene.folder / "each"
    each.write_text(f'#!/bin/sh\nexec "{own_program("same_data", "mpich")}" "SD:/from-$(hostname)" 100000\n')
    each.chmod(0o755)
    code, said = cluster.submit(SCRIPT, store.folder, each)
    check(code == 0, f"the job ended with {code}: {said}")
    check(sorted(store.listing()) == ["from-n1", "from-n2"], f"the store has {sorted(store.listing())}: {said}")
    check(not list(scene.folder.glob("home/.cache/thalweg/jobs/*/*")), "the job's secret is gone with it")


@test(seconds=120)
def an_address_that_the_jobs_other_hosts_cannot_reach_is_refused_at_once(scene):
    store, cluster = Store(scene), Slurm(scene)
    script = scene.folder / "wrong.slurm"
    script.write_text("#!/bin/sh\nthalweg run --node 127.0.0.1:7420 -- srun true\n"
                      f"thalweg run --store {store.folder} --listen 127.0.0.1:0 -- srun true\n")
    code, said = cluster.submit(script)
    check(code == 1 and said.count("is reached by this host alone") == 2, f"it ended with {code}: {said}")
    check("n1, n2" in said and "SLURM_JOB_NODELIST" in said, f"the hosts are named: {said}")


@test(each=MPIS, seconds=120)
def ranks_that_mpirun_starts_on_slurms_hosts_share_a_file(scene, mpi):
    store, cluster = Store(scene), Slurm(scene)
    # The hosts' networks are apart and their memory is not, which the libraries take for one host.
    launch = {"mpich": "mpirun.mpich", "openmpi": "mpirun.openmpi --map-by ppr:1:node --mca btl tcp,self"}[mpi]
    words = [SCRIPT, store.folder, own_program("same_data", mpi), "SD:/shared", "100000"]
    code, said = cluster.submit(*words, variables={"LAUNCH": launch})
    check(code == 0, f"the job ended with {code}: {said}")
    check(store.listing()["shared"]["size"] == 200_000, f"two ranks wrote: {store.listing()}, {said}")
