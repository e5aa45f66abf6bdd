//===- Transpose.cpp - tiled transpose through shared memory --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes of the last dimension and elementwise ops fused with them: a block
// reads a tile along the inputs' last dimension and writes it along the
// results' last dimension, so that both are coalesced. Tile rows are padded by
// one bank. A result that is the input of a transpose is stored with it: a
// tensor that GEMMs read along either dimension is read and converted once.
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"

#include "../Plan/KernelPlan.h"
#include "../Plan/Schedule.h"

#include "Target/Kernel/LoopKernels.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

namespace {
constexpr int64_t kTransposeThreads = 256;
/// Minimum extent: tiles of shorter dimensions are mostly empty.
constexpr int64_t kShortest = 8;

/// Parameters of the schedule: edge of a tile, in elements.
struct TransposeSchedule {
  int64_t tile = 0;

  static void map(auto &schedule, auto field) { field("tile", schedule.tile); }
};

/// A transpose kernel under analysis or construction.
class TransposeKernel {
public:
  TransposeKernel(func::FuncOp kernel, OpBuilder &builder,
                  ArrayRef<Value> inputs, ArrayRef<Value> outputs);
  ~TransposeKernel() { copy.erase(); }

  bool applies();
  /// Returns the edge of a tile: a warp transfers 128 bytes of the widest
  /// tensor, or 64 elements.
  int64_t tile();
  int64_t blocks(int64_t tile) { return productOf(counts(tile)); }
  LogicalResult emit(GpuKernel &kernel);

private:
  /// Number of tiles along the two tiled dimensions, extents of the others.
  SmallVector<int64_t> counts(int64_t tile);
  /// Calls `body` for this thread's elements of a tile, with offsets along the
  /// fast and the slow dimension.
  void walk(GpuKernel &kernel, int64_t tile,
            llvm::function_ref<void(Value fast, Value slow)> body);
  /// Whether both indices are in bounds; null: always.
  Value inBounds(ArrayRef<Value> indices, int64_t tile);

  func::FuncOp copy;
  OpBuilder &builder;
  ElementEmitter emitter;
  /// Results behind a transpose, and inputs of transposes.
  SmallVector<Root> roots, stored;
  SmallVector<TransposeOp> transposes;
  SmallVector<int64_t> shape;
  /// Dimension of the result that is the inputs' last one.
  int64_t line = -1;
};
} // namespace

/// Results are stored contiguously, whatever their shape.
static Value withoutReshapes(Value tensor) {
  while (auto reshape = tensor.getDefiningOp<ReshapeOp>())
    tensor = reshape.getInput();
  return tensor;
}

static bool isInput(const Root &root, TransposeOp transpose) {
  return root.tensor == withoutReshapes(transpose.getInput());
}

TransposeKernel::TransposeKernel(func::FuncOp kernel, OpBuilder &builder,
                                 ArrayRef<Value> inputs,
                                 ArrayRef<Value> outputs)
    : copy(kernel.clone()), builder(builder),
      emitter(builder, builder.getUnknownLoc(), cudaElementTarget()) {
  for (auto [argument, memref] : llvm::zip(copy.getArguments(), inputs))
    emitter.bindMemory(argument, emitter.viewAs(memref, shapeOf(argument)));
  Operation *terminator = copy.getBody().front().getTerminator();
  for (auto [result, memref] : llvm::zip(terminator->getOperands(), outputs)) {
    Value tensor = withoutReshapes(result);
    Root root{tensor, emitter.viewAs(memref, shapeOf(tensor))};
    bool isMoved = !visitDefinitions(emitter, root, [](Operation *op) {
      return isa<TransposeOp>(op) ? WalkResult::interrupt()
                                  : WalkResult::advance();
    });
    (isMoved ? roots : stored).push_back(root);
  }
}

bool TransposeKernel::applies() {
  if (roots.empty())
    return false;
  shape.assign(shapeOf(roots.front().tensor));
  for (const Root &root : roots)
    if (shapeOf(root.tensor) != ArrayRef<int64_t>(shape))
      return false;
  FailureOr<int64_t> found = findTransposes(emitter, roots, transposes);
  if (failed(found) || productOf(shape) == 0)
    return false;
  line = *found;
  for (const Root &root : stored)
    if (llvm::none_of(transposes, [&](TransposeOp transpose) {
          return isInput(root, transpose);
        }))
      return false;
  return shape[line] >= kShortest && shape.back() >= kShortest;
}

int64_t TransposeKernel::tile() {
  int64_t bits = 8;
  for (TransposeOp transpose : transposes)
    bits = std::max<int64_t>(
        bits, memoryElementType(getElementTypeOrSelf(transpose.getResult()))
                  .getIntOrFloatBitWidth());
  return bits <= 16 && shape[line] > 32 && shape.back() > 32 ? 64 : 32;
}

SmallVector<int64_t> TransposeKernel::counts(int64_t tile) {
  SmallVector<int64_t> counts(shape);
  counts[line] = llvm::divideCeil(shape[line], tile);
  counts.back() = llvm::divideCeil(shape.back(), tile);
  return counts;
}

void TransposeKernel::walk(
    GpuKernel &kernel, int64_t tile,
    llvm::function_ref<void(Value fast, Value slow)> body) {
  IndexMath math{builder, kernel.loc};
  Value thread = kernel.thread(), fast = math.rem(thread, tile),
        first = math.div(thread, tile);
  // Issue all loads of a thread before the first store.
  int64_t step = kernel.schedule.threads / tile;
  math.loop(math.constant(0), math.constant(tile), step, [&](Value slow) {
    builder.getInsertionBlock()->getParentOp()->setAttr(kUnrollAttr,
                                                        builder.getUnitAttr());
    body(fast, kernel.named(math.add(first, slow), "row"));
  });
}

Value TransposeKernel::inBounds(ArrayRef<Value> indices, int64_t tile) {
  IndexMath math{builder, emitter.getLoc()};
  ValueMath values(builder, emitter.getLoc());
  Value inside;
  for (size_t dim : {static_cast<size_t>(line), shape.size() - 1}) {
    if (shape[dim] % tile == 0)
      continue;
    Value fits = math.less(indices[dim], shape[dim]);
    inside = inside ? values.bitAnd(inside, fits) : fits;
  }
  return inside;
}

LogicalResult TransposeKernel::emit(GpuKernel &kernel) {
  int64_t tile = kernel.schedule.get<TransposeSchedule>().tile;
  IndexMath math{builder, kernel.loc};
  SmallVector<Value> tiles;
  for (TransposeOp transpose : transposes) {
    Type type = memoryElementType(getElementTypeOrSelf(transpose.getResult()));
    // Column accesses: pad each row by one bank to avoid conflicts.
    int64_t pad = std::max<int64_t>(32 / type.getIntOrFloatBitWidth(), 1);
    tiles.push_back(kernel.shared({tile, tile + pad}, type, "tile"));
  }
  SmallVector<Value> corner = math.delinearize(kernel.block(), counts(tile));
  Value firstLine = math.mul(corner[line], tile),
        firstLast = math.mul(corner.back(), tile);
  auto at = [&](Value offsetLine, Value offsetLast) {
    SmallVector<Value> indices(corner);
    indices[line] = math.add(firstLine, offsetLine);
    indices.back() = math.add(firstLast, offsetLast);
    return indices;
  };

  LogicalResult result = success();
  walk(kernel, tile, [&](Value fast, Value slow) {
    SmallVector<Value> indices = at(fast, slow);
    kernel.within(inBounds(indices, tile), [&] {
      for (auto [transpose, shared] : llvm::zip(transposes, tiles)) {
        SmallVector<Value> source(indices.size());
        for (auto [dim, from] : llvm::enumerate(transpose.getPermutation()))
          source[from] = indices[dim];
        FailureOr<Value> value = emitter.emit(transpose.getInput(), source, 1);
        if (failed(value)) {
          result = failure();
          return;
        }
        emitter.store(*value, shared, {slow, fast}, 1);
        for (const Root &root : stored)
          if (isInput(root, transpose))
            emitter.store(
                *value,
                emitter.viewAs(root.memref, shapeOf(transpose.getInput())),
                source, 1);
      }
    });
  });
  kernel.barrier();
  walk(kernel, tile, [&](Value fast, Value slow) {
    SmallVector<Value> indices = at(slow, fast);
    kernel.within(inBounds(indices, tile), [&] {
      for (auto [transpose, shared] : llvm::zip(transposes, tiles)) {
        Type type = getElementTypeOrSelf(transpose.getResult());
        emitter.bindValue(transpose.getResult(),
                          emitter.load(shared, type, {fast, slow}, 1));
      }
      SmallVector<Value> values;
      for (const Root &root : roots) {
        FailureOr<Value> value = emitter.emit(root.tensor, indices, 1);
        if (failed(value)) {
          result = failure();
          return;
        }
        values.push_back(*value);
      }
      for (auto [root, value] : llvm::zip(roots, values))
        emitter.store(value, root.memref, indices, 1);
    });
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Plan
//===----------------------------------------------------------------------===//

namespace {
class TransposePlan : public KernelPlan {
public:
  using KernelPlan::KernelPlan;

  std::optional<Schedule> schedule() const override {
    TrialCodegen trial(kernel);
    TransposeKernel transpose(kernel, trial.builder, trial.memory.inputs,
                              trial.memory.outputs);
    if (!transpose.applies())
      return std::nullopt;
    int64_t tile = transpose.tile();
    Schedule schedule;
    schedule.set(TransposeSchedule{tile});
    schedule.threads = kTransposeThreads;
    schedule.blocks[0] = transpose.blocks(tile);
    return schedule;
  }

  LogicalResult emit(GpuKernel &gpuKernel) const override {
    TransposeKernel transpose(kernel, gpuKernel.builder, gpuKernel.inputs,
                              gpuKernel.outputs);
    return success(transpose.applies() && succeeded(transpose.emit(gpuKernel)));
  }
};
} // namespace

std::unique_ptr<KernelPlan> cuda::planTranspose(func::FuncOp kernel,
                                                const CudaTarget &target) {
  return std::make_unique<TransposePlan>(kernel, target);
}
