//===- ElementMemory.cpp - memory layout of tensors -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ElementMemory.h"

using namespace mlir;
using namespace mpc;

Type mpc::memoryElementType(Type type) {
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return type;
  return IntegerType::get(type.getContext(), std::max(8u, integer.getWidth()));
}

MemRefType mpc::memoryType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  // Bare pointers do not support extents of 0; such memory is never accessed.
  SmallVector<int64_t> shape;
  for (int64_t extent : tensor.getShape())
    shape.push_back(std::max<int64_t>(extent, 1));
  return MemRefType::get(shape, memoryElementType(tensor.getElementType()));
}
