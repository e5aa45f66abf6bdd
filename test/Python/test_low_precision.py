# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Block-scaled formats as graphs of mpc ops, byte for byte against torchao and against the rules of TransformerEngine."""

import json
import math

import ml_dtypes
import mpc
import numpy as np
import pytest

BLOCKS = 31_250  # 10^6 numbers in blocks of 32
F32_MAX = float(np.finfo(np.float32).max)


class Graph:
    """Text of a function of x, whose rows are blocks. Values are (name, element type, columns)."""

    def __init__(self, rows, columns, element="f32"):
        self.rows, self.lines = rows, []
        self.x = ("%x", element, columns)

    def type(self, value):
        return f"tensor<{value[2]}x{value[1]}>" if isinstance(value[2], str) else \
            f"tensor<{self.rows}x{value[2]}x{value[1]}>"

    def emit(self, text, element, columns, signature):
        value = (f"%{len(self.lines)}", element, columns)
        self.lines.append(f"  {value[0]} = mpc.{text} : {signature(self.type(value))}")
        return value

    def constant(self, number, element="f32"):
        name = f"%{len(self.lines)}"
        if element == "f32":
            number = f"0x{np.float32(number).view(np.uint32):08X}"
        self.lines.append(f"  {name} = mpc.constant dense<{number}> : tensor<1x{element}>")
        return (name, element, "1")

    def cast(self, value, element):
        return self.emit(f"cast {value[0]}", element, value[2], lambda to: f"{self.type(value)} to {to}")

    def unary(self, op, value):
        return self.emit(f"{op} {value[0]}", value[1], value[2], lambda to: to)

    def binary(self, op, *values, element=None):
        values = [v if isinstance(v, tuple) else self.constant(v, values[0][1]) for v in values]
        columns = max((v[2] for v in values), key=lambda c: 0 if isinstance(c, str) else c)
        types = ", ".join(self.type(v) for v in values)
        return self.emit(f"{op} {', '.join(v[0] for v in values)}", element or values[-1][1], columns,
                         lambda to: f"({types}) -> {to}")

    def compare(self, order, *values):
        return self.binary(f"compare {order}", *values, element="i1")

    def amax(self, value):
        magnitude = self.unary("abs", value)
        return self.emit(f"reduce_max {magnitude[0]} axes([1]) keep_dims", value[1], 1,
                         lambda to: f"{self.type(magnitude)} -> {to}")

    def amax_of_all(self, value):
        """As a column of one row."""
        magnitude = self.unary("abs", value)
        name = f"%{len(self.lines)}"
        self.lines.append(f"  {name} = mpc.reduce_max {magnitude[0]} axes([0, 1]) : {self.type(magnitude)} -> tensor<f32>")
        self.lines.append(f"  %{len(self.lines)} = mpc.reshape {name} : tensor<f32> to tensor<1xf32>")
        return (f"%{len(self.lines) - 1}", "f32", "1")

    def is_nan(self, value):
        return self.emit(f"is_nan {value[0]}", "i1", value[2], lambda to: f"{self.type(value)} -> {to}")

    def encode(self, value, format_, flags="saturate"):
        return self.emit(f"encode_float {value[0]} format({format_}) {flags}", "ui8", value[2],
                         lambda to: f"{self.type(value)} to {to}")

    def decode(self, value, format_):
        return self.emit(f"decode_float {value[0]} format({format_})", "f32", value[2],
                         lambda to: f"{self.type(value)} to {to}")

    def run(self, x, *results):
        roles = ", ".join(f'{self.type(r)} {{mpc.role = #mpc.role<output>, mpc.name = "y{i}"}}'
                          for i, r in enumerate(results))
        text = "\n".join([
            f'func.func @main(%x: {self.type(self.x)} {{mpc.role = #mpc.role<input>, mpc.name = "x"}}) -> ({roles}) {{',
            *self.lines, f"  return {', '.join(r[0] for r in results)} : {', '.join(map(self.type, results))}", "}"])
        found = mpc.compile(text, policy="float32")(x)
        return found if isinstance(found, tuple) else (found,)


def blocks_of(rows, columns):
    """Blocks of random scales, of bit patterns, and of special values: f32 [rows, columns]."""
    numbers = np.random.default_rng(5)
    x = numbers.standard_normal((rows, columns)).astype(np.float32)
    x *= np.exp2(numbers.integers(-30, 30, (rows, 1))).astype(np.float32)
    patterns = numbers.integers(0, 2**32, (rows // 4, columns), np.uint64).astype(np.uint32).view(np.float32)
    x[:rows // 4] = np.where(np.isfinite(patterns), patterns, np.float32(1))
    # One exponent per block, from the smallest subnormal number to the largest.
    exponents = np.arange(rows // 8) % 277 - 149
    x[rows // 4:rows // 4 + rows // 8] = np.ldexp(numbers.uniform(-1, 1, (rows // 8, columns)), exponents[:, None])
    special = [0.0, -0.0, 1.0, 448.0, 57344.0, 6.0, 7.5, 28.0, 2.0**-126, 2.0**-127, 2.0**-149, F32_MAX, -F32_MAX,
               2.0**127, 1.75, 1.9375, 1.96875, 464.0, 480.0, 3.0]
    for i, value in enumerate(special):
        x[-2 * i - 1] = value  # blocks of one number
        x[-2 * i - 2, i % columns] = value
    for i, value in enumerate([math.nan, math.inf, -math.inf]):
        x[-2 * len(special) - 2 * i - 1] = value
        x[-2 * len(special) - 2 * i - 2, 3 * i] = value
    return x


# Name, exponent of the largest number, fraction bits, largest number.
MX_FORMATS = {"f8E4M3FN": (8, 3, 448.0), "f8E5M2": (15, 2, 57344.0), "f6E2M3FN": (2, 3, 7.5),
              "f6E3M2FN": (4, 2, 28.0), "f4E2M1FN": (2, 1, 6.0)}


def mx_scale_up(graph, amax, largest):
    """RCEIL: the power of two at or above amax / largest, and its reciprocal."""
    code = graph.encode(graph.binary("div", amax, largest), "f8E8M0FNU", "saturate rounding(up)")
    reciprocal = graph.unary("reciprocal", graph.decode(code, "f8E8M0FNU"))
    reciprocal = graph.binary("select", graph.compare("eq", code, 0), graph.constant(1.0), reciprocal)
    return code, lambda x: graph.binary("mul", x, reciprocal)


def mx_scale_by_exponent(graph, amax, mode, exponent, fraction_bits):
    """FLOOR, CEIL and EVEN: the exponent of amax, rounded in its way, less that of the largest number."""
    code = graph.encode(amax, "f8E8M0FNU", "rounding(up)" if mode == "CEIL" else "rounding(down)")
    biased = graph.cast(code, "i32")
    if mode == "EVEN":  # numbers that round to the next power of two
        significand = graph.binary("div", amax, graph.decode(code, "f8E8M0FNU"))
        carries = graph.compare("ge", significand, 2 - 2.0**-(fraction_bits + 1))
        biased = graph.binary("add", biased, graph.cast(carries, "i32"))
    biased = graph.binary("max", graph.binary("sub", biased, exponent), 0)
    code = graph.cast(graph.binary("select", graph.is_nan(amax), graph.constant(255, "i32"), biased), "ui8")
    # torchao divides by infinity in blocks with NaN, and by no subnormal number.
    scale = graph.binary("max", graph.decode(code, "f8E8M0FNU"), 2.0**-126)
    scale = graph.binary("select", graph.is_nan(amax), graph.constant(math.inf), scale)
    return code, lambda x: graph.binary("div", x, scale)


@pytest.fixture(scope="module")
def torchao():
    pytest.importorskip("torch", reason="torchao needs torch")
    return pytest.importorskip("torchao", reason="the bytes are compared with torchao's")


@pytest.mark.parametrize("mode", ["FLOOR", "RCEIL", "CEIL", "EVEN"])
@pytest.mark.parametrize("format_", MX_FORMATS)
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_mx_has_the_bytes_of_torchao(torchao, format_, mode, element):
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx, unpack_uint4

    exponent, fraction_bits, largest = MX_FORMATS[format_]
    x = torch.from_numpy(blocks_of(BLOCKS, 32))
    x = x.to(torch.bfloat16) if element == "bf16" else x
    theirs = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2, "f6E2M3FN": "fp6_e2m3",
              "f6E3M2FN": "fp6_e3m2", "f4E2M1FN": torch.float4_e2m1fn_x2}[format_]
    scales, values = to_mx(x, theirs, 32, ScaleCalculationMode[mode])
    values = unpack_uint4(values.reshape(BLOCKS, 16)) if format_ == "f4E2M1FN" else values.view(torch.uint8)

    graph = Graph(BLOCKS, 32, element)
    wide = graph.x if element == "f32" else graph.cast(graph.x, "f32")
    amax = graph.amax(wide)
    code, scaled = mx_scale_up(graph, amax, largest) if mode == "RCEIL" else \
        mx_scale_by_exponent(graph, amax, mode, exponent, fraction_bits)
    quotient = scaled(wide)
    numbers = x.float().numpy() if element == "f32" else x.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    found, found_scales, quotients = graph.run(numbers, graph.encode(quotient, format_), code, quotient)

    np.testing.assert_array_equal(found_scales[:, 0], scales.view(torch.uint8).reshape(BLOCKS).numpy())
    # Formats of 4 and 6 bits have no NaN, and torchao's code for it depends on its bits.
    compared = ~np.isnan(quotients) if format_[1] != "8" else np.ones_like(found, bool)
    np.testing.assert_array_equal(found[compared], values.reshape(BLOCKS, 32).numpy()[compared])
    assert compared.mean() > 0.999


@pytest.mark.parametrize("is_global", [False, True])
def test_nvfp4_has_the_bytes_of_torchao(torchao, is_global):
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale
    from torchao.prototype.mx_formats.mx_tensor import unpack_uint4

    rows = 2 * BLOCKS
    x = blocks_of(rows, 16)
    if is_global:  # the global scale of finite numbers
        x[~np.isfinite(x)] = 1
        x = np.clip(x, -1e30, 1e30)
    tensor = torch.from_numpy(x)
    per_tensor = per_tensor_amax_to_scale(tensor.abs().max()) if is_global else None
    scales, values = nvfp4_quantize(tensor, 16, per_tensor)
    values = unpack_uint4(values.reshape(rows, 8)).numpy()

    graph = Graph(rows, 16)
    scale = graph.binary("div", graph.amax(graph.x), 6.0)
    if is_global:
        global_scale = graph.binary("div", graph.amax_of_all(graph.x), 448.0 * 6.0)
        scale = graph.binary("div", scale, global_scale)
    scale = graph.binary("clamp", scale, 2.0**-6, 448.0)
    code = graph.encode(scale, "f8E4M3FN")
    inverse = graph.constant(1.0)
    if is_global:
        inverse = graph.binary("div", inverse, global_scale)
    inverse = graph.binary("div", inverse, graph.decode(code, "f8E4M3FN"))
    scaled = graph.binary("mul", graph.x, inverse)
    found, found_scales, quotients = graph.run(x, graph.encode(scaled, "f4E2M1FN"), code, scaled)
    np.testing.assert_array_equal(found_scales[:, 0], scales.view(torch.uint8).reshape(rows).numpy())
    compared = ~np.isnan(quotients)
    np.testing.assert_array_equal(found[compared], values[compared])
    assert compared.mean() > 0.999


# The rules of TransformerEngine, as its documentation states them, in f64 and
# Python's integers.


def nearest_power(value, up):
    """The power of two at or above (below) a positive number."""
    fraction, exponent = math.frexp(value)
    return 2.0**(exponent if up and fraction != 0.5 else exponent - 1)


def e4m3_of(values):
    return values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def test_mxfp8_rounds_scales_up():
    """MXFP8BlockScaling: scales are amax / 448, rounded up to a power of two: nothing saturates."""
    x = blocks_of(BLOCKS, 32)
    x[~np.isfinite(x)] = 1
    graph = Graph(BLOCKS, 32)
    code, scaled = mx_scale_up(graph, graph.amax(graph.x), 448.0)
    found, codes = graph.run(x, graph.encode(scaled(graph.x), "f8E4M3FN"), code)
    amax = np.abs(x).max(1)
    wanted = [nearest_power(float(a), up=True) if a > 2.0**-127 else 2.0**-127 for a in amax / np.float32(448)]
    np.testing.assert_array_equal(np.exp2(codes[:, 0] - 127.0), wanted)
    usual = (codes[:, 0] > 0) & (codes[:, 0] < 254)
    quotients = x[usual].astype(np.float64) / np.exp2(codes[usual] - 127.0)
    assert np.abs(quotients).max() <= 448
    np.testing.assert_array_equal(found[usual], e4m3_of(quotients.astype(np.float32)))


@pytest.mark.parametrize("is_power", [False, True])
def test_block_scaling_divides_by_the_largest(is_power):
    """Float8BlockScaling: scale = 448 / amax of 128 numbers, by default rounded down to a power of two; 1 for amax 0."""
    rows = 8192
    x = blocks_of(rows, 128)
    x[~np.isfinite(x)] = 1
    x[np.abs(x).max(1) < 2.0**-100] = 0
    x = np.clip(x, -1e30, 1e30)
    graph = Graph(rows, 128)
    amax = graph.amax(graph.x)
    scale = graph.binary("div", graph.constant(448.0), amax)
    if is_power:
        scale = graph.decode(graph.encode(scale, "f8E8M0FNU", "saturate rounding(down)"), "f8E8M0FNU")
    scale = graph.binary("select", graph.compare("eq", amax, 0.0), graph.constant(1.0), scale)
    found, scales = graph.run(x, graph.encode(graph.binary("mul", graph.x, scale), "f8E4M3FN"), scale)
    largest = np.abs(x).max(1)
    for a, given in zip(largest, scales[:, 0]):
        wanted = np.float32(448) / a if a else np.float32(1)
        assert given == (nearest_power(float(wanted), up=False) if is_power and a else wanted)
    np.testing.assert_array_equal(found, e4m3_of(np.clip(x * scales, -448, 448)))


@pytest.mark.parametrize("margin", [0, 2])
@pytest.mark.parametrize("format_, largest", [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_tensor_scaling_keeps_the_scale_of_useless_maxima(format_, largest, margin):
    """DelayedScaling: scale = largest / amax / 2^margin; an amax of 0, infinity or NaN keeps the old scale, and an
    infinite scale becomes f32's largest number."""
    amaxes = np.array([[1.0], [0.0], [math.inf], [math.nan], [448.0], [1e-40], [3.0], [F32_MAX]], np.float32)
    graph = Graph(len(amaxes), 1)
    old = graph.constant(5.0)
    scale = graph.binary("div", graph.binary("div", graph.constant(largest), graph.x), 2.0**margin)
    scale = graph.binary("min", scale, F32_MAX)
    # False for 0, infinity and NaN.
    is_usable = graph.binary("and", graph.compare("gt", graph.x, 0.0), graph.compare("lt", graph.x, math.inf),
                             element="i1")
    (scales,) = graph.run(amaxes, graph.binary("select", is_usable, scale, old))
    for amax, given in zip(amaxes[:, 0], scales[:, 0]):
        if not 0 < amax < math.inf:
            assert given == 5
        else:
            with np.errstate(over="ignore"):
                assert given == min(np.float32(largest) / amax / np.float32(2**margin), np.float32(F32_MAX))


# ===----------------------------------------------------------------------=== #
# Recipes of policies
# ===----------------------------------------------------------------------=== #

WIDTH = 64


def e4m3_numbers(values):
    return values.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)


def times_identity(x, policy):
    """x times the identity matrix under a policy that quantizes both."""
    text = f'''func.func @main(%x: tensor<{len(x)}x{WIDTH}xf32> {{mpc.role = #mpc.role<input>, mpc.name = "x"}},
                    %w: tensor<{WIDTH}x{WIDTH}xf32> {{mpc.role = #mpc.role<parameter>, mpc.name = "w"}})
    -> (tensor<{len(x)}x{WIDTH}xf32> {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{
  %y = mpc.matmul %x, %w : (tensor<{len(x)}x{WIDTH}xf32>, tensor<{WIDTH}x{WIDTH}xf32>) -> tensor<{len(x)}x{WIDTH}xf32>
  return %y : tensor<{len(x)}x{WIDTH}xf32>
}}'''
    return np.asarray(mpc.compile(text, policy=policy)(x, np.eye(WIDTH, dtype=np.float32)))


def policy_file(folder, **operands):
    path = folder / "recipe.json"
    path.write_text(json.dumps({"name": "recipe", "extends": "mixed_bfloat16", "operands": operands}))
    return str(path)


def finite_rows(rows=2000):
    numbers = np.random.default_rng(7)
    x = numbers.standard_normal((rows, WIDTH)).astype(np.float32)
    x[::2] *= np.exp2(numbers.integers(-20, 20, (rows // 2, 1))).astype(np.float32)
    x[7], x[9, 16:32] = 0, 0
    return x


def assert_equal_bits(found, wanted):
    assert np.array_equal(found.view(np.uint32), wanted.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("mode", ["floor", "rceil", "ceil", "even"])
def test_policies_of_mx_have_the_numbers_of_torchao(torchao, mode, tmp_path):
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    x = finite_rows()
    scales, values = to_mx(torch.from_numpy(x), torch.float8_e4m3fn, 32, ScaleCalculationMode[mode.upper()])
    powers = np.exp2(scales.view(torch.uint8).numpy().astype(np.float32) - 127)
    wanted = (values.float().numpy().reshape(len(x), -1, 32) * powers[..., None]).reshape(x.shape)
    found = times_identity(x, policy_file(tmp_path, scaling="mx", scale_rounding=mode))
    # The product adds zeros, which make minus zero plus zero.
    assert_equal_bits(found, wanted + np.float32(0))


def test_float8_current_follows_its_rule():
    x, one = finite_rows(), np.float32(1)
    scale = np.float32(448) / np.abs(x).max()
    numbers = e4m3_numbers(x * scale)
    # The inverse scale below 1 comes first.
    wanted = numbers * np.float32(448) * (one / np.float32(448)) * (one / scale) + np.float32(0)
    assert_equal_bits(times_identity(x, "float8_current"), wanted)


def test_nvfp4_follows_the_reference_of_its_recipe():
    x, one = finite_rows(), np.float32(1)
    encode = np.float32(448 * 6) / np.abs(x).max()
    blocks = x.reshape(len(x), -1, 16)
    amax = np.abs(blocks).max(axis=2, keepdims=True)
    scales = e4m3_numbers(np.minimum(amax * (encode * np.float32(1 / 6)), np.float32(448)))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.minimum(one / (scales * (one / encode)), np.float32(F32_MAX))
    scaled = np.clip(blocks * inverse, -6, 6)
    numbers = scaled.astype(ml_dtypes.float4_e2m1fn).astype(np.float32) * scales
    wanted = numbers.reshape(x.shape) * np.float32(2688) * (one / np.float32(2688)) * (one / encode) + np.float32(0)
    assert_equal_bits(times_identity(x, "nvfp4"), wanted)
