"""A link between clients and a node: forwards their connections, and counts what travels.

Counted is the payload of TCP in both directions, all that the frame protocol costs included.
"""

import socket
import threading

PIECE_BYTES = 256 << 10


class Link:
    def __init__(self, scene, node):
        host, port = node.address.rsplit(":", 1)
        self.target = (host, int(port))
        self.sent_bytes = 0  # to the node
        self.received_bytes = 0
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = []
        scene.at_end(self.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            self.open += [near, far]
            for source, sink, counter in ((near, far, "sent_bytes"), (far, near, "received_bytes")):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.forward, args=(source, sink, counter), daemon=True).start()

    def forward(self, source, sink, counter):
        try:
            while data := source.recv(PIECE_BYTES):
                with self.lock:
                    setattr(self, counter, getattr(self, counter) + len(data))
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one end broke; the other's end of the connection tells its peer
        finally:
            if counter == "sent_bytes":
                return
            source.close()
            sink.close()

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
