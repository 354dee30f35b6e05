"""Neural networks: weights like those of a language model, and checkpoints of a network that is trained here.

SPDX-License-Identifier: Apache-2.0
"""

import numpy


def language_model(output):
    """Matrices as in a transformer in bfloat16: a scale a layer, a few outlying columns, norms near one."""
    width = 704 if output.bytes > 5e6 else 320
    layers = max(1, int(output.bytes / 2 / (12 * width**2 + 2 * width)))
    random = output.random
    for layer in range(layers):
        spread = 0.02 * (1 - 0.4 * layer / layers)
        parts = [1 + 0.1 * random.standard_normal(2 * width)]
        for rows, columns in ((width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)):
            matrix = (
                spread
                * random.standard_t(
                    9,
                    (rows, columns),
                )
                * random.gamma(20, 1 / 20, columns)
            )
            parts.append(matrix.ravel())
        content = bfloat16(numpy.concatenate(parts))
        output.write(f"layer-{layer:02}.bf16", content, "floating", element="bf16")


def bfloat16(values):
    """As u16: the upper half of an f32, rounded to even."""
    bits = values.astype("f4").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


def trained_network(output):
    """A network that learns a function: weights in f16, Adam's first and second moments and weights in f32, twice."""
    width = int((output.bytes / 2 / (14 * 2)) ** 0.5)
    network = Network(width, output.random)
    for number in range(2):
        for _ in range(40):
            network.step(output.random)
        for name, arrays in {"weights": network.weights, "first": network.first, "second": network.second}.items():
            values = numpy.concatenate([array.ravel() for array in arrays])
            output.write(f"{name}-{number}.f32", values, "floating")
            if name == "weights":
                output.write(f"{name}-{number}.f16", values.astype("f2"), "floating")


class Network:
    """Three layers, the hidden ones rectified, of 64 inputs and outputs; Adam."""

    def __init__(self, width, random):
        sizes = [(64, width), (width, 2 * width), (2 * width, 64)]
        self.weights = [random.normal(0, (2 / rows) ** 0.5, (rows, columns)).astype("f4") for rows, columns in sizes]
        self.first = [numpy.zeros_like(weights) for weights in self.weights]
        self.second = [numpy.zeros_like(weights) for weights in self.weights]
        self.target = random.standard_normal((64, 64), dtype="f4") / 8
        self.steps = 0

    def step(self, random):
        values = [random.standard_normal((32, 64), dtype="f4")]
        wanted = numpy.sin(values[0] @ self.target)
        for weights in self.weights[:-1]:
            values.append(numpy.maximum(values[-1] @ weights, 0))
        error = (values[-1] @ self.weights[-1] - wanted) / 32
        self.steps += 1
        for layer in reversed(range(3)):
            gradient = values[layer].T @ error
            error = (error @ self.weights[layer].T) * (values[layer] > 0)
            self.adam(layer, gradient)

    def adam(self, layer, gradient):
        first, second = self.first[layer], self.second[layer]
        first += numpy.float32(0.1) * (gradient - first)
        second += numpy.float32(0.001) * (gradient**2 - second)
        rate = 1e-3 * (1 - 0.999**self.steps) ** 0.5 / (1 - 0.9**self.steps)
        self.weights[layer] -= numpy.float32(rate) * first / (numpy.sqrt(second) + numpy.float32(1e-8))
