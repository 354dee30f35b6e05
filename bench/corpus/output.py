"""Where one source writes its files, and what corpus.json says of each.

A source asks for `bytes` (how much it should write, about), `random` (numpy's generator, seeded by the source's name) and
`seed` (an integer for programs that want one), and writes with `write`, or makes a file itself and calls `add`.
SPDX-License-Identifier: Apache-2.0
"""

import hashlib
import inspect
import shutil
import tempfile
from pathlib import Path

import numpy

KINDS = ["floating", "integer", "mixed records", "text", "image", "executable", "compressed", "random"]
ELEMENT_NAMES = {"f": "f", "i": "i", "u": "u", "b": "u", "c": "c"}


class Output:
    def __init__(self, corpus: Path, source, fraction, seed):
        self.corpus, self.source = corpus, source
        self.folder = corpus / source.split / source.name
        self.folder.mkdir(parents=True)
        self.bytes = int(source.megabytes * 1e6 * fraction)
        name = f"{source.name} {seed}".encode()
        self.seed = int.from_bytes(hashlib.sha256(name).digest()[:3], "big") + 1
        self.random = numpy.random.default_rng(self.seed)
        self._entries = []

    def write(self, name, content, kind, **facts):
        """Writes an array or bytes as a file. An array's element type, shape and record length are added to the facts."""
        if isinstance(content, numpy.ndarray):
            facts = _facts_of(content) | facts
            content = numpy.ascontiguousarray(content).tobytes()
        (self.folder / name).write_bytes(content)
        self.add(name, kind, **facts)

    def add(self, name, kind, **facts):
        """Lists a file that is there. Facts: element, byte_order, shape, fields, record_bytes, header_bytes, format."""
        if kind not in KINDS:
            raise ValueError(f"{self.source.name}: {kind} is not a kind")
        self._entries.append({"path": name, "kind": kind, **facts})

    def scratch(self):
        """A temporary folder beside the corpus for programs that write more than is kept."""
        return tempfile.TemporaryDirectory(prefix=f".{self.source.name}.", dir=self.corpus)

    def move(self, path: Path, name, kind, **facts):
        """Moves a program's file here and lists it."""
        shutil.move(path, self.folder / name)
        self.add(name, kind, **facts)

    def finish(self):
        """The entries of all files, with size, digest and recipe."""
        function = self.source.make
        recipe = {
            "function": f"bench/corpus/{Path(inspect.getfile(function)).name}: {function.__name__}",
            "seed": self.seed,
            "megabytes": self.bytes / 1e6,
        }
        finished = []
        for entry in self._entries:
            path = self.folder / entry["path"]
            about = {"path": str(path.relative_to(self.corpus)), "source": self.source.name, "split": self.source.split}
            content = path.read_bytes()
            if not content:
                raise ValueError(f"{path} is empty")
            size = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            finished.append({**about, **{key: entry[key] for key in entry if key != "path"}, **size, "recipe": recipe})
        return finished


def _facts_of(array):
    if array.dtype.names:
        fields = [[name, element_name(array.dtype[name])] for name in array.dtype.names]
        return {"fields": fields, "record_bytes": array.dtype.itemsize, "shape": list(array.shape)}
    facts = {"element": element_name(array.dtype), "shape": list(array.shape)}
    return facts | ({"byte_order": "big"} if array.dtype.str.startswith(">") else {})


def element_name(dtype):
    """f32, i64, u8, c64 and the like; of a field that is an array, its base type and length."""
    if dtype.subdtype:
        base, shape = dtype.subdtype
        return f"{element_name(base)}×{shape[0]}"
    return f"{ELEMENT_NAMES[dtype.kind]}{dtype.itemsize * 8}"
