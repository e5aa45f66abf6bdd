//===- QuantizationTests.cpp - matmuls of 8-bit integers ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

#include "mpc/Reference/Interpreter.h"

#include <gtest/gtest.h>

using namespace mpc;
using namespace mpc::testing;

namespace {

/// Result of OP for a dot product of depth `depth` of 255 and 255.
int64_t sumOf(const std::string &op, int64_t depth, std::vector<int64_t> lhs,
              std::vector<int64_t> rhs) {
  ModelBuilder b(13);
  b.input("x", lhs, onnx::kUint8);
  b.input("w", rhs, onnx::kUint8);
  b.output("y");
  b.node(op, {"x", "w"}, {"y"});
  Import import;
  EXPECT_TRUE(import.run(b)) << import.firstError();
  if (!import.module)
    return 0;
  llvm::SmallVector<reference::Tensor> arguments;
  for (mlir::Type type : import.main().getArgumentTypes()) {
    arguments.emplace_back(mlir::cast<mlir::RankedTensorType>(type));
    EXPECT_EQ(arguments.back().size(), depth);
    for (int64_t &number : arguments.back().ints())
      number = 255;
  }
  auto results = reference::interpret(import.main(), arguments);
  EXPECT_TRUE(mlir::succeeded(results));
  return mlir::succeeded(results) ? results->front().ints()[0] : 0;
}

// ONNX leaves open what becomes of sums beyond 32 bits; ONNX Runtime's wrap.
TEST(Quantization, LongSumsWrap) {
  for (int64_t depth : {33025, 33026, 40000}) {
    auto wanted = int64_t(int32_t(uint32_t(depth * 255 * 255)));
    EXPECT_EQ(sumOf("MatMulInteger", depth, {1, depth}, {depth, 1}), wanted);
    EXPECT_EQ(sumOf("ConvInteger", depth, {1, depth, 1}, {1, depth, 1}),
              wanted);
  }
}

} // namespace
