//===- FilterGradient.cpp - gradients of convolution filters --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every thread sums a few output channels times a few input channels at one
// place of the window, in registers; neighbouring threads have neighbouring
// input channels. Lines of output positions are split over blocks; each leaves
// its sums in the scratch buffer, and the last one adds them in order.
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "Target/Kernel/LoopKernels.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using arith::CmpIPredicate;

static constexpr int64_t kThreads = 128, kTile = 4;
/// Threads that keep a multiprocessor busy, and blocks that add to one sum.
static constexpr int64_t kThreadsPerProcessor = 1024, kMostSplits = 256;

namespace {
/// One op and how its sums are shared.
struct FilterProblem {
  explicit FilterProblem(ConvFilterGradientOp op);
  /// Null where `kernel` is something else.
  static ConvFilterGradientOp opOf(func::FuncOp kernel);

  ConvFilterGradientOp op;
  bool channelsLast;
  int64_t batch, inputs, outputs, groupInputs, groupOutputs;
  SmallVector<int64_t> extents, positions, window;
  /// Output and input channels of a thread, threads in all, lines of positions.
  int64_t rows, lanes, items, lines;
  Type type;

  SmallVector<Value> place(Value image, Value channel,
                           ArrayRef<Value> spatial) const;
};

class FilterEmitter {
public:
  FilterEmitter(GpuKernel &kernel, ConvFilterGradientOp op)
      : kernel(kernel), problem(op), builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  LogicalResult run();

private:
  Carried sum();
  Carried addAt(Value image, ArrayRef<Value> at, ValueRange sums);
  void finishSplit(ValueRange sums);
  void store(ValueRange sums);
  void enter(Value condition);
  Value constant(int64_t value) { return index.constant(value); }

  GpuKernel &kernel;
  FilterProblem problem;
  OpBuilder &builder;
  Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  Value input, gradient;
  /// The thread's item and whether it exists (null: always), its first output
  /// and input channel, the first input channel of its group, its window place.
  Value item, active, output, channel, groupStart;
  SmallVector<Value> windowPlace;
};

class FilterFamily : public KernelFamily {
public:
  StringRef name() const override { return "filter"; }
  std::optional<Schedule> schedule(func::FuncOp kernel,
                                   const CudaTarget &target) const override;
  LogicalResult emit(GpuKernel &kernel) const override {
    return FilterEmitter(kernel, FilterProblem::opOf(kernel.kernel)).run();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// The problem
//===----------------------------------------------------------------------===//

ConvFilterGradientOp FilterProblem::opOf(func::FuncOp kernel) {
  Block &body = kernel.getBody().front();
  auto op = dyn_cast<ConvFilterGradientOp>(body.front());
  if (!op || op->getNextNode() != body.getTerminator() ||
      !isa<BlockArgument>(op.getInput()) ||
      !isa<BlockArgument>(op.getGradient()) ||
      body.getTerminator()->getNumOperands() != 1)
    return {};
  return op;
}

FilterProblem::FilterProblem(ConvFilterGradientOp op)
    : op(op), channelsLast(op.getLayout() == ImageLayout::channels_last) {
  ArrayRef<int64_t> input = shapeOf(op.getInput()),
                    gradient = shapeOf(op.getGradient()),
                    result = shapeOf(op.getResult());
  size_t spatial = input.size() - 2;
  auto spatialOf = [&](ArrayRef<int64_t> shape) {
    return SmallVector<int64_t>(shape.slice(channelsLast ? 1 : 2, spatial));
  };
  batch = input.front();
  inputs = input[channelsLast ? spatial + 1 : 1];
  outputs = gradient[channelsLast ? spatial + 1 : 1];
  extents = spatialOf(input);
  positions = spatialOf(gradient);
  window.assign(result.begin() + 2, result.end());
  groupInputs = result[1];
  groupOutputs = outputs / std::max<int64_t>(op.getGroups(), 1);
  rows = groupOutputs % kTile == 0 ? kTile : 1;
  lanes = channelsLast && groupInputs % kTile == 0 ? kTile : 1;
  items = outputs / rows * (groupInputs / lanes) * productOf(window);
  lines = batch * productOf(ArrayRef<int64_t>(positions).drop_back());
  Type element = getElementTypeOrSelf(op.getResult());
  type = element.isF64() ? element : Float32Type::get(op.getContext());
}

/// An index into an image.
SmallVector<Value> FilterProblem::place(Value image, Value channel,
                                        ArrayRef<Value> spatial) const {
  SmallVector<Value> indices = {image};
  if (!channelsLast)
    indices.push_back(channel);
  llvm::append_range(indices, spatial);
  if (channelsLast)
    indices.push_back(channel);
  return indices;
}

std::optional<Schedule> FilterFamily::schedule(func::FuncOp kernel,
                                               const CudaTarget &target) const {
  ConvFilterGradientOp op = FilterProblem::opOf(kernel);
  if (!op)
    return std::nullopt;
  FilterProblem problem(op);
  Schedule schedule;
  schedule.threads = kThreads;
  schedule.blocks[0] =
      std::max<int64_t>(llvm::divideCeil(problem.items, kThreads), 1);
  int64_t wanted =
      llvm::divideCeil(target.multiprocessors() * kThreadsPerProcessor,
                       schedule.blocks[0] * kThreads);
  int64_t splits = std::clamp<int64_t>(wanted, 1, kMostSplits);
  int64_t lines = std::max<int64_t>(
      llvm::divideCeil(std::max<int64_t>(problem.lines, 1), splits), 1);
  splits = std::max<int64_t>(llvm::divideCeil(problem.lines, lines), 1);
  schedule.parameters["lines"] = lines;
  schedule.blocks[1] = splits;
  if (splits > 1)
    schedule.scratchBytes =
        llvm::alignTo(schedule.blocks[0] * sizeof(int32_t), 64) +
        splits * schedule.blocks[0] * kThreads * problem.rows * problem.lanes *
            bytesPerElement(problem.type);
  return schedule;
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void FilterEmitter::enter(Value condition) {
  auto inside = scf::IfOp::create(builder, loc, condition);
  builder.setInsertionPoint(inside.thenBlock()->getTerminator());
}

LogicalResult FilterEmitter::run() {
  if (problem.items == 0)
    return success();
  ConvFilterGradientOp op = problem.op;
  input = kernel.inputs[cast<BlockArgument>(op.getInput()).getArgNumber()];
  gradient =
      kernel.inputs[cast<BlockArgument>(op.getGradient()).getArgNumber()];
  item = index.add(index.mul(kernel.block(), kThreads), kernel.thread());
  if (problem.items % kThreads) {
    active = index.less(item, problem.items);
    item = index.min(item, problem.items - 1);
  }
  kernel.named(item, "item");
  SmallVector<int64_t> counts = problem.window;
  counts.push_back(problem.outputs / problem.rows);
  counts.push_back(problem.groupInputs / problem.lanes);
  SmallVector<Value> places = index.delinearize(item, counts);
  channel = index.mul(places.pop_back_val(), problem.lanes);
  output = index.mul(places.pop_back_val(), problem.rows);
  windowPlace = places;
  groupStart =
      index.mul(index.div(output, problem.groupOutputs), problem.groupInputs);
  kernel.named(output, "outputChannel");
  Carried sums = sum();
  if (kernel.schedule.blocks[1] > 1) {
    finishSplit(sums);
  } else {
    if (active)
      enter(active);
    store(sums);
  }
  return success();
}

/// The sums over this block's lines of positions.
Carried FilterEmitter::sum() {
  int64_t lines = kernel.schedule["lines"];
  Value begin = constant(0), end = constant(problem.lines);
  if (kernel.schedule.blocks[1] > 1) {
    begin = index.mul(kernel.block(gpu::Dimension::y), lines);
    end = index.min(index.add(begin, lines), problem.lines);
  }
  Carried zeros(problem.rows,
                math.constant(lanesOf(problem.type, problem.lanes), 0));
  SmallVector<int64_t> outer = {problem.batch};
  outer.append(problem.positions.begin(), problem.positions.end() - 1);
  return *carryLoop(
      emitter, begin, end, 1, zeros,
      [&](Value line, ValueRange carried) -> FailureOr<Carried> {
        SmallVector<Value> at = index.delinearize(line, outer);
        Value image = at.front();
        at.erase(at.begin());
        return carryLoop(
            emitter, constant(0), constant(problem.positions.back()), 1,
            carried, [&](Value last, ValueRange sums) -> FailureOr<Carried> {
              SmallVector<Value> position = at;
              position.push_back(last);
              return addAt(image, position, sums);
            });
      });
}

/// Adds one output position, where the window is inside the image there.
Carried FilterEmitter::addAt(Value image, ArrayRef<Value> at, ValueRange sums) {
  ConvFilterGradientOp op = problem.op;
  SmallVector<Value> from;
  Value inside;
  for (size_t d = 0; d < at.size(); ++d) {
    // Before the image this is a huge number.
    Value place = index.add(index.mul(at[d], op.getStrides()[d]),
                            index.mul(windowPlace[d], op.getDilations()[d]));
    int64_t pad = op.getPadLow()[d];
    place = pad > 0 ? index.sub(place, constant(pad)) : index.add(place, -pad);
    from.push_back(place);
    int64_t reach = (problem.positions[d] - 1) * op.getStrides()[d] +
                    (problem.window[d] - 1) * op.getDilations()[d] - pad;
    if (pad <= 0 && reach < problem.extents[d])
      continue;
    Value isInside = index.less(place, problem.extents[d]);
    inside = inside ? math.bitAnd(inside, isInside) : isInside;
  }

  auto add = [&]() -> Carried {
    Type element = getElementTypeOrSelf(op.getInput());
    Value x =
        emitter.load(input, element,
                     problem.place(image, index.add(groupStart, channel), from),
                     problem.lanes);
    Carried next;
    for (int64_t row = 0; row < problem.rows; ++row) {
      Value g =
          emitter.load(gradient, element,
                       problem.place(image, index.add(output, row), at), 1);
      if (problem.type.isF64() && !g.getType().isF64()) {
        g = math.extendFloat(g, problem.type);
        if (row == 0)
          x = math.extendFloat(x, problem.type);
      }
      if (problem.lanes > 1)
        g = vector::BroadcastOp::create(builder, loc, x.getType(), g);
      next.push_back(math.fma(g, x, sums[row]));
    }
    return next;
  };
  if (!inside)
    return add();
  auto branch = scf::IfOp::create(builder, loc, sums.getTypes(), inside,
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(builder, loc, add());
  builder.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(builder, loc, sums);
  return Carried(branch.getResults());
}

void FilterEmitter::store(ValueRange sums) {
  Type element = getElementTypeOrSelf(problem.op.getResult());
  for (auto [row, sum] : llvm::enumerate(sums))
    for (int64_t lane = 0; lane < problem.lanes; ++lane) {
      Value value = sum;
      if (problem.lanes > 1)
        value = vector::ExtractOp::create(builder, loc, sum, lane);
      SmallVector<Value> indices = {
          index.add(output, static_cast<int64_t>(row)),
          index.add(channel, lane)};
      llvm::append_range(indices, windowPlace);
      emitter.store(emitter.round(value, element), kernel.outputs[0], indices,
                    1);
    }
}

/// Leaves the sums for the last block of the item, which adds all of them.
void FilterEmitter::finishSplit(ValueRange sums) {
  Type i32 = builder.getI32Type();
  int64_t blocks = kernel.schedule.blocks[0],
          splits = kernel.schedule.blocks[1], width = problem.lanes,
          line = blocks * kThreads * problem.rows * width;
  Value counters =
      kernel.named(index.view(kernel.scratch, 0, blocks, i32), "counters");
  Value partial = kernel.named(
      index.view(kernel.scratch, llvm::alignTo(blocks * sizeof(int32_t), 64),
                 splits * line, problem.type),
      "sumsOfBlocks");
  // Threads without an item have a place as well.
  Value own =
      index.mul(index.add(index.mul(kernel.block(), kThreads), kernel.thread()),
                problem.rows * width);
  Value split = kernel.block(gpu::Dimension::y);
  Value start = index.add(index.mul(split, line), own);
  for (auto [row, sum] : llvm::enumerate(sums))
    emitter.store(sum, partial,
                  index.add(start, static_cast<int64_t>(row) * width), width);

  cuda::FenceOp::create(builder, loc);
  kernel.barrier();
  Value before = kernel.shared({1}, i32, "blocksBefore");
  Value isFirst = index.less(kernel.thread(), 1);
  {
    OpBuilder::InsertionGuard guard(builder);
    enter(isFirst);
    Value count = memref::AtomicRMWOp::create(
        builder, loc, arith::AtomicRMWKind::addi, math.integer(i32, 1),
        counters, kernel.block());
    memref::StoreOp::create(builder, loc, count, before, constant(0));
  }
  kernel.barrier();
  enter(math.compare(CmpIPredicate::eq,
                     memref::LoadOp::create(builder, loc, before, constant(0)),
                     math.integer(i32, splits - 1)));
  cuda::FenceOp::create(builder, loc);
  Carried zeros(problem.rows,
                math.constant(lanesOf(problem.type, problem.lanes), 0));
  Carried total = *carryLoop(
      emitter, constant(0), constant(splits), 1, zeros,
      [&](Value number, ValueRange carried) -> FailureOr<Carried> {
        Value place = index.add(index.mul(number, line), own);
        Carried next;
        for (auto [row, sum] : llvm::enumerate(carried))
          next.push_back(math.add(
              sum,
              emitter.load(partial, problem.type,
                           index.add(place, static_cast<int64_t>(row) * width),
                           width)));
        return next;
      });
  {
    OpBuilder::InsertionGuard guard(builder);
    enter(isFirst);
    memref::StoreOp::create(builder, loc, math.integer(i32, 0), counters,
                            kernel.block());
  }
  if (active)
    enter(active);
  store(total);
}

std::unique_ptr<KernelFamily> mpc::createFilterFamily() {
  return std::make_unique<FilterFamily>();
}
