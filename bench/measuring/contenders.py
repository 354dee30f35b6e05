"""The contenders of bench/backup. Each contender has the same verbs: init, put, get, size. Only put and get are timed.

restic always encrypts, Thalweg does not, borg can do either: `borg` is to be held against `thalweg`, `borg-encrypted`
against `restic`. All use their own default compression, which is lz4 for borg, as `thalweg-lz4` has it;
`restic-uncompressed` and `thalweg-uncompressed` use none.
Client caches: borg keeps its (it skips unchanged files by it), restic gets --no-cache, which is the faster on a local
repository. No contender is asked for progress.
SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
from pathlib import Path


class Contender:
    """`folder` is the contender's own: it holds the repository and whatever else it keeps."""

    name = ""

    def __init__(self, folder: Path):
        self.folder = folder
        self.repository = folder / "repository"

    def environment(self):
        return dict(os.environ)

    def init(self):
        """The command that makes the repository, or None."""

    def put(self, source: Path, number: int):
        """The command that stores the tree; `number` counts the puts, from 0."""
        raise NotImplementedError

    def get(self, source: Path, destination: Path):
        """The command that brings the newest put back, to a tree somewhere under the destination."""
        raise NotImplementedError

    def fetched(self, source: Path, destination: Path):
        """Where under the destination get leaves the tree."""
        return destination / source.name

    def size_bytes(self):
        """The size of the repository on disk."""
        done = subprocess.run(["du", "-s", "--block-size=1", self.repository], check=True, capture_output=True, text=True)
        return int(done.stdout.split()[0])


class Cp(Contender):
    name = "cp"

    def init(self):
        return ["mkdir", self.repository]

    def put(self, source, number):
        return ["cp", "-a", "-u", source, self.repository]

    def get(self, source, destination):
        return ["cp", "-a", self.repository / source.name, destination]


class Thalweg(Contender):
    name = "thalweg"
    init_flags = ()
    command = "thalweg"

    def init(self):
        return [self.command, "init", self.repository, *self.init_flags]

    def put(self, source, number):
        return [self.command, "put", source, f"{self.repository}::tree/"]

    def get(self, source, destination):
        return [self.command, "get", f"{self.repository}::tree/{source.name}", destination]


class ThalwegUncompressed(Thalweg):
    name = "thalweg-uncompressed"
    init_flags = ("--codec", "none")


class ThalwegLz4(Thalweg):
    name = "thalweg-lz4"
    init_flags = ("--codec", "lz4")


class Restic(Contender):
    name = "restic"
    compression = "auto"

    def environment(self):
        return super().environment() | {"RESTIC_PASSWORD": "bench", "RESTIC_REPOSITORY": str(self.repository)}

    def init(self):
        return ["restic", "init", "--quiet", "--no-cache", "--repository-version", "2"]

    def put(self, source, number):
        return ["restic", "backup", "--quiet", "--no-cache", "--compression", self.compression, source]

    def get(self, source, destination):
        return ["restic", "restore", "--quiet", "--no-cache", "latest", "--target", destination]

    def fetched(self, source, destination):
        return destination / source.relative_to("/")


class ResticUncompressed(Restic):
    name = "restic-uncompressed"
    compression = "off"


class Borg(Contender):
    name = "borg"
    encryption = "none"

    def environment(self):
        own = {"BORG_BASE_DIR": str(self.folder), "BORG_PASSPHRASE": "bench", "BORG_REPO": str(self.repository)}
        return super().environment() | own | {"BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}

    def init(self):
        return ["borg", "init", "--encryption", self.encryption]

    def put(self, source, number):
        return ["borg", "create", f"::put{number}", source]

    def get(self, source, destination):
        newest = 'cd "$1" && exec borg extract --sparse "::$(borg list --last 1 --format "{archive}")"'
        return ["sh", "-c", newest, "sh", destination]

    def fetched(self, source, destination):
        return destination / source.relative_to("/")


class BorgEncrypted(Borg):
    name = "borg-encrypted"
    encryption = "repokey-blake2"


ALL = [Cp, Thalweg, ThalwegLz4, ThalwegUncompressed, Restic, ResticUncompressed, Borg, BorgEncrypted]
