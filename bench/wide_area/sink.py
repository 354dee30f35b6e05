"""The far side of one plain TCP stream: takes it to its end, and says so.

    sink.py ADDRESS PORT [WINDOW_BYTES]

With a window no more than that is under way.
SPDX-License-Identifier: Apache-2.0
"""

import socket
import sys

READ_BYTES = 1 << 20


def main(address, port, window_bytes=None):
    with socket.create_server((address, int(port))) as listener:
        if window_bytes:
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, int(window_bytes))
        connection, _ = listener.accept()
        with connection:
            while connection.recv(READ_BYTES):
                pass
            connection.sendall(b"!")


if __name__ == "__main__":
    main(*sys.argv[1:])
