"""Reading by URLs that name their stores, on a file system that was made without one (as `reference://` makes it).

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def by_url(method: Method) -> Method:
    """Makes a method, whose first argument is a path, act on the store that the path's URL names."""

    @functools.wraps(method)
    def act(self: Any, path: Any, *arguments: Any, **keywords: Any) -> Any:
        other = self.of_url(path)
        if other is self:
            return method(self, path, *arguments, **keywords)
        return getattr(other, method.__name__)(path, *arguments, **keywords)

    return cast(Method, act)
