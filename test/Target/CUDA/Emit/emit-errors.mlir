// RUN: mpc-translate --mpc-to-cuda --verify-diagnostics --split-input-file %s

module attributes {gpu.container_module} {
gpu.module @kernels {
gpu.func @matrix(%y: memref<4x4xf32>) kernel {
  %c0 = arith.constant 0 : index
  // expected-error @below {{kernel 'matrix': 'vector.load' has no form in CUDA C++}}
  %v = vector.load %y[%c0, %c0] : memref<4x4xf32>, vector<2x2xf32>
  vector.store %v, %y[%c0, %c0] : memref<4x4xf32>, vector<2x2xf32>
  gpu.return
}
}
}

// -----

module attributes {gpu.container_module} {
gpu.module @kernels {
gpu.func @odd_type(%y: memref<4xi4>) kernel {
  // expected-error @-1 {{kernel 'odd_type': 'gpu.func' uses the type i4, which kernels do not support}}
  gpu.return
}
}
}

// -----

module attributes {gpu.container_module} {
gpu.module @kernels {
gpu.func @unknown_strides(%x: memref<4xf32>, %n: memref<1xi64>) kernel {
  %c0 = arith.constant 0 : index
  %v = memref.load %n[%c0] : memref<1xi64>
  %stride = arith.index_cast %v : i64 to index
  %part = memref.reinterpret_cast %x to offset: [0], sizes: [2], strides: [%stride] : memref<4xf32> to memref<2xf32, strided<[?]>>
  // expected-error @below {{kernel 'unknown_strides': 'memref.load' accesses memory with unknown strides}}
  %u = memref.load %part[%c0] : memref<2xf32, strided<[?]>>
  memref.store %u, %x[%c0] : memref<4xf32>
  gpu.return
}
}
}

// -----

// expected-error @below {{holds no kernel: neither a gpu.module nor a function with mpc.kernel_kind; run mpc-plan first}}
module {
}

// -----

module attributes {gpu.container_module} {
gpu.module @kernels {
// expected-error @below {{kernel 'f() {} void g' has a name that is not a C++ identifier}}
gpu.func @"f() {} void g"(%y: memref<4xf32>) kernel {
  gpu.return
}
}
}
