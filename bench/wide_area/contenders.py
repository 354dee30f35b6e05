"""Who brings bytes over the link in `bench/remote`: each makes what it needs on the far side, and times itself.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import shutil
import subprocess

from demonstration.store import find_thalweg
from measuring import mpi
from wide_area import link, one_stream, s3
from wide_area.far_side import FarSide

IPERF_PORT = 7473
SMALL_BYTES = 64 << 10
IPERF_STREAMS = (1, 2, 4, 8, 16)
CONGESTION = ("bbr", "cubic")
MPI_RANKS = (1, 4)
# Connections of each MPI process: none leaves the number to Thalweg.
MPI_STREAMS = (None, 8)


class Contender:
    def __init__(self, name, run):
        self.name, self.run = name, run


def prepare(arguments, scratch):
    """Makes the data; returns the contenders that --only names."""
    work = Work(arguments, scratch)
    found = [
        Contender("thalweg put", work.put),
        Contender("thalweg put, small files", work.put_small),
        Contender("thalweg get", work.get),
        Contender("thalweg get, small files", work.get_small),
    ]
    for ranks in MPI_RANKS:
        for streams in MPI_STREAMS:
            name = f"thalweg MPI, {ranks} rank{'s' * (ranks > 1)}{f', {streams} streams' if streams else ''}"
            found.append(Contender(name, lambda *run, r=ranks, s=streams: work.mpi(r, s, *run)))
    for congestion in CONGESTION:
        found.append(Contender(f"one stream, {congestion}", lambda *run, c=congestion: work.stream(c, *run)))
        for count in IPERF_STREAMS:
            name = f"iperf3 -P {count}, {congestion}"
            found.append(Contender(name, lambda *run, n=count, c=congestion: work.iperf(n, c, *run)))
    found.append(Contender("rclone, S3, 16 parts at once", work.rclone))
    found.append(Contender("rclone, S3, small files, 64 at once", work.rclone_small))
    found.append(Contender("rclone back, S3, 16 streams", work.rclone_back))
    found.append(Contender("rclone back, S3, small files, 64 at once", work.rclone_small_back))
    words = arguments.only
    return [contender for contender in found if not words or any(word in contender.name for word in words)]


class Work:
    """`run` of a contender gives seconds, bytes of content, and files."""

    def __init__(self, arguments, scratch):
        self.arguments = arguments
        self.bytes = arguments.megabytes << 20
        self.large, self.small, self.back = scratch / "large", scratch / "small", scratch / "back"
        self.far = FarSide(scratch, arguments.timeout_s)
        self.fresh = mpi.build("mpich", "fresh", scratch)
        with open(self.large, "wb") as file:
            for _ in range(arguments.megabytes):
                file.write(os.urandom(1 << 20))
        self.small.mkdir()
        for number in range(arguments.files):
            (self.small / f"{number:05}").write_bytes(os.urandom(SMALL_BYTES))

    def put(self, environment, _):
        with self.far.node(environment) as node:
            seconds = self.far.timed([find_thalweg(), "put", self.large, f"thalweg://{node}::large"], environment)
        return seconds, self.bytes, 1

    def put_small(self, environment, _):
        files = self.arguments.files
        with self.far.node(environment) as node:
            seconds = self.far.timed([find_thalweg(), "put", self.small, f"thalweg://{node}::small"], environment)
        return seconds, files * SMALL_BYTES, files

    def get(self, environment, _):
        return self.got(environment, self.large), self.bytes, 1

    def get_small(self, environment, _):
        files = self.arguments.files
        return self.got(environment, self.small), files * SMALL_BYTES, files

    def got(self, environment, what):
        """Seconds; what was put there is compared with what came back."""
        back = self.empty_back()
        with self.far.node(environment) as node:
            there = f"thalweg://{node}::there"
            self.far.output([find_thalweg(), "put", what, there], environment)
            seconds = self.far.timed([find_thalweg(), "get", there, back], environment)
        self.compare(what, back)
        return seconds

    def empty_back(self):
        """Where something comes back to: no such name yet."""
        shutil.rmtree(self.back, ignore_errors=True)
        self.back.mkdir()
        return self.back / "back"

    def compare(self, what, back):
        subprocess.run(["diff", "--recursive", "--brief", what, back], check=True)

    def mpi(self, ranks, streams, environment, number):
        """From before MPI_File_open until after MPI_File_close, on the slowest rank."""
        megabytes = self.arguments.megabytes // ranks
        job = mpi.launch("mpich", ranks, self.fresh, "SD:/large", megabytes, 4096, number + 1)
        if streams:
            environment = environment | {"THALWEG_STREAMS": str(streams)}
        with self.far.node(environment) as node:
            command = [find_thalweg(), "run", "-q", "--node", node, "--", *job]
            said = self.far.output(command, environment)
        report = mpi.reported(said)
        return report["seconds"], report["bytes"], 1

    def stream(self, congestion, environment, _):
        return one_stream.seconds(self.far, self.large, environment, congestion), self.bytes, 1

    def iperf(self, count, congestion, environment, _):
        """What the far side received, in the time that it took there: no connecting, no last answer."""
        server = ["iperf3", "--server", "--one-off", "--port", str(IPERF_PORT)]
        client = ["iperf3", "--client", link.FAR, "--port", str(IPERF_PORT), "--congestion", congestion, "--json"]
        with self.far.running(environment, server, IPERF_PORT):
            said = self.far.output([*client, "--parallel", str(count), "--bytes", str(self.bytes)], environment)
        received = json.loads(said)["end"]["sum_received"]
        return received["seconds"], received["bytes"], 1

    def rclone(self, environment, _):
        with s3.bucket(self.far, environment) as settings:
            seconds = self.far.timed(["rclone", "copyto", *s3.LARGE, self.large, f"{s3.BUCKET}/large"], settings)
        return seconds, self.bytes, 1

    def rclone_small(self, environment, _):
        files = self.arguments.files
        with s3.bucket(self.far, environment) as settings:
            seconds = self.far.timed(["rclone", "copy", *s3.SMALL, self.small, f"{s3.BUCKET}/small"], settings)
        return seconds, files * SMALL_BYTES, files

    def rclone_back(self, environment, _):
        back = self.empty_back()
        with s3.bucket(self.far, environment) as settings:
            self.far.output(["rclone", "copyto", *s3.LARGE, self.large, f"{s3.BUCKET}/large"], settings)
            seconds = self.far.timed(["rclone", "copyto", *s3.LARGE_BACK, f"{s3.BUCKET}/large", back], settings)
        self.compare(self.large, back)
        return seconds, self.bytes, 1

    def rclone_small_back(self, environment, _):
        files, back = self.arguments.files, self.empty_back()
        with s3.bucket(self.far, environment) as settings:
            self.far.output(["rclone", "copy", *s3.SMALL, self.small, f"{s3.BUCKET}/small"], settings)
            seconds = self.far.timed(["rclone", "copy", *s3.SMALL, f"{s3.BUCKET}/small", back], settings)
        self.compare(self.small, back)
        return seconds, files * SMALL_BYTES, files
