//===- LowerTiles.cpp - tile dialect to loops -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A worker is a thread of a pool that runs a range of the kernel's items.
//
//===----------------------------------------------------------------------===//

#include "KernelEmitters.h"

#include "../Kernel/TileRegions.h"

#include "mpc/Dialect/Exe/IR/ExeDialect.h"
#include "mpc/Target/CPU/Passes.h"

#include <cmath>

namespace mpc {
#define GEN_PASS_DEF_LOWERTILESPASS
#include "mpc/Target/CPU/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cpu;

/// Returns the minimum number of items per task, given the cost of an item in
/// cycles.
static int64_t grainOf(double cyclesPerItem) {
  // Cycles per task: waking a thread takes some microseconds, and a task should
  // last several times that.
  constexpr double kTaskCycles = 40000;
  return std::max<int64_t>(
      1, std::llround(kTaskCycles / std::max(cyclesPerItem, 1.0)));
}

/// Lowers items to loops over the range [begin, end) of a call. Items that
/// depend on all others run in a second phase of the runtime if partial results
/// are in memory shared by all calls; otherwise the kernel becomes one item.
static void lowerItems(func::FuncOp impl) {
  Value begin = impl.getArguments().end()[-3],
        end = impl.getArguments().end()[-2];
  SmallVector<tile::ForEachOp> owns(impl.getOps<tile::ForEachOp>());
  bool isShared = impl->hasAttr(kSharedBytesAttr);
  bool inOrder = !isShared && llvm::any_of(owns, [](tile::ForEachOp own) {
    return own.getInOrder();
  });
  int64_t items = inOrder ? 1 : 0, later = 0;
  double cycles = 1;
  for (tile::ForEachOp own : owns) {
    OpBuilder builder(own);
    IndexMath math{builder, own.getLoc()};
    auto count = static_cast<int64_t>(own.getCount());
    Value first = math.constant(0), last = math.constant(count);
    if (!inOrder) {
      auto clip = [&](Value position) {
        return math.min(math.subOrZero(position, items), count);
      };
      bool alone = owns.size() == 1;
      first = alone ? begin : clip(begin);
      last = alone ? end : clip(end);
      items += count;
      // Workers of the preceding items are already running.
      if (own.getInOrder())
        later += count;
      else
        cycles = std::max(cycles, own.getCycles().convertToDouble());
    }
    math.loop(first, last, 1,
              [&](Value item) { moveBody(builder, own.getBody(), item); });
    own.erase();
  }
  Builder builder(impl.getContext());
  impl->setAttr(kItemsAttr, builder.getI64IntegerAttr(items));
  if (isShared)
    impl->setAttr(kLaterItemsAttr, builder.getI64IntegerAttr(later));
  impl->setAttr(kGrainAttr,
                builder.getI64IntegerAttr(inOrder ? 1 : grainOf(cycles)));
}

namespace {
struct LowerTilesPass : mpc::impl::LowerTilesPassBase<LowerTilesPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ElementTarget target = elementTarget(exe::targetOf(module));
    for (auto impl : module.getOps<func::FuncOp>()) {
      auto scratch = impl->getAttrOfType<IntegerAttr>(kScratchBytesAttr);
      if (!scratch)
        continue;
      int64_t bytes = scratch.getInt();
      lowerTilesToLoops(
          impl, target,
          [&](OpBuilder &b, ArrayRef<int64_t> shape, Type type) -> Value {
            int64_t offset = llvm::alignTo(bytes, 64);
            bytes = offset + productOf(shape) * bytesPerElement(type);
            return memref::ViewOp::create(
                b, impl.getLoc(), MemRefType::get(shape, type),
                impl.getArguments().back(),
                IndexMath{b, impl.getLoc()}.constant(offset), ValueRange{});
          });
      lowerItems(impl);
      setScratch(impl, bytes);
      instrumentNonFiniteStores(impl);
    }
  }
};
} // namespace
