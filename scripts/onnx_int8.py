"""8-bit ONNX networks as safetensors in half precision, with the standard library alone.

`weights(path)` gives the weights of an ONNX file by name: those of embeddings and norms under their own names, those of
matrix products under the name of the node that multiplies by them, turned to PyTorch's order [out, in]. A weight q of eight
bits stands for (q - zero_point) * scale. It has 256 values at most, so a table of them, looked up a byte at a time with
`bytes.translate`, multiplies out millions in a second.
"""

import array
import json
import struct
import sys
from dataclasses import dataclass, field

INT8, FLOAT = 3, 1


@dataclass
class Tensor:
    """A weight: its shape and its values in little-endian half precision."""

    shape: list
    data: bytes


def fields(message):
    """The fields of a Protocol Buffers message: (number, value), an int or the bytes of a nested message."""
    at, end = 0, len(message)

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < end:
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, message[at:at + size]
            at += size
        elif kind == 2:
            size = varint()
            if at + size > end:
                raise ValueError("a field reaches past the end of the file")
            yield number, message[at:at + size]
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")


@dataclass
class Initializer:
    """onnx.TensorProto: dims 1, data_type 2, float_data 4, int32_data 5, name 8, raw_data 9."""

    dims: list = field(default_factory=list)
    kind: int = 0
    data: bytes = b""
    name: str = ""

    @classmethod
    def of(cls, message):
        tensor = cls()
        for number, value in fields(message):
            if number == 1:
                tensor.dims += [value] if isinstance(value, int) else list(value)
            elif number == 2:
                tensor.kind = value
            elif number in (4, 9):
                tensor.data = bytes(value)
            elif number == 5:
                tensor.data = bytes([value & 0xFF] if isinstance(value, int) else value)
            elif number == 8:
                tensor.name = bytes(value).decode()
        return tensor


@dataclass
class Product:
    """onnx.NodeProto: input 1, output 2, name 3, op_type 4."""

    inputs: list
    name: str
    operation: str

    @classmethod
    def of(cls, message):
        found = list(fields(message))
        text = lambda number: [bytes(value).decode() for n, value in found if n == number]
        return cls(text(1), "".join(text(3)), "".join(text(4)))


def half(value):
    """`value` in half precision, rounded to single precision before, as float32 arithmetic does."""
    return struct.pack("<e", struct.unpack("<f", struct.pack("<f", value))[0])


def multiplied_out(q, zero_point, scale):
    """(q - zero_point) * scale of every signed byte of `q`, in half precision."""
    signed = lambda byte: byte - 256 if byte > 127 else byte
    table = [half((signed(byte) - zero_point) * scale) for byte in range(256)]
    low, high = bytes(value[0] for value in table), bytes(value[1] for value in table)
    data = bytearray(2 * len(q))
    data[0::2], data[1::2] = q.translate(low), q.translate(high)
    return bytes(data)


def transposed(q, rows, columns):
    """The bytes of a matrix [rows, columns] as [columns, rows]."""
    if len(q) != rows * columns:
        raise ValueError(f"{len(q)} bytes are no matrix of {rows} x {columns}")
    return b"".join(q[column::columns] for column in range(columns))


def weights(path):
    """The weights of the network in `path`, by name."""
    with open(path, "rb") as file:
        model = memoryview(file.read())
    graph = next((value for number, value in fields(model) if number == 7), None)
    if graph is None:
        raise ValueError("no network")
    tensors = {t.name: t for t in (Initializer.of(value) for number, value in fields(graph) if number == 5)}
    nodes = [Product.of(value) for number, value in fields(graph) if number == 1]

    def multiplied(name, turn):
        quantized, point, scale = (tensors[f"{name}_{part}"] for part in ("quantized", "zero_point", "scale"))
        if quantized.kind != INT8 or len(scale.data) != 4 or len(point.data) != 1:
            raise ValueError(f"{name} is not a tensor of eight bits with one scale")
        q, shape = quantized.data, quantized.dims
        if turn:
            q, shape = transposed(q, *shape), shape[::-1]
        return Tensor(shape, multiplied_out(q, struct.unpack("b", point.data)[0], struct.unpack("<f", scale.data)[0]))

    found = {}
    for name, tensor in tensors.items():
        if tensor.kind == FLOAT and tensor.dims and not name.endswith("_scale"):
            values = array.array("f", tensor.data)
            if sys.byteorder == "big":
                values.byteswap()
            found[name] = Tensor(tensor.dims, b"".join(struct.pack("<e", value) for value in values))
        elif name.endswith("embeddings.weight_quantized"):
            own = name.removesuffix("_quantized")
            found[own] = multiplied(own, turn=False)
    for node in nodes:
        products = [i for i in node.inputs if i.startswith("onnx::MatMul")] if node.operation == "MatMul" else []
        if products:
            own = node.name.strip("/").removesuffix("/MatMul").replace("/", ".") + ".weight"
            found[own] = multiplied(products[0].removesuffix("_DequantizeLinear_Output"), turn=True)
    return found


def save(tensors, path):
    """Writes `tensors` as a safetensors file that Hugging Face transformers reads."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in sorted(tensors.items()):
        start, end = end, end + len(tensor.data)
        header[name] = {"dtype": "F16", "shape": tensor.shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in sorted(tensors.items()):
            file.write(tensor.data)
