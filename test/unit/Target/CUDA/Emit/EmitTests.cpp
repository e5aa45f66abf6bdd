//===- EmitTests.cpp - printed kernels compute what their IR says ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels written in IR by hand: each form of the printer, run on the host.
// What the text looks like is checked in test/Target/CUDA/Emit.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "HostKernelTesting.h"

#include <cmath>

using namespace mpc;
using namespace mpc::cuda;

/// The text of gpu.funcs in a gpu.module.
static std::string printed(const std::string &functions) {
  CudaText text = cudaText("module attributes {gpu.container_module} {\n"
                           "gpu.module @kernels {\n" +
                           functions + "}\n}\n");
  EXPECT_EQ(text.error, "");
  return text.text;
}

/// The attributes of a kernel with that many read-only arguments.
static std::string attributes(int inputs, int threads) {
  return "kernel attributes {known_block_size = array<i32: " +
         std::to_string(threads) +
         ", 1, 1>, known_grid_size = array<i32: 1, 1, 1>, mpc.inputs = " +
         std::to_string(inputs) + " : i64}";
}

TEST(Emit, LoopsCarryValuesThatSwapPlaces) {
  // (a, b) = (b, a + b), ten times.
  std::string text = printed(R"(
gpu.func @fibonacci(%out: memref<2xi32>) )" +
                             attributes(0, 1) + R"( {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c10 = arith.constant 10 : index
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.for %i = %c0 to %c10 step %c1 iter_args(%a = %zero, %b = %one) -> (i32, i32) {
    %sum = arith.addi %a, %b : i32
    scf.yield %b, %sum : i32, i32
  }
  memref.store %r#0, %out[%c0] : memref<2xi32>
  memref.store %r#1, %out[%c1] : memref<2xi32>
  gpu.return
}
gpu.func @swap(%out: memref<2xi32>) )" +
                             attributes(0, 1) +
                             R"( {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 7 : i32
  %one = arith.constant 9 : i32
  %r:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %zero, %b = %one) -> (i32, i32) {
    scf.yield %b, %a : i32, i32
  }
  memref.store %r#0, %out[%c0] : memref<2xi32>
  memref.store %r#1, %out[%c1] : memref<2xi32>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"fibonacci", "swap"});
  std::vector<int> out(2);
  ASSERT_TRUE(
      module.launch("fibonacci", grid(1, 1), {HostArgument::output("out", out)})
          .ok());
  EXPECT_EQ(out, (std::vector<int>{55, 89})) << text;
  ASSERT_TRUE(
      module.launch("swap", grid(1, 1), {HostArgument::output("out", out)})
          .ok());
  EXPECT_EQ(out, (std::vector<int>{9, 7})) << text;
}

TEST(Emit, LoadsStayBeforeTheStoresThatFollow) {
  // Swaps x[0] and x[1]: both loads come first.
  std::string text = printed(R"(
gpu.func @exchange(%x: memref<2xf32>) )" +
                             attributes(0, 1) + R"( {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = memref.load %x[%c0] : memref<2xf32>
  %b = memref.load %x[%c1] : memref<2xf32>
  memref.store %a, %x[%c1] : memref<2xf32>
  memref.store %b, %x[%c0] : memref<2xf32>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"exchange"});
  std::vector<float> x = {1, 2};
  ASSERT_TRUE(
      module.launch("exchange", grid(1, 1), {HostArgument::inOut("x", x)})
          .ok());
  EXPECT_EQ(x, (std::vector<float>{2, 1})) << text;
}

TEST(Emit, BranchesAndWhileLoops) {
  // Collatz steps of each thread's number, by a while loop with a branch.
  std::string text = printed(R"(
gpu.func @collatz(%out: memref<32xi32>) )" +
                             attributes(0, 32) + R"( {
  %t = gpu.thread_id x
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %three = arith.constant 3 : i32
  %n0 = arith.index_cast %t : index to i32
  %start = arith.addi %n0, %one : i32
  %r:2 = scf.while (%n = %start, %steps = %zero) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %n, %one : i32
    scf.condition(%more) %n, %steps : i32, i32
  } do {
  ^bb0(%n: i32, %steps: i32):
    %bit = arith.remsi %n, %two : i32
    %odd = arith.cmpi eq, %bit, %one : i32
    %next = scf.if %odd -> (i32) {
      %triple = arith.muli %n, %three : i32
      %up = arith.addi %triple, %one : i32
      scf.yield %up : i32
    } else {
      %half = arith.divsi %n, %two : i32
      scf.yield %half : i32
    }
    %count = arith.addi %steps, %one : i32
    scf.yield %next, %count : i32, i32
  }
  memref.store %r#1, %out[%t] : memref<32xi32>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"collatz"});
  std::vector<int> out(32);
  ASSERT_TRUE(
      module.launch("collatz", grid(1, 32), {HostArgument::output("out", out)})
          .ok());
  for (int i = 0; i < 32; ++i) {
    int steps = 0;
    for (int n = i + 1; n > 1; n = n % 2 ? 3 * n + 1 : n / 2)
      ++steps;
    EXPECT_EQ(out[i], steps) << text;
  }
}

TEST(Emit, SharedMemoryShufflesAndBarriers) {
  // Each warp sums, then the block; through static and dynamic shared memory.
  std::string text = printed(R"(
gpu.func @sum(%x: memref<128xf32>, %out: memref<1xf32>)
    workgroup(%parts : memref<4xf32, #gpu.address_space<workgroup>>) )" +
                             attributes(1, 128) + R"( {
  %t = gpu.thread_id x
  %lane = gpu.lane_id
  %warp = gpu.subgroup_id : index
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %bytes = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
  %copy = memref.view %bytes[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to memref<128xf32, #gpu.address_space<workgroup>>
  %v = memref.load %x[%t] : memref<128xf32>
  memref.store %v, %copy[%t] : memref<128xf32, #gpu.address_space<workgroup>>
  gpu.barrier
  %c127 = arith.constant 127 : index
  %back = arith.subi %c127, %t : index
  %w = memref.load %copy[%back] : memref<128xf32, #gpu.address_space<workgroup>>
  %sum = gpu.subgroup_reduce add %w : (f32) -> f32
  %first = arith.cmpi eq, %lane, %c0 : index
  scf.if %first {
    memref.store %sum, %parts[%warp] : memref<4xf32, #gpu.address_space<workgroup>>
  }
  gpu.barrier
  %leader = arith.cmpi eq, %t, %c0 : index
  scf.if %leader {
    %zero = arith.constant 0.0 : f32
    %total = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %zero) -> (f32) {
      %p = memref.load %parts[%i] : memref<4xf32, #gpu.address_space<workgroup>>
      %next = arith.addf %acc, %p : f32
      scf.yield %next : f32
    }
    memref.store %total, %out[%c0] : memref<1xf32>
  }
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"sum"});
  std::vector<float> x(128), out(1);
  for (int i = 0; i < 128; ++i)
    x[i] = static_cast<float>(i);
  HostLaunch launch = grid(1, 128);
  launch.dynamicSharedBytes = 512;
  Status status = module.launch(
      "sum", launch,
      {HostArgument::input("x", x), HostArgument::output("out", out)});
  ASSERT_TRUE(status.ok()) << status.toString() << text;
  EXPECT_EQ(out[0], 128 * 127 / 2) << text;
}

TEST(Emit, VectorsLaneByLane) {
  std::string text = printed(R"(
gpu.func @lanes(%x: memref<8xbf16>, %y: memref<8xf32>) )" +
                             attributes(1, 1) + R"( {
  %c0 = arith.constant 0 : index
  %half = arith.constant dense<0.5> : vector<8xf32>
  %zero = arith.constant dense<0.0> : vector<8xf32>
  %v = vector.load %x[%c0] : memref<8xbf16>, vector<8xbf16>
  %w = arith.extf %v : vector<8xbf16> to vector<8xf32>
  %scaled = arith.mulf %w, %half : vector<8xf32>
  %positive = arith.cmpf ogt, %scaled, %zero : vector<8xf32>
  %negative = arith.negf %scaled : vector<8xf32>
  %magnitude = arith.select %positive, %scaled, %negative : vector<8xi1>, vector<8xf32>
  %e = cuda.call "exp"(%magnitude) : (vector<8xf32>) -> vector<8xf32>
  %swapped = vector.shuffle %e, %e [1, 0, 3, 2, 5, 4, 7, 6] : vector<8xf32>, vector<8xf32>
  %largest = arith.maximumf %swapped, %half : vector<8xf32>
  vector.store %largest, %y[%c0] : memref<8xf32>, vector<8xf32>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"lanes"});
  std::vector<uint16_t> x = random16(8, kBfloat16);
  std::vector<float> y(8);
  Status status = module.launch(
      "lanes", grid(1, 1),
      {HostArgument::input("x", x), HostArgument::output("y", y)});
  ASSERT_TRUE(status.ok()) << status.toString() << text;
  for (int i = 0; i < 8; ++i) {
    double value = std::exp(std::fabs(0.5 * valueOf16(x[i ^ 1], kBfloat16)));
    EXPECT_NEAR(y[i], value, 1e-6 * value) << text;
  }
}

TEST(Emit, IntegersWrapAndComparePerSign) {
  std::string text = printed(R"(
gpu.func @integers(%x: memref<2xi32>, %bytes: memref<2xi8>, %out: memref<6xi32>, %small: memref<1xi8>) )" +
                             attributes(2, 1) + R"( {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %a = memref.load %x[%c0] : memref<2xi32>
  %b = memref.load %x[%c1] : memref<2xi32>
  %sum = arith.addi %a, %b : i32
  memref.store %sum, %out[%c0] : memref<6xi32>
  %quotient = arith.divui %a, %b : i32
  memref.store %quotient, %out[%c1] : memref<6xi32>
  %less = arith.cmpi ult, %a, %b : i32
  %flag = arith.extui %less : i1 to i32
  memref.store %flag, %out[%c2] : memref<6xi32>
  %five = arith.constant 5 : i32
  %right = arith.shrui %a, %five : i32
  memref.store %right, %out[%c3] : memref<6xi32>
  %byte = memref.load %bytes[%c0] : memref<2xi8>
  %wide = arith.extui %byte : i8 to i32
  memref.store %wide, %out[%c4] : memref<6xi32>
  %signed = arith.extsi %byte : i8 to i32
  memref.store %signed, %out[%c5] : memref<6xi32>
  %other = memref.load %bytes[%c1] : memref<2xi8>
  %product = arith.muli %byte, %other : i8
  memref.store %product, %small[%c0] : memref<1xi8>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"integers"});
  std::vector<int> x = {-2147483647, 77}, out(6);
  x[1] = -7;
  std::vector<signed char> bytes = {-100, 3}, small(1);
  Status status = module.launch(
      "integers", grid(1, 1),
      {HostArgument::input("x", x), HostArgument::input("bytes", bytes),
       HostArgument::output("out", out), HostArgument::output("small", small)});
  ASSERT_TRUE(status.ok()) << status.toString() << text;
  unsigned a = 0x80000001u, b = 0xfffffff9u;
  EXPECT_EQ(static_cast<unsigned>(out[0]), a + b) << text;
  EXPECT_EQ(static_cast<unsigned>(out[1]), a / b) << text;
  EXPECT_EQ(out[2], 1) << text;
  EXPECT_EQ(static_cast<unsigned>(out[3]), a >> 5) << text;
  EXPECT_EQ(out[4], 156) << text;
  EXPECT_EQ(out[5], -100) << text;
  EXPECT_EQ(small[0], static_cast<signed char>(-300)) << text;
}

TEST(Emit, FloatsToIntegersSaturate) {
  std::string text = printed(R"(
gpu.func @saturate(%x: memref<8xf32>, %out: memref<8xi32>, %small: memref<8xi8>, %big: memref<8xi64>) )" +
                             attributes(1, 8) + R"( {
  %t = gpu.thread_id x
  %v = memref.load %x[%t] : memref<8xf32>
  %i = arith.fptosi %v : f32 to i32
  memref.store %i, %out[%t] : memref<8xi32>
  %s = arith.fptoui %v : f32 to i8
  memref.store %s, %small[%t] : memref<8xi8>
  %l = arith.fptosi %v : f32 to i64
  memref.store %l, %big[%t] : memref<8xi64>
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"saturate"});
  std::vector<float> x = {NAN,   INFINITY, -INFINITY, 3e9f,
                          -3e9f, 2.9f,     -2.9f,     300.5f};
  std::vector<int> out(8);
  std::vector<unsigned char> small(8);
  std::vector<long long> big(8);
  Status status = module.launch(
      "saturate", grid(1, 8),
      {HostArgument::input("x", x), HostArgument::output("out", out),
       HostArgument::output("small", small), HostArgument::output("big", big)});
  ASSERT_TRUE(status.ok()) << status.toString() << text;
  EXPECT_EQ(out, (std::vector<int>{0, INT32_MAX, INT32_MIN, INT32_MAX,
                                   INT32_MIN, 2, -2, 300}));
  EXPECT_EQ(small, (std::vector<unsigned char>{0, 255, 0, 255, 0, 2, 0, 255}));
  EXPECT_EQ(big, (std::vector<long long>{0, INT64_MAX, INT64_MIN, 3000000000,
                                         -3000000000, 2, -2, 300}));
}

TEST(Emit, MatrixUnitsByAsynchronousCopies) {
  // One GEMM tile: A by cp.async and ldmatrix, B's words by hand.
  std::string text = printed(R"(
gpu.func @tile(%a: memref<16x16xf16>, %d: memref<32x4xf32>)
    workgroup(%tile : memref<16x24xf16, #gpu.address_space<workgroup>>) )" +
                             attributes(1, 32) + R"( {
  %lane = gpu.lane_id
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  %row = arith.divui %lane, %c2 : index
  %side = arith.remui %lane, %c2 : index
  %column = arith.muli %side, %c8 : index
  cuda.copy_async %tile[%row, %column], %a[%row, %column] bytes(16) : memref<16x24xf16, #gpu.address_space<workgroup>>, memref<16x16xf16>
  cuda.commit_copies
  cuda.wait_copies 0
  gpu.barrier
  %words = memref.alloca() : memref<2x4xi32>
  %left = memref.subview %words[1, 0] [1, 4] [1, 1] : memref<2x4xi32> to memref<4xi32, strided<[1], offset: 4>>
  %r = arith.remui %lane, %c16 : index
  %h = arith.divui %lane, %c16 : index
  %col = arith.muli %h, %c8 : index
  cuda.load_matrix %left, %tile[%r, %col] : memref<4xi32, strided<[1], offset: 4>>, memref<16x24xf16, #gpu.address_space<workgroup>>
  %right = memref.alloca() : memref<2xi32>
  // 1.0 in both halves.
  %ones = arith.constant 1006648320 : i32
  memref.store %ones, %right[%c0] : memref<2xi32>
  memref.store %ones, %right[%c1] : memref<2xi32>
  %sums = memref.alloca() : memref<4xf32>
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c4 step %c1 {
    memref.store %zero, %sums[%i] : memref<4xf32>
  } {mpc.unroll}
  cuda.mma %sums, %left, %right type(f16) : memref<4xf32>, memref<4xi32, strided<[1], offset: 4>>, memref<2xi32>
  scf.for %i = %c0 to %c4 step %c1 {
    %s = memref.load %sums[%i] : memref<4xf32>
    memref.store %s, %d[%lane, %i] : memref<32x4xf32>
  } {mpc.unroll}
  gpu.return
}
)");
  HostModule module = compileKernels(text, {"tile"});
  std::vector<uint16_t> a = random16(256, kHalf);
  std::vector<float> d(128);
  Status status = module.launch(
      "tile", grid(1, 32),
      {HostArgument::input("a", a), HostArgument::output("d", d)});
  ASSERT_TRUE(status.ok()) << status.toString() << text;
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 4; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += valueOf16(a[(lane / 4 + 8 * (j / 2)) * 16 + k], kHalf);
      EXPECT_FLOAT_EQ(d[4 * lane + j], sum) << text;
    }
}

TEST(Emit, FormsThatAreMissingAreNamed) {
  CudaText text = cudaText(R"(
module attributes {gpu.container_module} {
gpu.module @kernels {
gpu.func @k(%x: memref<4xf32>) kernel {
  %v = arith.constant dense<0.0> : vector<2x2xf32>
  %w = arith.addf %v, %v : vector<2x2xf32>
  %c0 = arith.constant 0 : index
  vector.transfer_write %w, %x[%c0] {permutation_map = affine_map<(d0) -> (d0, 0)>} : vector<2x2xf32>, memref<4xf32>
  gpu.return
}}})");
  EXPECT_NE(text.error, "");
}
