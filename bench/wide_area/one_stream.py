"""One plain TCP stream over the link.

SPDX-License-Identifier: Apache-2.0
"""

import socket
import sys
import time
from pathlib import Path

from wide_area import link

SINK = Path(__file__).resolve().parent / "sink.py"
PORT = 7472


def seconds(far, file, environment, congestion, window_bytes=None):
    """From before connecting until the far side says that it has all of the file. `window_bytes` is what may be under
    way at most; None leaves that to the kernels."""
    words = [link.FAR, str(PORT), *([str(window_bytes)] if window_bytes else [])]
    with far.running(environment, [sys.executable, SINK, *words], PORT):
        with open(file, "rb") as content, socket.socket() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            connection.settimeout(far.timeout_s)
            begun = time.monotonic()
            connection.connect((link.FAR, PORT))
            connection.sendfile(content)
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != b"!":
                raise RuntimeError("the far side did not take the stream")
            return time.monotonic() - begun
