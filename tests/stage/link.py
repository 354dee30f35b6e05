"""A link between clients and a server: forwards their connections, counts what travels, breaks, and can be slow.

Counted is the payload of TCP in both directions, all that a protocol costs included.
"""

import concurrent.futures
import socket
import threading
import time

PIECE_BYTES = 64 << 10


class Link:
    """To `target`, a host and port. With `bytes_per_second` all connections share as much, both directions together.
    With a `namespace` it stands in the network of that one."""

    def __init__(self, scene, target, bytes_per_second=None, namespace=None):
        self.target = target.rsplit(":", 1)
        self.bytes_per_second = bytes_per_second
        self.sent_bytes = 0  # to the server
        self.received_bytes = 0
        self.lock, self.free_at = threading.Lock(), time.monotonic()
        self.open = []
        listener = concurrent.futures.Future()
        threading.Thread(target=self.serve, args=(namespace, listener), daemon=True).start()
        self.listener = listener.result()
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        scene.at_end(self.close)

    def serve(self, namespace, listener):
        """A socket belongs to the network of the thread that made it: all of them are made in this one."""
        try:
            if namespace:
                namespace.enter_network()
            listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        except OSError as error:
            return listener.set_exception(error)
        listener.set_result(listening)
        self.accept(listening)

    def accept(self, listening):
        while True:
            try:
                near, _ = listening.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            self.open += [near, far]
            for source, sink, counter in ((near, far, "sent_bytes"), (far, near, "received_bytes")):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.bytes_per_second:
                    # A slow server does not take megabytes before it is slow.
                    source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
                threading.Thread(target=self.forward, args=(source, sink, counter), daemon=True).start()

    def forward(self, source, sink, counter):
        try:
            while piece := source.recv(PIECE_BYTES):
                self.pass_on(len(piece), counter)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one end broke; the end of the other connection informs its peer
        finally:
            if counter == "sent_bytes":
                return
            source.close()
            sink.close()

    def pass_on(self, length, counter):
        with self.lock:
            setattr(self, counter, getattr(self, counter) + length)
            if not self.bytes_per_second:
                return
            self.free_at = max(self.free_at, time.monotonic()) + length / self.bytes_per_second
            until = self.free_at
        time.sleep(max(0, until - time.monotonic()))

    def cut(self):
        """Breaks all connections, as a network does."""
        broken, self.open = self.open, []
        for end in broken:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
        self.cut()
