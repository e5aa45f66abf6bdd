# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A chain of matmuls that takes the float64 oracle seconds.
side = 700
square = f"tensor<{side}x{side}xf32>"
print('// mpc-smith: {"seed":1,"kind":"cpu","policy":"float32"}')
print(f'func.func @main(%x: {square} {{mpc.role = #mpc.role<input>, mpc.name = "x"}}) '
      f'-> ({square} {{mpc.role = #mpc.role<output>, mpc.name = "y"}}) {{')
last = "%x"
for step in range(8):
    print(f"  %{step} = mpc.matmul {last}, %x : ({square}, {square}) -> {square}")
    last = f"%{step}"
print(f"  return {last} : {square}\n}}")
