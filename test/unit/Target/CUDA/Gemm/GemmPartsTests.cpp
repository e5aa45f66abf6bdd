//===- GemmPartsTests.cpp - GEMM operands in several buffers --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights that one GEMM multiplies as a concatenated operand while each has its
// own buffer, such as the parameters of query, key and value: concatenated
// along the columns of the result, or along k.
//
//===----------------------------------------------------------------------===//

#include "CudaKernelRunner.h"
#include "HostKernelTesting.h"

#include "gtest/gtest.h"

#include <numeric>

using namespace mpc;

namespace {
/// `x * [a, b, c]`, or with transposed weights, concatenated by rows.
struct Parts {
  int64_t m, k, n;
  /// Extents of the parts along the axis; their sum is n, or k if transposed.
  std::vector<int64_t> extents;
  std::string type;
  /// The axis of concatenation, and whether the GEMM transposes the parts.
  int64_t axis = 1;
  bool isTurned = false;
  std::string compute = "";

  std::string text() const;
};
} // namespace

static std::string tensor(int64_t rows, int64_t columns,
                          const std::string &type) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
         "x" + type + ">";
}

std::string Parts::text() const {
  int64_t rows = isTurned ? n : k, columns = isTurned ? k : n;
  std::string x = tensor(m, k, type), w = tensor(rows, columns, type),
              y = tensor(m, n, "f32");
  std::string arguments = "%x: " + x, names, types;
  for (size_t i = 0; i < extents.size(); ++i) {
    std::string name = "%p" + std::to_string(i);
    std::string part = axis == 0 ? tensor(extents[i], columns, type)
                                 : tensor(rows, extents[i], type);
    arguments += ", " + name + ": " + part;
    names += (i ? ", " : "") + name;
    types += (i ? ", " : "") + part;
  }
  return "func.func private @k(" + arguments + ") -> " + y +
         " attributes {mpc.kernel_kind = \"contraction\"} {\n  %w = "
         "mpc.concat " +
         names + " axis(" + std::to_string(axis) + ") : (" + types + ") -> " +
         w + "\n  %y = mpc.matmul %x, %w " +
         (isTurned ? "transpose_rhs " : "") + compute + " : (" + x + ", " + w +
         ") -> " + y + "\n  return %y : " + y + "\n}\n";
}

static CudaKernelCheck gemm(const char *target = "sm_80") {
  CudaKernelCheck check;
  check.target = cudaTarget(target);
  check.family = "gemm";
  return check;
}

/// Each vector is in one part; the ends of parts need not be those of tiles.
TEST(GemmParts, SideBySideAlongColumns) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (bool isTurned : {false, true})
      for (auto &[m, k] :
           {std::pair<int64_t, int64_t>{64, 64}, {33, 40}, {1, 8}})
        for (std::vector<int64_t> extents :
             {std::vector<int64_t>{64, 64, 64}, {8, 24}, {40, 8, 16, 72}})
          batch.add(
              Parts{m, k,
                    std::accumulate(extents.begin(), extents.end(), int64_t(0)),
                    extents, type, isTurned ? 0 : 1, isTurned}
                  .text(),
              gemm());
  batch.expect();
}

/// The gradient of the left operand of the same GEMM.
TEST(GemmParts, SideBySideAlongK) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (bool isTurned : {false, true})
      for (std::vector<int64_t> extents :
           {std::vector<int64_t>{64, 64, 64}, {8, 24}, {40, 8, 16, 72}})
        batch.add(
            Parts{48,
                  std::accumulate(extents.begin(), extents.end(), int64_t(0)),
                  72, extents, type, isTurned ? 1 : 0, isTurned}
                .text(),
            gemm());
  batch.add(Parts{48, 96, 40, {64, 32}, "f32", 1, true, "compute(tf32)"}.text(),
            gemm());
  batch.expect();
}

/// Parts that no vector divides are read element by element.
TEST(GemmParts, OddExtents) {
  CudaKernelBatch batch;
  for (const char *type : {"f16", "bf16", "f32"})
    for (bool isTurned : {false, true}) {
      batch.add(Parts{17, 13, 20, {7, 1, 12}, type, isTurned ? 0 : 1, isTurned}
                    .text(),
                gemm());
      batch.add(Parts{17, 20, 13, {7, 1, 12}, type, isTurned ? 1 : 0, isTurned}
                    .text(),
                gemm());
      batch.add(
          Parts{16, 32, 12, {6, 6}, type, isTurned ? 0 : 1, isTurned}.text(),
          gemm("sm_75"));
    }
  batch.expect();
}
