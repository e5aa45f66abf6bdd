//===- JoinLaunches.cpp - kernels side by side in one launch --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of a small model leave most of a GPU idle, and each costs a launch.
// Those that do not wait for each other become fusions inside one fusion, whose
// blocks are theirs side by side (mpc-part-kernels, mpc-merge-parts). A kernel
// of one block that one other kernel alone waits for leads that: every block of
// the other computes it for itself.
//
// After all that decides what a kernel is, so that their grids are known;
// before mpc-plan, which has to keep alive what all of them read.
//
//===----------------------------------------------------------------------===//

#include "CudaMachine.h"
#include "FusionKernel.h"
#include "Schedules/Schedule.h"

#include "mpc/Analysis/Fusion/Views.h"
#include "mpc/Analysis/SideBySide.h"
#include "mpc/Dialect/Mpc/IR/MpcOps.h"
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
#define GEN_PASS_DEF_JOINLAUNCHESPASS
#include "mpc/Target/CUDA/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// How far ahead of its place a kernel may run: what it makes is in memory from
/// then on.
static constexpr unsigned kWindow = 16;

/// Kernels of one launch, and buffers that these take together.
static constexpr size_t kMostKernels = 8, kMostBuffers = 128;

/// Beside kernels that take this many times as long as a launch, none is worth
/// the attempt.
static constexpr double kMostLaunches = 8;

/// Registers of a thread, whose code is not there yet: a product's sums and
/// fragments beside its addresses, what other kernels take at most.
static constexpr int64_t kAddressRegisters = 56, kRegistersOfSum = 2,
                         kOtherRegisters = 128;

namespace {

/// How one kernel would run by itself.
struct Alone {
  Schedule schedule;
  int64_t registers = kOtherRegisters;
};

class Launches {
public:
  Launches(func::FuncOp function, const CudaTarget &architecture)
      : function(function), architecture(architecture),
        machine(CudaMachine::of(architecture.target())) {
    Block &block = function.getBody().front();
    for (auto fusion : block.getOps<FusionOp>()) {
      numbers[fusion] = fusions.size();
      fusions.push_back(fusion);
    }
    alone.resize(fusions.size());
    findReads(block);
  }

  /// Returns how many launches there are fewer.
  int64_t join() {
    auto groups = launchesSideBySide(
        ordered, kWindow, [&](ArrayRef<unsigned> group, unsigned next) {
          return fits(group, next);
        });
    if (groups.size() == fusions.size())
      return 0;
    // Everything stands anew behind the last op, groups in their order.
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

  /// Puts kernels of one block into their only readers. Returns how many.
  int64_t lead() {
    SmallVector<bool> isTaken(fusions.size(), false);
    int64_t count = 0;
    for (unsigned reader = 0; reader < fusions.size(); ++reader)
      for (unsigned maker : ordered[reader].reads) {
        if (isTaken[maker] || isTaken[reader] || !mayLead(maker, reader))
          continue;
        isTaken[maker] = isTaken[reader] = true;
        combine({maker, reader}, fusions[reader]);
        ++count;
      }
    return count;
  }

private:
  /// Whether the blocks of `reader` may compute `maker` each for itself, for
  /// less than a launch costs.
  bool mayLead(unsigned maker, unsigned reader) {
    if (!ordered[maker].mayJoin || !ordered[reader].mayJoin)
      return false;
    for (Value result : fusions[maker].getOutputs())
      for (Operation *user : result.getUsers())
        if (user != fusions[reader])
          return false;
    const Alone *first = aloneOf(maker), *second = aloneOf(reader);
    if (!first || !second || blocksOf(*first) != 1 ||
        first->schedule.scratchBytes != 0 ||
        first->schedule.threads != second->schedule.threads)
      return false;
    int64_t threads = first->schedule.threads, blocks = blocksOf(*second),
            shared = std::max(first->schedule.sharedBytes,
                              second->schedule.sharedBytes),
            registers = std::max(first->registers, second->registers);
    // A wave of blocks computes it once, at the same time.
    return shared + CudaTarget::kPlainSharedBytes <=
               architecture.sharedBytesPerBlock() &&
           blocks <= residentBlocks(threads, registers, shared) *
                         machine.multiprocessors &&
           secondsOf(fusions[maker]) * double(blocks) <
               architecture.target().launchSeconds();
  }

  static int64_t blocksOf(const Alone &part) {
    return part.schedule.blocks[0] * part.schedule.blocks[1] *
           part.schedule.blocks[2];
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
      ordered.push_back({reads.takeVector(), mayJoin(fusion)});
    }
  }

  bool mayJoin(FusionOp fusion) const {
    // Small programs' kernels are what this is for.
    return fusion.getKind() != FusionKind::update && !replacesArgument(fusion);
  }

  /// Whether a result of the function that lies over an argument is made here:
  /// no kernel that reads the old contents may come to stand behind it.
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

  /// How the kernel runs by itself; null where it has to.
  const Alone *aloneOf(unsigned number) {
    std::optional<std::optional<Alone>> &known = alone[number];
    if (!known)
      known = makeAlone(fusions[number]);
    return *known ? &**known : nullptr;
  }

  std::optional<Alone> makeAlone(FusionOp fusion) {
    // A kernel of that body, in a module that tells the target.
    auto parent = function->getParentOfType<ModuleOp>();
    OpBuilder builder(function.getContext());
    OwningOpRef<ModuleOp> module = ModuleOp::create(fusion.getLoc());
    (*module)->setDiscardableAttrs(parent->getDiscardableAttrDictionary());
    builder.setInsertionPointToEnd(module->getBody());
    func::FuncOp kernel = kernelOf(fusion, "alone", builder);
    for (const auto &family : kernelFamilies()) {
      std::optional<Schedule> schedule = family->schedule(kernel, architecture);
      if (!schedule)
        continue;
      schedule->family = family->name().str();
      // Blocks that wait for each other need the machine, and so do updates.
      if (schedule->isCooperative() || family->name() == "update" ||
          family->name() == "check" || schedule->threads % 32 != 0)
        return std::nullopt;
      return Alone{*schedule, registersOf(fusion.getKind(), *schedule)};
    }
    return std::nullopt;
  }

  static int64_t registersOf(FusionKind kind, const Schedule &schedule) {
    if (kind == FusionKind::attention)
      return CudaMachine::kThreadRegisters;
    auto rows = schedule.parameters.find("tile_m");
    auto columns = schedule.parameters.find("tile_n");
    if (rows == schedule.parameters.end() ||
        columns == schedule.parameters.end())
      return kOtherRegisters;
    int64_t sums = rows->second * columns->second / schedule.threads;
    return std::min(kAddressRegisters + kRegistersOfSum * sums,
                    CudaMachine::kThreadRegisters);
  }

  double secondsOf(FusionOp fusion) const {
    int64_t bytes = 0;
    for (Type type : llvm::concat<const Type>(fusion->getOperandTypes(),
                                              fusion->getResultTypes()))
      bytes += byteCount(type);
    return double(bytes) / architecture.target().bytesPerSecond();
  }

  /// Blocks that a multiprocessor has at once.
  int64_t residentBlocks(int64_t threads, int64_t registers,
                         int64_t shared) const {
    registers = std::min(registers, CudaMachine::kRegisters / threads);
    return machine.residentBlocks(threads, registers, shared);
  }

  /// Whether one launch of all takes no longer than one after another: all
  /// blocks run at once, or as many of each kernel as before.
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
    SmallVector<const Alone *> parts;
    int64_t threads = 0, shared = 0, registers = 0, blocks = 0;
    for (unsigned number : numbers) {
      const Alone *part = aloneOf(number);
      if (!part)
        return false;
      parts.push_back(part);
      threads = std::max(threads, part->schedule.threads);
      shared = std::max(shared, part->schedule.sharedBytes);
      registers = std::max(registers, part->registers);
      blocks += blocksOf(*part);
    }
    // Static arrays become parts of the dynamic memory.
    if (shared + CudaTarget::kPlainSharedBytes >
        architecture.sharedBytesPerBlock())
      return false;
    // Of a block's registers each thread has its share.
    if (llvm::any_of(parts, [&](const Alone *part) {
          return threads > std::max(part->schedule.threads,
                                    CudaMachine::kRegisters / part->registers);
        }))
      return false;
    int64_t resident = residentBlocks(threads, registers, shared);
    return blocks <= resident * machine.multiprocessors ||
           llvm::all_of(parts, [&](const Alone *part) {
             return resident >= residentBlocks(part->schedule.threads,
                                               part->registers,
                                               part->schedule.sharedBytes);
           });
  }

  /// Moves `op`, and before it what it reads, in front of `terminator` unless
  /// it is there already or is a kernel.
  void place(Operation *op, Operation *terminator) {
    if (!op || isa<FusionOp>(op) || !placed.insert(op).second)
      return;
    for (Value operand : op->getOperands())
      place(operand.getDefiningOp(), terminator);
    op->moveBefore(terminator);
  }

  /// Makes one fusion of a group's in front of `place`.
  void combine(ArrayRef<unsigned> group, Operation *place) {
    llvm::SmallSetVector<Value, 8> inputs;
    SmallVector<Type> types;
    SmallVector<Value> made;
    SmallVector<Location> locations;
    std::string name;
    for (unsigned number : group) {
      FusionOp fusion = fusions[number];
      for (Value input : fusion.getInputs())
        if (!llvm::is_contained(made, input))
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
    // Readers before what they read.
    for (unsigned number : llvm::reverse(group))
      fusions[number].erase();
  }

  /// Whether the result is not one that the group's own kernels alone read.
  bool leaves(Value result, ArrayRef<unsigned> group) const {
    return result.use_empty() ||
           llvm::any_of(result.getUsers(), [&](Operation *user) {
             auto found = numbers.find(user);
             return found == numbers.end() ||
                    !llvm::is_contained(group, found->second);
           });
  }

  func::FuncOp function;
  const CudaTarget &architecture;
  CudaMachine machine;
  SmallVector<FusionOp> fusions;
  llvm::DenseMap<Operation *, unsigned> numbers;
  SmallVector<OrderedLaunch> ordered;
  std::vector<std::optional<std::optional<Alone>>> alone;
  llvm::SmallPtrSet<Operation *, 32> placed;
};

struct JoinLaunchesPass : mpc::impl::JoinLaunchesPassBase<JoinLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    auto module = function->getParentOfType<ModuleOp>();
    if (function.isExternal() || !function.getBody().hasOneBlock() || !module)
      return markAllAnalysesPreserved();
    // Programs for other targets are planned and never run.
    std::optional<CudaTarget> architecture =
        CudaTarget::of(exe::targetOf(module));
    if (!architecture || !architecture->target().hasCeilings())
      return markAllAnalysesPreserved();
    numJoined += Launches(function, *architecture).join();
    numJoined += Launches(function, *architecture).lead();
  }
};
} // namespace
