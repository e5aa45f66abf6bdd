//===- FuseLaunches.cpp - horizontal fusion of GPU kernels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of a small model leave most of a GPU idle, and each costs a launch.
// Independent kernels are fused horizontally: they become fusions inside one
// fusion, whose grid concatenates their grids (mpc-split-fused-kernels,
// mpc-merge-fused-kernels). A producer with a single consumer is fused into it
// if it has one block, which each block of the consumer then recomputes.
//
// Runs after the passes that define kernels, so that their grids are known, and
// before mpc-plan, which has to keep the inputs of all of them live.
//
//===----------------------------------------------------------------------===//

#include "FusionKernel.h"
#include "KernelResources.h"

#include "mpc/Analysis/Fusion/FusionPredicates.h"
#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/LaunchGrouping.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Target/CUDA/Passes.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_FUSELAUNCHESPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

/// Maximum look-ahead, in launches; limits the lifetime of results.
static constexpr unsigned kWindow = 16;

/// Maximum kernels, and total buffers, of one launch.
static constexpr size_t kMostKernels = 8, kMostBuffers = 128;

/// Maximum run time of a kernel in a group, as a multiple of the launch cost.
static constexpr double kMostLaunches = 8;

/// Cycles of a producer-consumer barrier between blocks, in total and per
/// producer block; seconds that a small kernel takes besides its launch
/// (PersistentRnnPlan.cpp).
static constexpr double kMeeting = 2100, kMeetingOfBlock = 4,
                        kKernelSeconds = 1e-6;

namespace {

class Launches {
public:
  Launches(func::FuncOp function, const CudaTarget &architecture)
      : function(function), architecture(architecture),
        machine(MultiprocessorModel::of(architecture.target())) {
    Block &block = function.getBody().front();
    for (auto fusion : block.getOps<FusionOp>()) {
      numbers[fusion] = fusions.size();
      fusions.push_back(fusion);
    }
    alone.resize(fusions.size());
    findReads(block);
  }

  /// Fuses independent launches. Returns the number of launches saved.
  int64_t join() {
    auto groups = groupIndependentLaunches(
        ordered, kWindow, [&](ArrayRef<unsigned> group, unsigned next) {
          return fits(group, next);
        });
    if (groups.size() == fusions.size())
      return 0;
    // Reinsert all ops before the terminator, groups in order.
    Operation *terminator = function.getBody().front().getTerminator();
    SmallVector<Operation *> rest;
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isa<FusionOp>(op))
        rest.push_back(&op);
    for (ArrayRef<unsigned> group : groups) {
      for (unsigned number : group)
        for (Value input : fusions[number].getInputs())
          place(input.getDefiningOp(), terminator);
      if (group.size() > 1)
        combine(group, terminator);
      else
        fusions[group.front()]->moveBefore(terminator);
    }
    for (Operation *op : rest)
      place(op, terminator);
    return fusions.size() - groups.size();
  }

  /// Fuses producers into their only consumers. Returns how many.
  int64_t lead() {
    SmallVector<bool> isTaken(fusions.size(), false);
    int64_t count = 0;
    for (unsigned reader = 0; reader < fusions.size(); ++reader)
      for (unsigned maker : ordered[reader].reads) {
        if (isTaken[maker] || isTaken[reader] || !putBefore(maker, reader))
          continue;
        isTaken[maker] = isTaken[reader] = true;
        combine({maker, reader}, fusions[reader]);
        ++count;
      }
    return count;
  }

private:
  /// Returns true if `maker` is to be fused into `reader`, and marks a producer
  /// for which blocks wait.
  bool putBefore(unsigned maker, unsigned reader) {
    if (!ordered[maker].mayRunConcurrently ||
        !ordered[reader].mayRunConcurrently)
      return false;
    for (Value result : fusions[maker].getOutputs())
      for (Operation *user : readersOf(result))
        if (user != fusions[reader])
          return false;
    const KernelResources *first = aloneOf(maker), *second = aloneOf(reader);
    if (!first || !second)
      return false;
    if (canRecompute(*first, *second, secondsOf(fusions[maker])))
      return true;
    if (!mayAwait(*first, *second))
      return false;
    fusions[maker]->setAttr(kAwaitedAttr, UnitAttr::get(function.getContext()));
    return true;
  }

  /// Returns the users of `result`, looking through reshapes.
  static SmallVector<Operation *> readersOf(Value result) {
    SmallVector<Operation *> readers(result.getUsers());
    for (size_t i = 0; i < readers.size();)
      if (auto reshape = dyn_cast<ReshapeOp>(readers[i])) {
        readers.erase(readers.begin() + i);
        llvm::append_range(readers, reshape.getResult().getUsers());
      } else {
        ++i;
      }
    return readers;
  }

  /// Returns true if recomputing `maker` in each block of `reader` costs less
  /// than a launch.
  bool canRecompute(const KernelResources &maker, const KernelResources &reader,
                    double seconds) const {
    return maker.blocks() == 1 && maker.schedule.scratchBytes == 0 &&
           maker.schedule.threads == reader.schedule.threads &&
           runAtOnce(maker, reader) &&
           seconds * double(reader.blocks()) <
               architecture.target().launchSeconds();
  }

  /// Returns true if the blocks of `reader` should run concurrently with those
  /// of `maker`, an attention, and wait for them: saves a launch and a kernel's
  /// start and tail for an atomic per block and some polls of L2.
  bool mayAwait(const KernelResources &maker,
                const KernelResources &reader) const {
    if (maker.schedule.family != "attention")
      return false;
    BlockResources needs;
    needs.add(maker);
    needs.add(reader);
    double meeting =
        (kMeeting + kMeetingOfBlock * double(maker.blocks())) / machine.clock;
    return needs.fit(architecture) &&
           maker.blocks() + reader.blocks() <=
               needs.resident(machine) * machine.multiprocessors &&
           meeting < architecture.target().launchSeconds() + kKernelSeconds;
  }

  /// Returns true if all blocks of `reader` are co-resident when each also runs
  /// blocks of `maker`.
  bool runAtOnce(const KernelResources &maker,
                 const KernelResources &reader) const {
    BlockResources needs;
    needs.add(maker);
    needs.add(reader);
    return needs.fit(architecture) &&
           reader.blocks() <= needs.resident(machine) * machine.multiprocessors;
  }

  void findReads(Block &block) {
    llvm::DenseMap<Operation *, SmallVector<unsigned>> makers;
    for (Operation &op : block.without_terminator()) {
      llvm::SmallSetVector<unsigned, 8> reads;
      for (Value operand : op.getOperands())
        if (Operation *source = operand.getDefiningOp())
          for (unsigned maker : makers.lookup(source))
            reads.insert(maker);
      auto fusion = dyn_cast<FusionOp>(op);
      if (!fusion) {
        makers[&op] = reads.takeVector();
        continue;
      }
      makers[&op] = {numbers.lookup(fusion)};
      ordered.push_back({reads.takeVector(), mayRunConcurrently(fusion)});
    }
  }

  bool mayRunConcurrently(FusionOp fusion) const {
    // Fusion pays for small kernels only, not for updates.
    return fusion.getKind() != FusionKind::update && !replacesArgument(fusion);
  }

  /// Returns true if the fusion computes a result of the function that aliases
  /// an argument: no reader of the old contents may move after it.
  bool replacesArgument(FusionOp fusion) const {
    SmallVector<Value> values(fusion.getOutputs());
    for (size_t i = 0; i < values.size(); ++i)
      for (OpOperand &use : values[i].getUses()) {
        Operation *user = use.getOwner();
        if (user->hasTrait<OpTrait::IsTerminator>() &&
            FunctionOpInterface(function).getResultAttr(use.getOperandNumber(),
                                                        MpcDialect::kAliasAttr))
          return true;
        if (isView(user))
          llvm::append_range(values, user->getResults());
      }
    return false;
  }

  /// Resources of the kernel as a separate launch; null if it cannot be fused.
  const KernelResources *aloneOf(unsigned number) {
    std::optional<std::optional<KernelResources>> &known = alone[number];
    if (!known)
      known.emplace(KernelResources::of(fusions[number], architecture));
    return *known ? &**known : nullptr;
  }

  double secondsOf(FusionOp fusion) const {
    int64_t bytes = 0;
    for (Type type : llvm::concat<const Type>(fusion->getOperandTypes(),
                                              fusion->getResultTypes()))
      bytes += byteCount(type);
    return double(bytes) / architecture.target().bytesPerSecond();
  }

  /// Returns true if one launch is at most as slow as separate ones: all blocks
  /// are co-resident, or as many per kernel as before.
  bool fits(ArrayRef<unsigned> group, unsigned next) {
    if (group.size() == kMostKernels)
      return false;
    SmallVector<unsigned> numbers(group);
    numbers.push_back(next);
    double longest = 0, other = 0;
    size_t buffers = 0;
    for (unsigned number : numbers) {
      FusionOp fusion = fusions[number];
      buffers += fusion->getNumOperands() + fusion->getNumResults();
      double seconds = secondsOf(fusion);
      other = std::max(other, std::min(longest, seconds));
      longest = std::max(longest, seconds);
    }
    if (buffers > kMostBuffers ||
        other > kMostLaunches * architecture.target().launchSeconds())
      return false;
    SmallVector<const KernelResources *> parts;
    BlockResources needs;
    int64_t blocks = 0;
    for (unsigned number : numbers) {
      const KernelResources *part = aloneOf(number);
      if (!part)
        return false;
      parts.push_back(part);
      needs.add(*part);
      blocks += part->blocks();
    }
    // The threads of a block share its registers.
    if (!needs.fit(architecture) ||
        llvm::any_of(parts, [&](const KernelResources *part) {
          return needs.threads >
                 std::max(part->schedule.threads,
                          MultiprocessorModel::kRegisters / part->registers);
        }))
      return false;
    int64_t resident = needs.resident(machine);
    return blocks <= resident * machine.multiprocessors ||
           llvm::all_of(parts, [&](const KernelResources *part) {
             BlockResources own;
             own.add(*part);
             return resident >= own.resident(machine);
           });
  }

  /// Moves `op` and its operands before `terminator`, unless already moved or a
  /// fusion.
  void place(Operation *op, Operation *terminator) {
    if (!op || isa<FusionOp>(op) || !placed.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      place(operand.getDefiningOp(), terminator);
    op->moveBefore(terminator);
  }

  /// Combines a group into one fusion at `place`, including the reshapes
  /// between its members.
  void combine(ArrayRef<unsigned> group, Operation *place) {
    llvm::SmallSetVector<Value, 8> inputs;
    SmallVector<Type> types;
    SmallVector<Value> made;
    SmallVector<Location> locations;
    std::string name;
    for (unsigned number : group) {
      FusionOp fusion = fusions[number];
      for (Value input : fusion.getInputs())
        if (!llvm::is_contained(made, sourceOfReshapes(input)))
          inputs.insert(input);
      llvm::append_range(made, fusion->getResults());
      for (Value result : fusion.getOutputs())
        if (leaves(result, group))
          types.push_back(result.getType());
      locations.push_back(fusion.getLoc());
      name += (name.empty() ? "" : "_") + fusion.getName().str();
    }
    constexpr size_t kLongestName = 60;
    name.resize(std::min(name.size(), kLongestName));
    OpBuilder builder(place);
    Location loc = builder.getFusedLoc(locations);
    auto joint = FusionOp::create(builder, loc, types, inputs.getArrayRef(),
                                  fusions[group.front()].getKindAttr(),
                                  builder.getStringAttr(name));
    Block &body = joint.getBody().emplaceBlock();
    IRMapping mapping;
    for (Value input : inputs)
      mapping.map(input, body.addArgument(input.getType(), input.getLoc()));
    builder.setInsertionPointToEnd(&body);
    SmallVector<Value> results;
    for (unsigned number : group) {
      for (Value input : fusions[number].getInputs())
        shapeInside(input, mapping, builder);
      auto part = cast<FusionOp>(builder.clone(*fusions[number], mapping));
      for (auto [own, result] :
           llvm::zip_equal(fusions[number].getOutputs(), part.getOutputs()))
        if (leaves(own, group))
          results.push_back(result);
    }
    YieldOp::create(builder, loc, results);
    auto next = joint.getOutputs().begin();
    for (unsigned number : group)
      for (Value result : fusions[number].getOutputs())
        if (leaves(result, group))
          result.replaceAllUsesWith(*next++);
    // Erase users before definitions.
    for (unsigned number : llvm::reverse(group)) {
      for (Value result : fusions[number].getOutputs())
        eraseReshapes(result);
      fusions[number].erase();
    }
  }

  /// Clones the reshapes between `value` and a value in `mapping`.
  static void shapeInside(Value value, IRMapping &mapping, OpBuilder &builder) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape || mapping.contains(value))
      return;
    shapeInside(reshape.getInput(), mapping, builder);
    builder.clone(*reshape, mapping);
  }

  static void eraseReshapes(Value value) {
    for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
      eraseReshapes(user->getResult(0));
      user->erase();
    }
  }

  /// Returns true unless all users of the result are in the group.
  bool leaves(Value result, ArrayRef<unsigned> group) const {
    SmallVector<Operation *> readers = readersOf(result);
    return readers.empty() || llvm::any_of(readers, [&](Operation *user) {
             auto found = numbers.find(user);
             return found == numbers.end() ||
                    !llvm::is_contained(group, found->second);
           });
  }

  func::FuncOp function;
  const CudaTarget &architecture;
  MultiprocessorModel machine;
  SmallVector<FusionOp> fusions;
  llvm::DenseMap<Operation *, unsigned> numbers;
  SmallVector<LaunchDependences> ordered;
  std::vector<std::optional<std::optional<KernelResources>>> alone;
  llvm::SmallPtrSet<Operation *, 32> placed;
};

struct FuseLaunchesPass : mpc::impl::FuseLaunchesPassBase<FuseLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto module = function->getParentOfType<ModuleOp>();
    if (function.isExternal() || !function.getBody().hasOneBlock() || !module)
      return markAllAnalysesPreserved();
    // Programs for other targets are planned but never run.
    std::optional<CudaTarget> architecture =
        CudaTarget::of(exe::targetOf(module));
    if (!architecture || !architecture->target().hasCeilings())
      return markAllAnalysesPreserved();
    numJoined += Launches(function, *architecture).join();
    numJoined += Launches(function, *architecture).lead();
  }
};
} // namespace
