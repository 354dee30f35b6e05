"""Zarr's own tests of a store, on its fsspec store over ours. SPDX-License-Identifier: Apache-2.0"""

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from zarr.core.buffer import Buffer, cpu
from zarr.storage import FsspecStore
from zarr.testing.store import StoreTests

import thalweg


class TestZarrStore(StoreTests[FsspecStore, cpu.Buffer]):
    store_cls = FsspecStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        thalweg.create(str(tmp_path / "store"))
        fs = fsspec.filesystem("thalweg", store=str(tmp_path / "store"))
        return {"fs": AsyncFileSystemWrapper(fs, asynchronous=True), "path": "data"}

    @pytest.fixture
    async def store(self, store_kwargs):
        return self.store_cls(**store_kwargs)

    async def set(self, store: FsspecStore, key: str, value: Buffer) -> None:
        await store.fs._pipe_file(f"{store.path}/{key}", value.to_bytes())

    async def get(self, store: FsspecStore, key: str) -> Buffer:
        return self.buffer_cls.from_bytes(await store.fs._cat_file(f"{store.path}/{key}"))

    def test_store_repr(self, store):
        assert "thalweg" in str(store).lower() or "FsspecStore" in repr(store)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing
