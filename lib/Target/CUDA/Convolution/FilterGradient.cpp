//===- FilterGradient.cpp - filter gradients of convolutions --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A filter gradient has few elements, each a sum over all positions of all
// images, which both variants split over blocks: implicit GEMM on the main loop
// of Gemm.cpp (FilterGradientGemm.cpp), and direct, here: every thread
// accumulates a few output channels times a few input channels at one window
// position, in registers; adjacent threads have adjacent input channels. Rows
// of output positions are split over blocks; the last-arriving block reduces
// the partial sums in order.
//
// A fused bias gradient is computed as an additional input channel with a 1x1
// window on an image of ones.
//
//===----------------------------------------------------------------------===//

#include "../Plan/LastArrivingBlock.h"
#include "FilterGradientProblem.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;
using arith::CmpIPredicate;

/// Threads per block of the direct variant.
static constexpr int64_t kFilterThreads = 128;
/// Maximum blocks per sum.
static constexpr int64_t kMostSplits = 256;

namespace {
/// Parameters of the direct variant: rows of output positions per block.
struct DirectFilterSchedule {
  int64_t lines = 0;

  static void map(auto &schedule, auto field) {
    field("lines", schedule.lines);
  }
};
} // namespace

Schedule cuda::scheduleDirectFilter(const FilterGradientProblem &problem,
                                    const CudaTarget &target) {
  Schedule schedule;
  schedule.threads = kFilterThreads;
  schedule.blocks[0] =
      std::max<int64_t>(llvm::divideCeil(problem.items, kFilterThreads), 1);
  int64_t wanted =
      llvm::divideCeil(target.multiprocessors() * kThreadsPerProcessor,
                       schedule.blocks[0] * kFilterThreads);
  int64_t splits = std::clamp<int64_t>(wanted, 1, kMostSplits);
  int64_t lines = std::max<int64_t>(
      llvm::divideCeil(std::max<int64_t>(problem.lines, 1), splits), 1);
  splits = std::max<int64_t>(llvm::divideCeil(problem.lines, lines), 1);
  schedule.set(DirectFilterSchedule{lines});
  schedule.blocks[1] = splits;
  if (splits > 1)
    schedule.scratchBytes =
        llvm::alignTo(schedule.blocks[0] * sizeof(int32_t), 64) +
        splits * schedule.blocks[0] * kFilterThreads * problem.rows *
            problem.lanes * bytesPerElement(problem.type);
  return schedule;
}

namespace {
class DirectFilterGradientEmitter {
public:
  DirectFilterGradientEmitter(GpuKernel &kernel, const FilterGradientOps &ops)
      : kernel(kernel), problem(ops), builder(kernel.builder), loc(kernel.loc),
        emitter(builder, loc, cudaElementTarget()), math(builder, loc),
        index{builder, loc} {}
  LogicalResult run();

private:
  Carried sum();
  Carried addAt(Value image, ArrayRef<Value> at, ValueRange sums);
  void finishSplit(ValueRange sums);
  void store(ValueRange sums);
  Value constant(int64_t value) { return index.constant(value); }

  GpuKernel &kernel;
  FilterGradientProblem problem;
  OpBuilder &builder;
  Location loc;
  ElementEmitter emitter;
  ValueMath math;
  IndexMath index;
  Value input, gradient;
  /// The thread's work item, whether it exists (null: always) and belongs to
  /// the bias (null: no bias), its first output and input channel, the first
  /// input channel of its group, its window position.
  Value item, active, isBias, output, channel, groupStart;
  SmallVector<Value> windowPlace;
};

class FilterGradientPlan : public KernelPlan {
public:
  FilterGradientPlan(func::FuncOp kernel, const CudaTarget &target,
                     const FilterGradientOps &ops)
      : KernelPlan(kernel, target), direct(ops),
        gemm(GemmPlan::of(kernel, target,
                          FusedGemm::filterGradient(kernel, target))) {}

  std::optional<Schedule> schedule() const override {
    std::optional<Schedule> product = gemm ? gemm->schedule() : std::nullopt;
    return product ? product : scheduleDirectFilter(direct, target);
  }
  /// Either variant, if both are possible.
  std::optional<Schedule> scheduleAs(const Schedule &given) const override {
    return gemm && isGemm(given) ? gemm->scheduleAs(given)
                                 : scheduleDirectFilter(direct, target);
  }
  LogicalResult emit(GpuKernel &gpuKernel) const override {
    return isGemm(gpuKernel.schedule)
               ? gemm->emit(gpuKernel)
               : DirectFilterGradientEmitter(gpuKernel, direct.ops).run();
  }

private:
  static bool isGemm(const Schedule &schedule) {
    return schedule.get<GemmTiles>().m > 0;
  }

  FilterGradientProblem direct;
  std::unique_ptr<GemmPlan> gemm;
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

LogicalResult DirectFilterGradientEmitter::run() {
  if (problem.items == 0)
    return success();
  input = kernel.inputs[problem.ops.input.getArgNumber()];
  gradient = kernel.inputs[problem.ops.gradient.getArgNumber()];
  item = index.add(index.mul(kernel.block(), kFilterThreads), kernel.thread());
  if (problem.items % kFilterThreads) {
    active = index.less(item, problem.items);
    item = index.min(item, problem.items - 1);
  }
  kernel.named(item, "item");
  Value place = item;
  if (problem.ops.bias) {
    // First window position, first input channels.
    isBias =
        math.compare(CmpIPredicate::uge, item, constant(problem.filterItems));
    place = math.select(isBias,
                        index.mul(index.add(item, -problem.filterItems),
                                  problem.groupInputs / problem.lanes),
                        item);
  }
  SmallVector<int64_t> counts = problem.window;
  counts.push_back(problem.outputs / problem.rows);
  counts.push_back(problem.groupInputs / problem.lanes);
  SmallVector<Value> places = index.delinearize(place, counts);
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
      kernel.enter(active);
    store(sums);
  }
  return success();
}

/// Accumulates over this block's rows of positions.
Carried DirectFilterGradientEmitter::sum() {
  int64_t lines = kernel.schedule.get<DirectFilterSchedule>().lines;
  Value begin = constant(0), end = constant(problem.lines);
  if (kernel.schedule.blocks[1] > 1) {
    begin = index.mul(kernel.block(gpu::Dimension::y), lines);
    end = index.min(index.add(begin, lines), problem.lines);
  }
  Carried zeros(problem.rows,
                math.constant(lanesOf(problem.type, problem.lanes), 0));
  SmallVector<int64_t> outer = {problem.batch};
  outer.append(problem.positions.begin(), problem.positions.end() - 1);
  return index.carry(begin, end, 1, zeros, [&](Value line, ValueRange carried) {
    SmallVector<Value> at = index.delinearize(line, outer);
    Value image = at.front();
    at.erase(at.begin());
    return index.carry(constant(0), constant(problem.positions.back()), 1,
                       carried, [&](Value last, ValueRange sums) {
                         SmallVector<Value> position = at;
                         position.push_back(last);
                         return addAt(image, position, sums);
                       });
  });
}

/// Accumulates one output position, if the window is in bounds.
Carried DirectFilterGradientEmitter::addAt(Value image, ArrayRef<Value> at,
                                           ValueRange sums) {
  ConvFilterGradientOp op = problem.op;
  SmallVector<Value> from;
  Value inside;
  for (size_t d = 0; d < at.size(); ++d) {
    // As unsigned, positions before the image are huge.
    Value place = index.add(index.mul(at[d], op.getStrides()[d]),
                            index.mul(windowPlace[d], op.getDilations()[d]));
    int64_t pad = op.getPadLow()[d];
    place = pad > 0 ? index.sub(place, constant(pad)) : index.add(place, -pad);
    int64_t reach = (problem.positions[d] - 1) * op.getStrides()[d] +
                    (problem.window[d] - 1) * op.getDilations()[d] - pad;
    bool isChecked = pad > 0 || reach >= problem.extents[d];
    // The ones of a bias are everywhere.
    if (isBias && isChecked)
      place = math.select(isBias, constant(0), place);
    from.push_back(place);
    if (!isChecked)
      continue;
    Value isInside = index.less(place, problem.extents[d]);
    inside = inside ? math.bitAnd(inside, isInside) : isInside;
  }

  auto add = [&]() -> Carried {
    Type element = getElementTypeOrSelf(op.getInput());
    Value x =
        emitter.load(input, getElementTypeOrSelf(problem.ops.input),
                     problem.place(image, index.add(groupStart, channel), from),
                     problem.lanes);
    if (problem.ops.narrowed)
      x = emitter.round(x, element);
    if (isBias)
      x = math.select(isBias, math.constant(x.getType(), 1), x);
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
  return index.choose(inside, sums.getTypes(), add,
                      [&] { return Carried(sums); });
}

/// All input channels of a bias item have the same sums.
void DirectFilterGradientEmitter::store(ValueRange sums) {
  for (auto [number, op] : llvm::enumerate(problem.ops.results)) {
    OpBuilder::InsertionGuard guard(builder);
    bool isFilter = op != problem.ops.bias;
    if (isBias)
      kernel.enter(isFilter ? index.less(item, problem.filterItems) : isBias);
    Type element = getElementTypeOrSelf(kernel.kernel.getResultTypes()[number]);
    for (auto [row, sum] : llvm::enumerate(sums))
      for (int64_t lane = 0; lane < (isFilter ? problem.lanes : 1); ++lane) {
        Value value = sum;
        if (problem.lanes > 1)
          value = vector::ExtractOp::create(builder, loc, sum, lane);
        SmallVector<Value> at = {index.add(output, static_cast<int64_t>(row))};
        if (isFilter) {
          at.push_back(index.add(channel, lane));
          llvm::append_range(at, windowPlace);
        }
        emitter.store(emitter.round(value, element), kernel.outputs[number], at,
                      1);
      }
  }
}

/// Stores partial sums; the last-arriving block of the item reduces them.
void DirectFilterGradientEmitter::finishSplit(ValueRange sums) {
  Type i32 = builder.getI32Type();
  int64_t blocks = kernel.schedule.blocks[0],
          splits = kernel.schedule.blocks[1], width = problem.lanes,
          line = blocks * kFilterThreads * problem.rows * width;
  Value counters =
      kernel.named(index.view(kernel.scratch, 0, blocks, i32), "counters");
  Value partial = kernel.named(
      index.view(kernel.scratch, llvm::alignTo(blocks * sizeof(int32_t), 64),
                 splits * line, problem.type),
      "sumsOfBlocks");
  // Threads without an item have a slot as well.
  Value own = index.mul(
      index.add(index.mul(kernel.block(), kFilterThreads), kernel.thread()),
      problem.rows * width);
  Value split = kernel.block(gpu::Dimension::y);
  Value start = index.add(index.mul(split, line), own);
  for (auto [row, sum] : llvm::enumerate(sums))
    emitter.store(sum, partial,
                  index.add(start, static_cast<int64_t>(row) * width), width);

  (void)inLastBlock(kernel, counters, kernel.block(), splits, [&] {
    Carried zeros(problem.rows,
                  math.constant(lanesOf(problem.type, problem.lanes), 0));
    Carried total = index.carry(
        constant(0), constant(splits), 1, zeros,
        [&](Value number, ValueRange carried) {
          Value place = index.add(index.mul(number, line), own);
          Carried next;
          for (auto [row, sum] : llvm::enumerate(carried))
            next.push_back(math.add(
                sum, emitter.load(
                         partial, problem.type,
                         index.add(place, static_cast<int64_t>(row) * width),
                         width)));
          return next;
        });
    if (active)
      kernel.enter(active);
    store(total);
    return success();
  });
}

std::unique_ptr<KernelPlan> cuda::planFilterGradient(func::FuncOp kernel,
                                                     const CudaTarget &target) {
  std::optional<FilterGradientOps> ops = FilterGradientOps::of(kernel);
  return ops ? std::make_unique<FilterGradientPlan>(kernel, target, *ops)
             : nullptr;
}
