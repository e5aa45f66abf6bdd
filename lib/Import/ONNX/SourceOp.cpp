//===- SourceOp.cpp - framework ops recorded by exporters -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SourceOp.h"

using namespace mpc::onnx;
using llvm::StringRef;

SourceOp mpc::onnx::parseFxNode(StringRef text) {
  if (!text.consume_front("%"))
    return {};
  auto [left, right] = text.split("target=torch.ops.aten.");
  StringRef name = left.take_until([](char c) { return c == ' ' || c == ':'; });
  StringRef op =
      right.take_until([](char c) { return c == '.' || c == ']' || c == '('; });
  if (name.empty() || op.empty())
    return {};
  return {op.str(), name.str()};
}
