"""`thalweg simulate`: its figures, its traces, and what it says of mistakes."""

import json
import xml.etree.ElementTree

from stage.building import THALWEG
from stage.registry import check, test


def simulated(scene, *words, **settings):
    return json.loads(scene.run([THALWEG, "simulate", *words, "--json"], **settings))


@test
def a_simulated_run_has_every_figure_and_is_the_same_for_the_same_seed(scene):
    words = ["monotonic", "--policy", "gcc", "--cache-gb", "1", "--tasks", "20000", "--cpus", "16"]
    first = simulated(scene, *words, "--seed", "7")
    for key in (
        "makespan_s", "ideal_s", "efficiency", "response_mean_s", "response_p99_s", "cpu_hours",
        "bytes_local", "bytes_peer", "bytes_store", "performance_index",
    ):
        check(isinstance(first[key], (int, float)), f"{key} is {first.get(key)!r}")
    check(first["bytes_local"] + first["bytes_peer"] + first["bytes_store"] == 20000 * 10**7, "bytes are lost")
    check(first == simulated(scene, *words, "--seed", "7"), "the same seed gave another run")
    check(first != simulated(scene, *words, "--seed", "8"), "another seed gave the same run")


@test
def each_policy_runs_each_workload_under_either_provisioning(scene):
    workloads = {
        "monotonic": ["--tasks", "5000"],
        "sine": ["--tasks", "5000"],
        "all-pairs": ["--files", "40", "--compute-s", "1", "--cpus", "16"],
        "stacking": ["--locality", "30", "--cpus", "16"],
    }
    for workload, words in workloads.items():
        for policy in ("fa", "mch", "mcu", "gcc", "thalweg"):
            for provisioning in ("static", "dynamic"):
                found = simulated(scene, workload, *words, "--policy", policy, "--provisioning", provisioning)
                check(found["makespan_s"] >= found["ideal_s"] * 0.999, f"{workload} {policy}: faster than possible")


@test
def all_pairs_reads_each_file_from_the_store_once(scene):
    found = simulated(scene, "all-pairs", "--files", "100", "--cpus", "64")
    check(found["bytes_store"] <= 1.02 * found["bytes_unique"], f"{found['bytes_store']} bytes from the store")


@test
def a_figure_is_well_formed_svg_with_four_panels(scene):
    path = scene.folder / "figure.svg"
    scene.run([THALWEG, "simulate", "monotonic", "--tasks", "5000", "--figure", path])
    texts = [element.text for element in xml.etree.ElementTree.parse(path).iter() if element.tag.endswith("text")]
    for title in ("Throughput in Gb/s", "Tasks that wait", "Nodes and busy CPUs", "Where input was found, in %"):
        check(title in texts, f"the figure misses {title!r}")


@test
def a_trace_is_simulated_and_a_wrong_one_named_by_its_line(scene):
    trace = scene.folder / "trace"
    trace.write_text("file a 10000000\nfile b 5\ntask 0 1 reads a writes b\ntask 4 1 reads a b # both are there\n")
    found = simulated(scene, trace)
    check(found["tasks"] == 2 and found["bytes_store"] == 10**7, f"the trace gave {found}")
    check(5 < found["makespan_s"] < 5.5, f"the trace took {found['makespan_s']} s")
    trace.write_text("file a 10\ntask 0 1 reads b\n")
    said = scene.run([THALWEG, "simulate", trace], code=1, stderr=-2)
    check("line 2" in said and "b is not declared" in said, f"it said {said!r}")


@test
def other_nodes_have_as_many_processors_together(scene):
    words = ["monotonic", "--tasks", "1000", "--cpus-per-node"]
    check([simulated(scene, *words, at)["cpus"] for at in ("1", "2", "16")] == [128] * 3, "processors came or went")


@test
def what_cannot_be_simulated_is_refused_in_one_line_that_says_what_can(scene):
    for word, value, can in (
        ("--policy", "best", "mch, mcu, gcc or thalweg"),
        ("--cache-gb", "-1", "from 0 to"),
        ("--window", "0", "not in 1.."),
        ("--cpus", "4000000000", "1..=1048576"),
        ("--cpus-per-node", "0", "1..=1024"),
        ("--tasks", "5000000000", "1..=100000000"),
        ("--files", "100000000", "1..=5000"),
        ("--compute-s", "nan", "seconds from 0 to"),
        ("--compute-s", "-1", "seconds from 0 to"),
        ("--locality", "7", "one of 1, 1.38, 2"),
    ):
        said = scene.run([THALWEG, "simulate", "all-pairs", f"{word}={value}"], code=2, stderr=-2)
        check(said.startswith("thalweg: ") and said.count("\n") == 1, f"{word} {value} said {said!r}")
        check(word in said and value in said and can in said, f"{word} {value} said {said!r}")
    said = scene.run([THALWEG, "simulate", "nothing"], code=1, stderr=-2)
    check("neither monotonic" in said and said.count("\n") == 1, f"it said {said!r}")
