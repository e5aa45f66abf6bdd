# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bits of 8-bit float GEMMs on the emulated GPU against the package mmaemu.

mmaemu replays recordings of cuBLAS on an H100 PCIe and an RTX 4060 bit by bit. Its fast accumulation
is a matmul's default, its slow accumulation `accumulate(f32)`.
"""

import subprocess

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the package torch has 8-bit floats")
mmaemu = pytest.importorskip("mmaemu", reason="the package mmaemu emulates cuBLAS")

M, N, K = 256, 192, 416
TYPES = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}
ARCHITECTURES = {"sm_89": "ada", "sm_90a": "hopper"}


def operand(rows, dtype, seed):
    """Numbers of mixed magnitudes with zeros and subnormals."""
    numbers = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, K, generator=numbers)
    values *= 2.0 ** torch.randint(-12, 6, (rows, K), generator=numbers)
    return values.clamp(-448, 448).to(dtype)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("lhs, rhs", [("f8E4M3FN", "f8E4M3FN"), ("f8E4M3FN", "f8E5M2"), ("f8E5M2", "f8E4M3FN")])
@pytest.mark.parametrize("fast", [True, False])
def test_gemms_have_the_bits_of_cublas(tmp_path, architecture, lhs, rhs, fast):
    accumulate = "" if fast else "accumulate(f32) "
    (tmp_path / "gemm.mlir").write_text(
        f"""func.func @main(%a: tensor<{M}x{K}x{lhs}> {{mpc.role = #mpc.role<input>, mpc.name = "a"}},
                %b: tensor<{N}x{K}x{rhs}> {{mpc.role = #mpc.role<input>, mpc.name = "b"}})
    -> (tensor<{M}x{N}xf32> {{mpc.role = #mpc.role<output>, mpc.name = "d"}}) {{
  %0 = mpc.matmul %a, %b transpose_rhs {accumulate}: (tensor<{M}x{K}x{lhs}>, tensor<{N}x{K}x{rhs}>) -> tensor<{M}x{N}xf32>
  return %0 : tensor<{M}x{N}xf32>
}}
""")
    a, b = operand(M, TYPES[lhs], 1), operand(N, TYPES[rhs], 2)
    np.savez(tmp_path / "in.npz", a=a.view(torch.uint8).numpy(), b=b.view(torch.uint8).numpy())
    subprocess.run(["mpc", "run", tmp_path / "gemm.mlir", "--device", "cuda-host", "--target", "cuda:" + architecture,
                    "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--quiet"], check=True)
    d = np.load(tmp_path / "out.npz")["d"]
    expected = mmaemu.accumulate(a, b, use_fast_accum=fast, profile=ARCHITECTURES[architecture], splitk=1).numpy()
    assert (d.view(np.uint32) == expected.view(np.uint32)).all()
