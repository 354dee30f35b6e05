"""The suite that fsspec publishes for file systems. SPDX-License-Identifier: Apache-2.0"""

import pytest
from fsspec.tests import abstract


class Fixtures(abstract.AbstractFixtures):
    # These two are by scope "class" and "function" upstream; ours are the suite's own names.
    @pytest.fixture
    def fs(self, store):
        import thalweg

        return thalweg.ThalwegFileSystem(store)

    @pytest.fixture
    def fs_path(self, folder):
        return folder


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass
