// A loop body of hundreds of ops, each with several readers. LLVM's search for a checksum
// idiom in it traversed all paths, and did not terminate.
// RUN: mpc check %s --isa avx2 | FileCheck %s
// CHECK: all checks held
func.func @main(%x: tensor<15x8x2xf32> {mpc.name = "x", mpc.role = #mpc.role<input>})
    -> (tensor<15x8x2xf32> {mpc.name = "y", mpc.role = #mpc.role<output>}) {
  %0 = mpc.sigmoid %x : tensor<15x8x2xf32>
  %1 = mpc.tanh %0 : tensor<15x8x2xf32>
  %2 = mpc.acos %1 : tensor<15x8x2xf32>
  %3 = mpc.log %2 : tensor<15x8x2xf32>
  %4 = mpc.softmax %3 axis(1) : tensor<15x8x2xf32>
  return %4 : tensor<15x8x2xf32>
}
