//===- SelectGemms.cpp - select cuBLASLt GEMMs ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces launches of kernels that are one GEMM with a library epilogue
// (GemmMatch.cpp) by exe.gemm. Last pass of the Plan stage, for GPUs. The
// library may save other values for a gradient (a bit mask, GELU's input
// instead of its slope); only library calls may then write and read such a
// buffer.
//
//===----------------------------------------------------------------------===//

#include "GemmMatch.h"

#include "mpc/Dialect/Exe/Transforms/Passes.h"
#include "mpc/Runtime/Gemm.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace mpc {
#define GEN_PASS_DEF_SELECTGEMMSPASS
#include "mpc/Dialect/Exe/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Selects and replaces the launches of a module.
class GemmSelector {
public:
  explicit GemmSelector(ModuleOp module) : symbols(module) {}
  /// Returns the number of replaced launches.
  unsigned run(exe::ProgramOp program);

private:
  const GemmMatch *matchOf(exe::LaunchOp launch);
  std::string judge(exe::LaunchOp launch, const GemmMatch &match);
  std::string judgeReaders(exe::LaunchOp writer, const GemmMatch &match);
  std::string judgeWriter(exe::LaunchOp reader, const GemmMatch &match);
  bool readsAsGradient(exe::StepOpInterface step, Attribute kept,
                       exe::ProblemAttr writer);
  static void replace(exe::LaunchOp launch, const GemmMatch &match);

  SymbolTable symbols;
  /// Target of the current program.
  std::optional<TargetInfo> target;
  /// Match result, keyed by kernel.
  llvm::StringMap<std::optional<GemmMatch>> matches;
};
} // namespace

unsigned GemmSelector::run(exe::ProgramOp program) {
  target = program.getTarget().getInfo();
  matches.clear();
  // Decides about all launches before replacing any: saved values are shared.
  SmallVector<exe::LaunchOp> taken;
  for (exe::LaunchOp launch : program.getLaunches()) {
    const GemmMatch *match = matchOf(launch);
    if (!match)
      continue;
    std::string reason =
        match->problem() ? judge(launch, *match) : match->reason();
    if (reason.empty())
      taken.push_back(launch);
    else
      emitRemark(launch.getLoc()) << "kernel '" << launch.getKernel()
                                  << "' is no library call: " << reason;
  }
  for (exe::LaunchOp launch : taken)
    replace(launch, *matchOf(launch));
  return taken.size();
}

/// Returns the match of a contraction kernel; null for other kernels.
const GemmMatch *GemmSelector::matchOf(exe::LaunchOp launch) {
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
  if (!kernel || kernel.isExternal() ||
      launch.getKind() != FusionKind::contraction)
    return nullptr;
  std::optional<GemmMatch> &match = matches[launch.getKernel()];
  if (!match)
    match.emplace(kernel.front(), *target);
  return &*match;
}

/// Returns why a launch with a matched kernel cannot be replaced; "" if it can.
std::string GemmSelector::judge(exe::LaunchOp launch, const GemmMatch &match) {
  if (match.kept() != SavedForGradient::OtherThanLibrary)
    return "";
  return match.problem().getGemm().isGradient() ? judgeWriter(launch, match)
                                                : judgeReaders(launch, match);
}

static bool overlaps(exe::ArenaAttr kept, Attribute buffer) {
  auto range = dyn_cast<exe::ArenaAttr>(buffer);
  return range && range.getOffset() < kept.getOffset() + kept.getBytes() &&
         kept.getOffset() < range.getOffset() + range.getBytes();
}

/// Returns true if `step` is a library gradient whose only use of `kept` is the
/// library's.
bool GemmSelector::readsAsGradient(exe::StepOpInterface step, Attribute kept,
                                   exe::ProblemAttr writer) {
  auto launch = dyn_cast<exe::LaunchOp>(*step);
  const GemmMatch *match = launch ? matchOf(launch) : nullptr;
  exe::ProblemAttr reader = match ? match->problem() : nullptr;
  if (!reader || match->kept() != SavedForGradient::OtherThanLibrary)
    return false;
  GemmProblem to = reader.getGemm(), from = writer.getGemm();
  // Mask rows are padded equally.
  if (!to.isGradient() || to.isRelu() != from.isRelu() ||
      (to.isRelu() && to.n != from.n))
    return false;
  ArrayAttr inputs = launch.getInputs();
  return inputs[match->arguments().back()] == kept &&
         llvm::count_if(inputs, [&](Attribute input) {
           return overlaps(cast<exe::ArenaAttr>(kept), input);
         }) == 1;
}

/// Checks that all readers of the value that `writer` saves are library
/// gradients.
std::string GemmSelector::judgeReaders(exe::LaunchOp writer,
                                       const GemmMatch &match) {
  auto kept = dyn_cast<exe::ArenaAttr>(writer.getOutputs()[match.results()[1]]);
  if (!kept)
    return "the auxiliary output for its gradient is a result";
  for (Operation *op = writer->getNextNode(); op; op = op->getNextNode()) {
    auto step = dyn_cast<exe::StepOpInterface>(op);
    if (!step)
      continue;
    auto isKept = [&](Attribute buffer) { return overlaps(kept, buffer); };
    if (llvm::any_of(step.getInputs(), isKept) &&
        !readsAsGradient(step, kept, match.problem()))
      return "another kernel reads the auxiliary output for its gradient";
    if (llvm::any_of(step.getOutputs(), isKept))
      break;
  }
  return "";
}

/// Checks that a library GEMM writes the value that `reader` reads.
std::string GemmSelector::judgeWriter(exe::LaunchOp reader,
                                      const GemmMatch &match) {
  Attribute kept = reader.getInputs()[match.arguments().back()];
  exe::LaunchOp writer;
  for (Operation *op = reader->getPrevNode(); op && !writer;
       op = op->getPrevNode())
    if (auto step = dyn_cast<exe::StepOpInterface>(op);
        step && llvm::is_contained(step.getOutputs(), kept))
      writer = dyn_cast<exe::LaunchOp>(op);
  const GemmMatch *from = writer ? matchOf(writer) : nullptr;
  if (!from || !from->problem() || !from->problem().getAuxiliary() ||
      from->kept() != SavedForGradient::OtherThanLibrary ||
      writer.getOutputs()[from->results()[1]] != kept ||
      !judgeReaders(writer, *from).empty())
    return match.problem().getGemm().isRelu()
               ? "no library call produces the mask of its select"
               : "no library call stores the factor that it multiplies by";
  return "";
}

void GemmSelector::replace(exe::LaunchOp launch, const GemmMatch &match) {
  OpBuilder builder(launch);
  exe::ProblemAttr problem = match.problem();
  SmallVector<Attribute> inputs, outputs;
  for (int64_t number : match.arguments())
    inputs.push_back(launch.getInputs()[number]);
  for (int64_t number : match.results())
    outputs.push_back(launch.getOutputs()[number]);
  int64_t bytes = launch.getBytes();
  // The bit mask uses the start of the byte mask's buffer.
  GemmProblem forRuntime = problem.getGemm();
  if (match.kept() == SavedForGradient::OtherThanLibrary &&
      forRuntime.isRelu()) {
    Attribute &mask = forRuntime.isGradient() ? inputs.back() : outputs.back();
    auto old = cast<exe::ArenaAttr>(mask);
    std::vector<GemmProblem::Slot> slots = *forRuntime.slots();
    int64_t size = llvm::find_if(slots, [](const GemmProblem::Slot &slot) {
                     return slot.role == GemmProblem::Role::Auxiliary;
                   })->bytes;
    bytes -= old.getBytes() - size;
    mask = exe::ArenaAttr::get(builder.getContext(), old.getOffset(), size);
  }
  StringRef name = launch.getKernel();
  name.consume_front("k_");
  auto gemm = exe::GemmOp::create(
      builder, launch.getLoc(), builder.getStringAttr(name), problem,
      launch.getOpsAttr(), launch.getFlopsAttr(),
      builder.getI64IntegerAttr(bytes), builder.getArrayAttr(inputs),
      builder.getArrayAttr(outputs));
  gemm->setDiscardableAttrs(launch->getDiscardableAttrDictionary());
  launch.erase();
}

/// Erases kernels without a launch.
static void eraseUnused(ModuleOp module) {
  llvm::StringSet<> used;
  module.walk([&](exe::LaunchOp launch) { used.insert(launch.getKernel()); });
  for (auto kernel : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (kernel->hasAttr(MpcDialect::kKernelKindAttr) &&
        !used.contains(kernel.getName()))
      kernel.erase();
}

namespace {
struct SelectGemmsPass : mpc::impl::SelectGemmsPassBase<SelectGemmsPass> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    GemmSelector selector(module);
    for (auto program : module.getOps<exe::ProgramOp>())
      numGemms += selector.run(program);
    eraseUnused(module);
  }
};
} // namespace
