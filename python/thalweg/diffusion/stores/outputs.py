"""A task's outputs, on their way to their places: there each appears whole or not at all.

A task writes into a folder of its attempt on the worker. When the attempt is the one that counts, each file goes to a
temporary beside its place and is renamed, or is put in place at once where a store shows nothing before all is there.
SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import fsspec

from thalweg.diffusion.arguments import base_name
from thalweg.diffusion.stores.output_folder import is_file, is_filled_folder, put_folder
from thalweg.diffusion.stores.protocols import is_local, make_parent, shows_whole_files
from thalweg.diffusion.stores.stall_timeout import with_stall_timeout
from thalweg.disk_cache.tree import size_of
from thalweg.error_code import Coded, coded

# A store that takes less than this a second is taken to be silent.
_SLOWEST_BYTES_PER_S = 1e6


# Beside the outputs of an attempt, if its command leaves a recipe.
RECIPE_NAME = "recipe"


class OutputMissing(Coded, FileNotFoundError):
    """The task ended well, but did not write one of its outputs."""

    code = "TW-857"


class Outputs:
    """The files and folders one attempt writes."""

    def __init__(self, folder: str, urls: tuple[str, ...], replaced: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.replaced = replaced
        # Of the inputs that are whole files, as the cache has them.
        self.input_versions: dict[str, str | None] = {}
        self.paths = {url: os.path.join(folder, str(at), base_name(url)) for at, url in enumerate(urls)}

    def prepare(self) -> None:
        """Fails before the task runs where no local folder could appear in the end."""
        for url, path in self.paths.items():
            if "://" not in url and "::" not in url and url not in self.replaced:
                check_free(url, {})
            os.makedirs(os.path.dirname(path), exist_ok=True)

    def check(self) -> None:
        for url, path in self.paths.items():
            if not os.path.exists(path):
                raise OutputMissing(f"the task ended without writing its output {url} (to {path})")

    def folders(self) -> list[str]:
        return [url for url, path in self.paths.items() if os.path.isdir(path)]

    @property
    def recipe_path(self) -> str:
        return os.path.join(self.folder, RECIPE_NAME)

    def has_recipe(self) -> bool:
        return os.path.exists(self.recipe_path)

    def remove(self) -> None:
        if self.paths:
            shutil.rmtree(self.folder, ignore_errors=True)


def check_free_for_folder(url: str, storage_options: dict[str, Any], stall_timeout_s: float | None = None) -> None:
    """Raises also where a file is."""
    check_free(url, storage_options, stall_timeout_s)
    fs, place = fsspec.core.url_to_fs(url, **storage_options)
    if with_stall_timeout(lambda: is_file(fs, place), stall_timeout_s, url):
        raise coded(
            FileExistsError(
                f"{url}: there is a file, which the task's output, a folder, would replace: move it away or name another place; "
                "Output(url, replace=True) replaces it"
            ),
            "TW-207",
        )


def check_free(url: str, storage_options: dict[str, Any], stall_timeout_s: float | None = None) -> None:
    """Raises where a folder is that is not empty: to replace it costs all that is in it."""
    # Files listed before may have changed since.
    fs, place = fsspec.core.url_to_fs(url, **{**storage_options, "skip_instance_cache": True})
    if with_stall_timeout(lambda: is_filled_folder(fs, place), stall_timeout_s, url):
        raise coded(
            FileExistsError(
                f"{url}: there is a folder that this run did not write, which its output would replace with all that is in "
                "it: move it away or name another place; Output(url, replace=True) replaces it"
            ),
            "TW-207",
        )


def put(
    path: str, url: str, suffix: str, storage_options: dict[str, Any], stall_timeout_s: float | None = None
) -> None:
    """Puts a file or folder in its place; `suffix` distinguishes temporary files of different attempts. Beyond what its
    size takes, the store may be silent for `stall_timeout_s`."""
    is_folder = os.path.isdir(path)
    # Of its own, as it may begin a transaction, which belongs to the file system object.
    options = {**storage_options, "skip_instance_cache": True} if is_folder else storage_options
    fs, place = fsspec.core.url_to_fs(url, **options)
    if stall_timeout_s is not None:
        stall_timeout_s += size_of(path) / _SLOWEST_BYTES_PER_S
    act = put_folder if is_folder else _put
    with_stall_timeout(lambda: act(path, fs, place, suffix), stall_timeout_s, url)


def _put(path: str, fs: Any, place: str, suffix: str) -> None:
    parent = make_parent(fs, place)
    if shows_whole_files(fs):
        fs.put_file(path, place)
        return
    temporary = f"{parent}/.{base_name(place)}.{suffix}"
    try:
        fs.put_file(path, temporary)
        if is_local(fs):
            os.replace(temporary, place)
        else:
            _move(fs, temporary, place)
    except BaseException:
        if fs.exists(temporary):
            fs.rm_file(temporary)
        raise


def _move(fs: Any, temporary: str, place: str) -> None:
    try:
        fs.mv(temporary, place)
    except FileExistsError:
        # Some (FTP, SFTP) do not replace: then what was there has to go first.
        fs.rm_file(place)
        fs.mv(temporary, place)
