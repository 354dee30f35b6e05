"""`thalweg run --posix-names`: programs that look for a file, or remove it, beside MPI-IO."""

from stage.building import MPIS, ROOT, THALWEG, door_program
from stage.mpi import launch
from stage.registry import check, test
from stage.store import Store

OPTIONS = ["--posix-names"]
# Every step in its own process, so that each begins with the loaded library as a shell's command does.
SCRIPT = """
stat -c '%s %F %a' SD:/folder/there; stat -c %s plain; test -f SD:/folder/there && echo found
bash -c 'test -r SD:/folder/there && test ! -x SD:/folder/there && echo readable'
stat SD:/folder/nowhere; stat SD:/folder/there/below; unlink SD:/folder/there && echo removed
bash -c 'test -e SD:/folder/there || echo gone'; true
"""
EXPECTED = ["5 regular file 644", "3", "readable", "removed", "gone"]


@test(each=MPIS)
def fortran_inquires_about_stored_files(scene, mpi):
    store = Store(scene)
    command = launch(mpi, 2, door_program(mpi, "inquire"), "SD:/test-", scene.new_folder("plain"))
    check(" No Errors" in store.run(command, options=OPTIONS), "INQUIRE answered something else")
    check(store.sessions() == [], "sessions were left open")
    store.verify()


@test
def commands_look_for_and_remove_stored_files(scene):
    store = Store(scene)
    (scene.folder / "there").write_text("12345")
    (scene.folder / "plain").write_text("123")
    store.command("put", scene.folder / "there", store.at("folder/there"))
    script = SCRIPT.replace("plain", str(scene.folder / "plain")).replace("test -f", "/usr/bin/test -f")
    printed = store.run(["bash", "-c", script], options=OPTIONS).splitlines()
    check([line for line in printed if line != "found"] == EXPECTED, f"printed {printed}")
    check("found" in printed, "a test for a regular file failed")
    check("folder/there" not in store.listing(), "unlink left the file")


@test
def without_the_option_names_are_unknown(scene):
    store = Store(scene)
    printed = store.run(["bash", "-c", "test -e SD:/there; echo $?"])
    check(printed.split() == ["1"], f"printed {printed}")


@test
def pnetcdf_makes_opens_and_refuses_to_make_again(scene):
    # Debian's library is of Open MPI. Its release 1.12 takes what stands before the first colon for a file system's type.
    store, program = Store(scene), scene.folder / "pnetcdf"
    source = ROOT / "tests" / "programs" / "libraries" / "pnetcdf.c"
    scene.run(["mpicc.openmpi", "-o", program, source, "-lpnetcdf"])
    printed = store.run(launch("openmpi", 2, program, "SD:SD:folder/x.nc"), options=OPTIONS)
    check(" No Errors" in printed, f"printed {printed}")
    check(set(store.listing()) == {"folder", "folder/x.nc"}, f"the store has {set(store.listing())}")
    check(store.sessions() == [], "sessions were left open")
    store.verify()


@test
def stored_files_are_read_as_pipes_are(scene):
    store, content = Store(scene), scene.dice.randbytes(3 << 20)
    (scene.folder / "there").write_bytes(content)
    store.command("put", scene.folder / "there", store.at("there"))
    fetched = scene.folder / "fetched"
    script = f"cat SD:there >{fetched}; head -c 8 SD:there | wc -c; cat SD:nowhere; cat >SD:there </dev/null; " \
             f"dd if=SD:there skip=1 iflag=skip_bytes count=1 bs=4 status=none | wc -c; truncate -s 5 SD:there; " \
             f"bash -c 'echo over >>SD:there' || echo refused"
    printed = store.run(["bash", "-c", script], options=OPTIONS).split()
    check(fetched.read_bytes() == content, "cat printed something else")
    check(printed[0] == "8" and printed[-1] == "refused", f"printed {printed}")
    check(store.sessions() == [], "sessions were left open")
    check(store.stat("there")["size"] == len(content), "the file was changed")
    store.verify()
