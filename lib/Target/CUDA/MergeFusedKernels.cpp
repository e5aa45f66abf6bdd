//===- MergeFusedKernels.cpp - merges horizontally fused kernels ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The grids of a kernel's parts are concatenated along x; a block's index
// selects its part. Blocks have the threads of the largest part; surplus warps
// exit at once and are not counted in barriers. Shared memory is that of the
// most demanding part; scratch buffers are concatenated. A producer runs before
// its consumer: a producer of one block in every block, with private memory for
// its results, one of as many blocks as its consumer in the block of the same
// index. Or the consumer's blocks wait for those of the producer
// (ProducerConsumerSync.h).
//
// Runs after mpc-lower-tiles-to-threads, on code of threads.
//
//===----------------------------------------------------------------------===//

#include "FusionKernel.h"
#include "ProducerConsumerSync.h"

#include "Emit/KernelAttributes.h"
#include "Emit/KernelComment.h"
#include "Plan/Schedule.h"

#include "Target/Kernel/IndexMath.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace mpc {
#define GEN_PASS_DEF_MERGEFUSEDKERNELSPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Alignment of shared-memory arrays and scratch buffers, in bytes.
static constexpr int64_t kAlign = 128;

static int64_t numberOf(Operation *op, StringRef name) {
  auto attribute = op->getAttrOfType<IntegerAttr>(name);
  return attribute ? attribute.getInt() : 0;
}

static int64_t bytesOf(MemRefType type) {
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * llvm::divideCeil(bits, 8);
}

namespace {

/// One part of a kernel.
struct Part {
  explicit Part(gpu::GPUFuncOp function)
      : function(function),
        attribute(function->getAttrOfType<DictionaryAttr>(kFusedPartAttr)),
        inputs(attribute.getAs<DenseI64ArrayAttr>("inputs").asArrayRef()),
        outputs(attribute.getAs<DenseI64ArrayAttr>("outputs").asArrayRef()),
        grid(*function.getKnownGridSize()),
        threads(function.getKnownBlockSize()->front()),
        scratchBytes(numberOf(function, kScratchAttr)) {}

  /// Accessors of ops are not const.
  mutable gpu::GPUFuncOp function;
  DictionaryAttr attribute;
  ArrayRef<int64_t> inputs, outputs;
  ArrayRef<int32_t> grid;
  int64_t threads, scratchBytes;

  StringRef kernel() const {
    return attribute.getAs<StringAttr>("kernel").getValue();
  }
  /// Scratch buffer, or null. Static shared arrays follow the arguments.
  Value scratch() const {
    unsigned last = function.getFunctionType().getNumInputs() - 1;
    return scratchBytes ? Value(function.getArgument(last)) : Value();
  }
  /// Whether another part reads results of this one.
  bool isProducer() const {
    return llvm::any_of(outputs, [](int64_t output) { return output < 0; });
  }
  /// Whether the consumer's blocks wait for this part, or else run it.
  bool isAwaited() const {
    return isProducer() && attribute.contains("awaited");
  }
  bool leads() const { return isProducer() && !isAwaited(); }
  int64_t blocks() const {
    return int64_t(grid[0]) * int64_t(grid[1]) * int64_t(grid[2]);
  }
  /// Dynamic shared memory, followed by static arrays, in bytes.
  int64_t sharedBytes() const {
    int64_t bytes = numberOf(function, kDynamicSharedAttr);
    for (BlockArgument array : function.getWorkgroupAttributions())
      bytes = llvm::alignTo(bytes, kAlign) +
              bytesOf(cast<MemRefType>(array.getType()));
    return bytes;
  }
};

class Merger {
public:
  explicit Merger(ArrayRef<Part> parts) : parts(parts) {}

  LogicalResult run() {
    for (const Part &part : parts)
      if (failed(checkScratch(part)) || failed(checkLead(part)))
        return failure();
    makeShell();
    int64_t firstBlock = 0, scratch = 0;
    for (const Part &part : parts) {
      move(part, firstBlock, scratch);
      firstBlock += part.leads() ? 0 : part.blocks();
      scratch += llvm::alignTo(part.scratchBytes, kAlign);
      Operation *done = part.function;
      done->erase();
    }
    return success();
  }

private:
  /// Checks that the scratch buffer is used through views only, which `move`
  /// relocates.
  static LogicalResult checkScratch(const Part &part) {
    Value scratch = part.scratch();
    if (!scratch)
      return success();
    for (Operation *user : scratch.getUsers())
      if (!isa<memref::ViewOp>(user))
        return user->emitOpError() << "uses the scratch buffer of a fused part "
                                      "other than through a view";
    return success();
  }

  /// Checks that every block runs a producer with all threads at its barriers,
  /// or that blocks of a single other part wait for it.
  LogicalResult checkLead(const Part &part) const {
    if (!part.isProducer())
      return success();
    bool fits = part.isAwaited()
                    ? parts.size() == 2 && &part == &parts.front()
                    : part.blocks() == 1 && part.scratchBytes == 0 &&
                          llvm::all_of(parts, [&](const Part &other) {
                            return other.threads <= part.threads;
                          });
    return fits ? success()
                : part.function.emitOpError()
                      << "is a producer of a fused kernel and has an "
                         "unsupported launch of "
                      << part.blocks() << " blocks of " << part.threads
                      << " threads";
  }

  void makeShell() {
    gpu::GPUFuncOp front = parts.front().function;
    OpBuilder builder(front);
    int64_t inputs = 0, outputs = 0, threads = 0, blocks = 0, shared = 0,
            scratch = 0;
    bool hasWideIndices = false;
    std::string description;
    SmallVector<Location> locations;
    for (const Part &part : parts) {
      for (int64_t input : part.inputs)
        inputs = std::max(inputs, input + 1);
      outputs += llvm::count_if(part.outputs,
                                [](int64_t output) { return output >= 0; });
      threads = std::max(threads, part.threads);
      blocks += part.leads() ? 0 : part.blocks();
      shared = std::max(shared, part.sharedBytes());
      scratch += llvm::alignTo(part.scratchBytes, kAlign);
      hasWideIndices |= part.function->hasAttr(kIndex64Attr);
      locations.push_back(part.function.getLoc());
      if (auto text =
              part.function->getAttrOfType<StringAttr>(kDescriptionAttr))
        description +=
            (description.empty() ? "" : "\n\n") + text.getValue().str();
    }
    SmallVector<Type> types(inputs + outputs);
    SmallVector<Location> places(inputs + outputs, builder.getUnknownLoc());
    for (const Part &part : parts)
      for (auto [number, at] : llvm::enumerate(joined(part, inputs))) {
        BlockArgument argument = part.function.getArgument(number);
        if (at < 0) {
          // Shared by all blocks, or private to each.
          int64_t bytes = llvm::alignTo(
              bytesOf(cast<MemRefType>(argument.getType())), kAlign);
          auto [known, isNew] = ownMemory.insert(
              {at, {scratch, parts.front().leads() ? bytes : 0}});
          if (isNew)
            scratch += (known->second.perBlock ? blocks : 1) * bytes;
          continue;
        }
        types[at] = argument.getType();
        places[at] = argument.getLoc();
      }
    int64_t counters = scratch;
    if (parts.front().isAwaited())
      scratch += llvm::alignTo(ProducerConsumerSync::kBytes, kAlign);
    if (scratch) {
      types.push_back(MemRefType::get({scratch}, builder.getI8Type()));
      places.push_back(NameLoc::get(builder.getStringAttr("scratch")));
    }
    kernel = gpu::GPUFuncOp::create(builder, builder.getFusedLoc(locations),
                                    parts.front().kernel(),
                                    builder.getFunctionType(types, {}));
    kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
    kernel.setKnownGridSize(
        SmallVector<int32_t>{static_cast<int32_t>(blocks), 1, 1});
    kernel.setKnownBlockSize(
        SmallVector<int32_t>{static_cast<int32_t>(threads), 1, 1});
    if (shared)
      kernel->setAttr(kDynamicSharedAttr, builder.getI64IntegerAttr(shared));
    if (scratch)
      kernel->setAttr(kScratchAttr, builder.getI64IntegerAttr(scratch));
    if (hasWideIndices)
      kernel->setAttr(kIndex64Attr, builder.getUnitAttr());
    kernel->setAttr(kInputsAttr, builder.getI64IntegerAttr(inputs));
    kernel->setAttr(kDescriptionAttr, builder.getStringAttr(description));
    Block &body = kernel.getBody().front();
    for (auto [argument, place] : llvm::zip(body.getArguments(), places))
      argument.setLoc(place);
    OpBuilder inside = OpBuilder::atBlockEnd(&body);
    auto terminator = gpu::ReturnOp::create(inside, kernel.getLoc());
    inside.setInsertionPoint(terminator);
    scratchMemory = scratchOf(kernel);
    GpuBody own = bodyAt(inside);
    if (parts.front().isAwaited()) {
      IndexMath index{inside, kernel.getLoc()};
      handOver =
          index.view(scratchMemory, counters, ProducerConsumerSync::kBytes / 4,
                     inside.getI32Type());
      block = handOverAt(own).takeBlockIndex();
    } else {
      block = own.block();
    }
    thread = own.thread();
    blockThreads = threads;
    numInputs = inputs;
    if (shared)
      sharedMemory = gpu::DynamicSharedMemoryOp::create(
          inside, kernel.getLoc(),
          MemRefType::get(
              {ShapedType::kDynamic}, inside.getI8Type(),
              MemRefLayoutAttrInterface(),
              gpu::AddressSpaceAttr::get(kernel.getContext(),
                                         gpu::AddressSpace::Workgroup)));
  }

  GpuBody bodyAt(OpBuilder builder) {
    return {kernel, builder, builder.getUnknownLoc(), scratchMemory,
            /*firstBlock=*/0};
  }

  ProducerConsumerSync handOverAt(GpuBody &body) {
    return {body, handOver, parts.front().blocks(), parts.back().blocks()};
  }

  /// Maps the part's arguments to the kernel's arguments; negative numbers are
  /// values passed between parts.
  static SmallVector<int64_t> joined(const Part &part, int64_t inputs) {
    SmallVector<int64_t> numbers(part.inputs);
    for (int64_t output : part.outputs)
      numbers.push_back(output < 0 ? output : inputs + output);
    return numbers;
  }

  /// Returns the block's memory for a value passed between parts.
  Value viewOf(BlockArgument argument, int64_t number, IndexMath index) {
    OwnMemory own = ownMemory.lookup(number);
    Value shift = index.add(index.mul(block, own.perBlock), own.begin);
    return memref::ViewOp::create(index.b, argument.getLoc(),
                                  cast<MemRefType>(argument.getType()),
                                  scratchMemory, shift, ValueRange());
  }

  /// Moves the part's body into the blocks from `firstBlock` on, or into all
  /// blocks if consumers run it.
  void move(const Part &part, int64_t firstBlock, int64_t scratchOffset) {
    OpBuilder builder(kernel.getBody().front().getTerminator());
    Location loc = builder.getUnknownLoc();
    IndexMath index{builder, loc};
    Value local = part.leads() ? index.constant(0)
                  : firstBlock ? index.sub(block, index.constant(firstBlock))
                               : block;
    Operation *end = builder.getInsertionBlock()->getTerminator();
    if (part.leads()) {
      end = gpu::BarrierOp::create(builder, loc);
      builder.setInsertionPoint(end);
    } else {
      Value isOwn = index.less(local, index.constant(part.blocks()));
      if (part.threads < blockThreads)
        isOwn = arith::AndIOp::create(
            builder, loc, isOwn,
            index.less(thread, index.constant(part.threads)));
      auto branch = scf::IfOp::create(builder, loc, isOwn);
      builder.setInsertionPointToStart(branch.thenBlock());
      end = branch.thenBlock()->getTerminator();
      if (handOver) {
        GpuBody own = bodyAt(builder);
        if (part.isAwaited())
          own.builder.setInsertionPoint(end);
        ProducerConsumerSync hand = handOverAt(own);
        if (part.isAwaited()) {
          hand.publish();
          end = &branch.thenBlock()->front();
          builder.setInsertionPoint(end);
        } else {
          hand.await();
          builder.setInsertionPoint(end);
        }
      }
    }

    // Keep the range of a remainder visible to index analysis.
    Value places[3] = {local, index.constant(0), index.constant(0)};
    if (part.grid[1] > 1 || part.grid[2] > 1) {
      places[0] = index.rem(local, part.grid[0]);
      Value rest = index.div(local, part.grid[0]);
      places[1] = index.rem(rest, part.grid[1]);
      places[2] = index.rem(index.div(rest, part.grid[1]), part.grid[2]);
    }

    Block &body = part.function.getBody().front();
    for (auto [number, at] : llvm::enumerate(joined(part, numInputs))) {
      BlockArgument argument = body.getArgument(number);
      argument.replaceAllUsesWith(at < 0 ? viewOf(argument, at, index)
                                         : kernel.getArgument(at));
    }
    if (Value scratch = part.scratch())
      for (Operation *user : llvm::make_early_inc_range(scratch.getUsers())) {
        auto view = cast<memref::ViewOp>(user);
        OpBuilder before(view);
        IndexMath shift{before, view.getLoc()};
        view.getByteShiftMutable().assign(
            shift.add(view.getByteShift(), scratchOffset));
        view.getSourceMutable().assign(scratchMemory);
      }
    int64_t offset = numberOf(part.function, kDynamicSharedAttr);
    for (BlockArgument array : part.function.getWorkgroupAttributions()) {
      auto type = cast<MemRefType>(array.getType());
      offset = llvm::alignTo(offset, kAlign);
      Value view =
          memref::ViewOp::create(builder, array.getLoc(), type, sharedMemory,
                                 index.constant(offset), ValueRange());
      array.replaceAllUsesWith(view);
      offset += bytesOf(type);
    }
    SmallVector<Operation *> gone;
    body.walk([&](Operation *op) {
      if (auto id = dyn_cast<gpu::BlockIdOp>(op)) {
        id.replaceAllUsesWith(places[static_cast<int>(id.getDimension())]);
        gone.push_back(op);
      } else if (isa<gpu::DynamicSharedMemoryOp>(op)) {
        op->replaceAllUsesWith(ValueRange{sharedMemory});
        gone.push_back(op);
      }
    });
    for (Operation *op : gone)
      op->erase();
    body.getTerminator()->erase();
    end->getBlock()->getOperations().splice(end->getIterator(),
                                            body.getOperations());
  }

  ArrayRef<Part> parts;
  /// Offset in the scratch buffer of a value passed between parts, and bytes
  /// per block; 0: shared by all blocks.
  struct OwnMemory {
    int64_t begin = 0, perBlock = 0;
  };
  llvm::SmallDenseMap<int64_t, OwnMemory, 4> ownMemory;
  gpu::GPUFuncOp kernel;
  /// Block index in the grid, thread index in the block.
  Value block, thread;
  int64_t blockThreads = 0, numInputs = 0;
  Value sharedMemory, scratchMemory;
  /// Counters of a producer with a waiting consumer; null: none.
  Value handOver;
};

struct MergeFusedKernelsPass
    : mpc::impl::MergeFusedKernelsPassBase<MergeFusedKernelsPass> {
  using Base::Base;

  void runOnOperation() override {
    llvm::MapVector<StringRef, SmallVector<Part>> kernels;
    getOperation().walk([&](gpu::GPUFuncOp function) {
      if (function->hasAttr(kFusedPartAttr)) {
        Part part(function);
        kernels[part.kernel()].push_back(part);
      }
    });
    if (kernels.empty())
      return markAllAnalysesPreserved();
    for (auto &[name, parts] : kernels)
      if (failed(Merger(parts).run()))
        return signalPassFailure();
  }
};
} // namespace
