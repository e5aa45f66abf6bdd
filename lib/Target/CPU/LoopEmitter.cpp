//===- LoopEmitter.cpp - kernels without a contraction on the CPU ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A worker is one thread of a pool that is given some of the kernel's items.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitters.h"

#include "../Kernel/TileRegions.h"

using namespace mlir;
using namespace mpc;

/// Writes items as loops over [begin, end) of a call; items that begin when
/// others have ended are one item all together.
static EmittedKernel lowerItems(func::FuncOp impl, Value begin, Value end) {
  SmallVector<tile::OwnOp> owns(impl.getOps<tile::OwnOp>());
  bool inOrder =
      llvm::any_of(owns, [](tile::OwnOp own) { return own.getInOrder(); });
  EmittedKernel kernel;
  if (!inOrder && !owns.empty())
    kernel.items = 0;
  double cycles = 1;
  for (tile::OwnOp own : owns) {
    OpBuilder builder(own);
    IndexMath math{builder, own.getLoc()};
    auto count = static_cast<int64_t>(own.getCount());
    Value first = math.constant(0), last = math.constant(count);
    if (!inOrder) {
      auto clip = [&](Value position) {
        return math.min(math.subOrZero(position, kernel.items), count);
      };
      bool alone = owns.size() == 1;
      first = alone ? begin : clip(begin);
      last = alone ? end : clip(end);
      kernel.items += count;
      cycles = std::max(cycles, own.getCycles().convertToDouble());
    }
    math.loop(first, last, 1,
              [&](Value item) { moveBody(builder, own.getBody(), item); });
    own.erase();
  }
  kernel.grain = inOrder ? 1 : grainOf(cycles);
  return kernel;
}

FailureOr<EmittedKernel> mpc::emitLoops(func::FuncOp kernel, func::FuncOp impl,
                                        const ElementTarget &target) {
  ImplArguments arguments(kernel, impl);
  KernelMemory memory;
  llvm::append_range(memory.inputs, arguments.inputs());
  llvm::append_range(memory.outputs, arguments.outputs());
  memory.scratch = arguments.scratch;
  OpBuilder builder(impl.getContext());
  builder.setInsertionPoint(impl.getBody().front().getTerminator());
  FailureOr<int64_t> scratch = emitLoops(kernel, builder, memory, target);
  if (failed(scratch))
    return failure();
  int64_t bytes = *scratch;
  lowerTilesToLoops(
      impl, target,
      [&](OpBuilder &b, ArrayRef<int64_t> shape, Type type) -> Value {
        int64_t offset = llvm::alignTo(bytes, 64);
        bytes = offset + productOf(shape) * bytesPerElement(type);
        return memref::ViewOp::create(
            b, impl.getLoc(), MemRefType::get(shape, type), arguments.scratch,
            IndexMath{b, impl.getLoc()}.constant(offset), ValueRange{});
      });
  EmittedKernel emitted = lowerItems(impl, arguments.begin, arguments.end);
  emitted.scratchBytes = bytes;
  return emitted;
}
