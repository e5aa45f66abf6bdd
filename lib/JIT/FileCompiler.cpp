//===- FileCompiler.cpp - compilation to an executable file ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FileCompiler.h"

#include "mpc/Analysis/IndexBounds.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Reference/Compare.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Path.h"

#include <algorithm>

using namespace mlir;
using namespace mpc;

/// Records rounding facts of the graph after stage precision, for tolerances.
static void describeRounding(func::FuncOp entry,
                             container::StoredSpecialisation &contents) {
  llvm::DenseMap<Value, int64_t> depth;
  entry.walk([&](Operation *op) {
    int64_t longest = 0;
    for (Value operand : op->getOperands())
      longest = std::max(longest, depth.lookup(operand));
    for (Value result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type)
        continue;
      depth[result] = isa<ConstantOp>(op) ? 0 : longest + 1;
      mpc::TensorType stored = runtimeType(type);
      if (isFloat(stored.element) &&
          elementBytes(stored.element) <= elementBytes(contents.narrowest)) {
        // Of two types of equal size, the one with the shorter significand.
        bool coarser =
            stored.element == ElementType::BF16 ||
            elementBytes(stored.element) < elementBytes(contents.narrowest);
        if (coarser)
          contents.narrowest = stored.element;
      }
    }
    contents.longestChain = std::max(contents.longestChain, longest);
  });
}

FileCompiler::FileCompiler(const ModelSource &model,
                           const CompileOptions &options, bool manyTargets,
                           std::shared_ptr<ConstantStore> store)
    : model(model), options(options), dims(options.dims),
      dumpDir(options.dumpDir), manyTargets(manyTargets),
      store(std::move(store)) {
  contents.model = llvm::sys::path::filename(model.name()).str();
  contents.policy = llvm::sys::path::filename(options.policy).str();
  contents.compiler = "mpc " MPC_VERSION ", LLVM " LLVM_VERSION_STRING;
  contents.specialisations.emplace_back().dims = dims;
}

void FileCompiler::specialise(const std::map<std::string, int64_t> &extents) {
  options.dims = dims;
  for (const auto &[name, extent] : extents)
    options.dims[name] = extent;
  if (!current().programs.empty())
    contents.specialisations.emplace_back();
  current().dims = options.dims;
}

void FileCompiler::describeAccumulation() {
  for (BlockArgument argument : entry().getArguments())
    bounds.push_back(indexBound(argument).value_or(0));
  current().longestReduction = std::max(current().longestReduction,
                                        reference::longestReduction(entry()));
}

Status FileCompiler::import(const TargetInfo &target) {
  options.target = target.name();
  if (manyTargets && !dumpDir.empty())
    options.dumpDir = dumpDir + "/" + target.member().str();
  module = {};
  bounds.clear();
  Result<std::unique_ptr<Compiler>> made = Compiler::create(options);
  if (!made.ok())
    return made.status();
  compiler = std::move(*made);
  if (store)
    compiler->setStore(store);
  Result<Compiler::Module> read = compiler->import(model);
  if (!read.ok())
    return read.status();
  module = std::move(*read);
  return {};
}

Status FileCompiler::plan() {
  if (!options.training)
    describeAccumulation();
  if (Status status = compiler->runStages(*module, "import", "precision");
      !status.ok())
    return status;
  // Labels and gradients are not part of the model.
  if (options.training)
    describeAccumulation();
  describeRounding(entry(), current());
  return compiler->runStages(*module, "precision", "plan");
}

Result<std::shared_ptr<Program>> FileCompiler::generate(bool withCode) {
  Result<std::shared_ptr<Program>> program =
      compiler->generate(*module, withCode);
  if (program.ok()) {
    contents.name = (*program)->name;
    for (auto [value, bound] : llvm::zip((*program)->arguments, bounds))
      value.integerBound = bound;
    current().arguments = (*program)->arguments;
    current().results = (*program)->results;
  }
  return program;
}

Status FileCompiler::finish() {
  if (Status status = plan(); !status.ok())
    return status;
  Result<std::shared_ptr<Program>> program = generate(/*withCode=*/false);
  if (!program.ok())
    return program.status();
  Result<std::vector<std::byte>> object =
      compiler->generateFile(*module, **program);
  if (!object.ok())
    return object.status();

  (*program)->target = options.target;
  code.push_back(std::move(*object));
  current().programs.push_back({std::move(**program), {}});
  return {};
}

Result<std::shared_ptr<Program>> FileCompiler::finalizeInMemory(bool withCode) {
  if (Status status = plan(); !status.ok())
    return status;
  return generate(withCode);
}

Status FileCompiler::add(const TargetInfo &target) {
  Status status = import(target);
  return status.ok() ? finish() : status;
}

Result<std::vector<std::byte>> FileCompiler::encode(bool refersToWeights) {
  size_t next = 0;
  for (container::StoredSpecialisation &specialisation :
       contents.specialisations)
    for (container::StoredProgram &stored : specialisation.programs)
      stored.code = code[next++];
  // Weights that are not stored, or were evicted meanwhile, become part of the
  // file.
  if (refersToWeights)
    for (container::StoredSpecialisation &specialisation :
         contents.specialisations)
      for (container::StoredProgram &stored : specialisation.programs)
        for (ProgramConstant &constant : stored.program.constants)
          if (!store || !store->persists(constant.key, size_t(constant.bytes)))
            constant.key.clear();
  return container::encode(contents, refersToWeights);
}
