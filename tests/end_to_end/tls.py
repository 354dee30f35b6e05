"""TLS and a shared secret together: programs, and commands on a node's address. A client without either gets nothing."""

import subprocess

from stage import trees
from stage.building import MPIS, ROOT, THALWEG
from stage.registry import check, test
from stage.steps import Steps
from stage.store import Store

CERTIFICATES = ROOT / "tests" / "stage" / "certificates.sh"


class Guarded:
    """A store whose node has a certificate and a secret."""

    def __init__(self, scene):
        self.scene, self.folder = scene, scene.new_folder("credentials")
        made = subprocess.run(["sh", CERTIFICATES], cwd=self.folder, capture_output=True, check=False)
        check(made.returncode == 0, made.stderr.decode())
        for name in ("secret", "other-secret"):
            scene.run([THALWEG, "secret", self.folder / name])
        self.store = Store(scene)
        options = ["--tls-cert", self.folder / "node.pem", "--tls-key", self.folder / "node.key"]
        self.node = self.store.start_node(*options, "--secret-file", self.folder / "secret")

    def credentials(self, ca="ca", secret="secret"):
        """The variables of a client with these; None: without."""
        variables = {}
        if ca:
            variables["THALWEG_TLS_CA"] = str(self.folder / f"{ca}.pem")
        if secret:
            variables["THALWEG_SECRET_FILE"] = str(self.folder / secret)
        return variables


# Missing or wrong settings of a client, and its error.
WRONG = [
    ({"ca": None}, "TLS"),
    ({"ca": "other"}, "certificate"),
    ({"secret": None}, "secret"),
    ({"secret": "other-secret"}, "secret"),
]


@test(each=[(mpi, reduce) for mpi in MPIS for reduce in ("node", "client")], seconds=90)
def a_program_writes_over_tls_with_a_secret(scene, case):
    mpi, reduce = case
    guarded = Guarded(scene)
    steps = Steps(scene, mpi, "steps", 4)
    command = guarded.store.run_command(steps.command, [guarded.node], ["--reduce", reduce])
    scene.run(command, variables=guarded.credentials())
    steps.check_content(guarded.store.get("steps", "fetched"))
    for wrong, error in WRONG:
        job = scene.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, variables=guarded.credentials(**wrong))
        said = scene.wait_for(job).decode()
        check(job.returncode not in (0, None), f"a program with {wrong} ended with {job.returncode}")
        check(error in said, f"a program with {wrong} got {said[:500]}")
    guarded.node.stop()
    guarded.store.verify()


@test(seconds=90)
def commands_work_over_tls_with_a_secret(scene):
    guarded = Guarded(scene)
    source = scene.new_folder("source")
    for number in range(20):
        (source / f"file-{number}").write_bytes(scene.dice.randbytes(50_000 * number))
    place = f"thalweg://{guarded.node.address}::"
    right = guarded.credentials()
    scene.run([THALWEG, "put", source, place], variables=right)
    listed = scene.run([THALWEG, "ls", f"{place}source"], variables=right)
    check(listed.count("file-") == 20, f"ls shows {listed}")
    scene.run([THALWEG, "get", f"{place}source", scene.folder / "fetched"], variables=right)
    trees.check_equal(source, scene.folder / "fetched")
    for wrong, error in WRONG:
        for verb in (["ls", place], ["get", f"{place}source", scene.folder / "stolen"], ["put", source, place], ["rm", "-r", f"{place}source"]):
            command = [THALWEG, *verb]
            process = scene.start(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, variables=guarded.credentials(**wrong)
            )
            said = scene.wait_for(process).decode()
            check(process.returncode == 1, f"{verb[0]} with {wrong} ended with {process.returncode}")
            check(error in said, f"{verb[0]} with {wrong} got {said[:500]}")
    check(not (scene.folder / "stolen").exists(), "something was fetched")
    guarded.node.stop()
