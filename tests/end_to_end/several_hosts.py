"""Jobs on several hosts without Slurm: `thalweg run` before mpirun, which gets the hosts, or a job script in PBS."""

from stage.building import MPIS, own_program
from stage.cluster import Cluster
from stage.registry import check, test
from stage.store import Store

# The hosts' networks are apart and their memory is not, which the libraries take for one host.
LAUNCHERS = {
    "mpich": ["mpirun.mpich", "-ppn", "1", "-launcher", "ssh", "-launcher-exec"],
    "openmpi": ["mpirun.openmpi", "--map-by", "ppr:1:node", "--mca", "btl", "tcp,self", "--mca", "plm_rsh_agent"],
}


def launcher(cluster, mpi):
    return [*LAUNCHERS[mpi], cluster.shell]


@test(each=MPIS, seconds=120)
def ranks_on_the_hosts_given_to_mpirun_share_a_file(scene, mpi):
    store, cluster = Store(scene), Cluster(scene)
    job = [*launcher(cluster, mpi), "--host", "n1,n2", "-n", "2", own_program("same_data", mpi), "SD:/shared", "100000"]
    said = cluster.run(["thalweg", "run", "--store", store.folder, "--", *job], host="n1")
    check(store.listing()["shared"]["size"] == 200_000, f"two ranks wrote: {store.listing()}, {said}")


@test(each=MPIS, seconds=120)
def a_pbs_job_on_two_hosts_writes_through_the_node_of_its_first(scene, mpi):
    store, cluster = Store(scene), Cluster(scene)
    hosts, script = cluster.folder / "nodefile", cluster.folder / "job"
    hosts.write_text("n1\nn2\n")
    words = [*launcher(cluster, mpi), "-hostfile", hosts, "-n", "2", own_program("same_data", mpi), "SD:/shared", "100000"]
    script.write_text("#!/bin/sh\nexec " + " ".join(map(str, words)) + "\n")
    script.chmod(0o755)
    said = cluster.run(["thalweg", "run", "--store", store.folder, "--", script], host="n1",
                       variables={"PBS_NODEFILE": str(hosts), "PBS_JOBID": "1.ctl"})
    check(store.listing()["shared"]["size"] == 200_000, f"two ranks wrote: {store.listing()}, {said}")


@test(seconds=60)
def a_host_without_an_address_is_named_at_once(scene):
    store, cluster = Store(scene), Cluster(scene)
    said = cluster.run(["sh", "-c", 'exec "$@" 2>&1', "sh", "thalweg", "run", "--store", store.folder, "--", "mpirun.mpich",
                        "--host", "n1,n9", "true"], code=1, host="n1")
    check("n9" in said and "--listen" in said, said)
