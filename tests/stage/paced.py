"""A server that is as slow as a test wants: connections to it share this many bytes a second, each way."""

import socket
import threading
import time

PIECE_BYTES = 64 << 10


class Paced:
    def __init__(self, scene, target, bytes_per_second):
        self.target, self.bytes_per_second = target, bytes_per_second
        self.lock, self.free_at = threading.Lock(), time.monotonic()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        scene.at_end(self.listener.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.target)
            except OSError:
                return
            for source, sink in ((near, far), (far, near)):
                # A slow server does not take megabytes before it is slow.
                source.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
                threading.Thread(target=self.forward, args=(source, sink), daemon=True).start()

    def forward(self, source, sink):
        try:
            while piece := source.recv(PIECE_BYTES):
                self.wait_for(len(piece))
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()

    def wait_for(self, length):
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + length / self.bytes_per_second
            until = self.free_at
        time.sleep(max(0, until - time.monotonic()))
