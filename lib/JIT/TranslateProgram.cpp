//===- TranslateProgram.cpp - exe.program to a runtime program ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiler.h"
#include "DiskConstantStore.h"

#include "mpc/Dialect/Exe/IR/ExeOps.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcFusionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"

using namespace mlir;
using namespace mpc;

namespace {

/// Builds the runtime program of one exe.program.
class ProgramBuilder {
public:
  ProgramBuilder(ModuleOp module, exe::ProgramOp op) : module(module), op(op) {}

  FailureOr<std::shared_ptr<Program>> build() {
    program->name = op.getSymName().str();
    program->target = op.getTarget().getInfo().name();
    program->arenaBytes = op.getArenaBytes();
    for (exe::ArgumentOp argument : op.getProgramArguments()) {
      places[argument.getSymName()] = {BufferRef::Kind::Argument,
                                       int64_t(program->arguments.size())};
      ProgramValue value = portValue(argument);
      if (auto labels = argument->getAttrOfType<ArrayAttr>("mpc.labels"))
        for (auto label : labels.getAsRange<StringAttr>())
          value.labels.push_back(label.str());
      if (auto shard = argument->getAttrOfType<DenseI64ArrayAttr>(kShardAttr))
        value.shardOf = shard.asArrayRef().vec();
      if (ElementsAttr initial = argument.getInitialAttr()) {
        FailureOr<ConstantBytes> bytes = ConstantBytes::get(initial);
        if (failed(bytes) ||
            int64_t(bytes->bytes().size()) != value.initialType().byteCount())
          return argument.emitError("the initial value of argument '")
                 << value.name << "' has no data";
        value.initial = DiskConstantStore().get(
            constantKey(initial), bytes->bytes().size(),
            [&](MutableArrayRef<char> target) {
              llvm::copy(bytes->bytes(), target.begin());
              return success();
            });
        if (!value.initial)
          return argument.emitError("no memory for the initial value of '")
                 << value.name << "'";
      }
      program->arguments.push_back(std::move(value));
    }
    for (exe::ResultOp result : op.getProgramResults()) {
      places[result.getSymName()] = {BufferRef::Kind::Result,
                                     int64_t(program->results.size())};
      program->results.push_back(portValue(result));
      if (FlatSymbolRefAttr alias = result.getAliasAttr())
        program->results.back().alias = places[alias.getValue()].index;
    }
    for (exe::ConstantOp constant : op.getProgramConstants())
      if (!addIndexChecks(constant) && failed(addConstant(constant)))
        return failure();
    for (exe::ResultOp result : watchedResults(op))
      program->checks.push_back({RunCheck::Kind::FiniteResult, "",
                                 places[result.getSymName()].index, -1,
                                 exemptValues(result)});
    for (exe::StepOpInterface step : op.getSteps())
      if (failed(addStep(step)))
        return failure();
    return program;
  }

private:
  struct Home {
    BufferRef::Kind kind;
    int64_t index;
  };

  template <typename PortOp> static ProgramValue portValue(PortOp port) {
    ProgramValue value;
    value.name = port.getName().str();
    value.type = runtimeType(port.getTensorType());
    if (RoleAttr role = port.getRoleAttr()) {
      value.role = stringifyRoleKind(role.getKind()).str();
      if (role.getField())
        value.field = role.getField().getValue().str();
    }
    return value;
  }

  /// Records the program's index checks if `constant` lists them; returns false
  /// for other constants.
  bool addIndexChecks(exe::ConstantOp constant) {
    auto checks = indexChecksOf(constant.getTensorType());
    if (!checks)
      return false;
    places[constant.getSymName()] = {BufferRef::Kind::Checks,
                                     int64_t(program->checks.size())};
    for (const IndexCheck &check : *checks)
      program->checks.push_back({check.isLength ? RunCheck::Kind::LengthInRange
                                                : RunCheck::Kind::IndexInRange,
                                 check.op.str(), check.extent, check.argument});
    return true;
  }

  LogicalResult addConstant(exe::ConstantOp constant) {
    ElementsAttr value = constant.getValue();
    std::string key = constantKey(value);
    if (key.empty())
      return constant.emitError("constant '")
             << constant.getSymName() << "' has no data";
    auto size = size_t(byteCount(value.getType()));
    std::shared_ptr<const void> data = storedConstant(value);
    if (!data)
      return constant.emitError("no memory for ")
             << size << " bytes of a constant";
    places[constant.getSymName()] = {BufferRef::Kind::Constant,
                                     int64_t(program->constants.size())};
    program->constants.push_back(
        {constant.getSymName().str(), runtimeType(constant.getTensorType()),
         std::move(data), int64_t(size), std::move(key)});
    return success();
  }

  FailureOr<BufferRef> resolve(Operation *launch, Attribute attribute,
                               bool written) {
    BufferRef ref;
    ref.written = written;
    if (auto arena = dyn_cast<exe::ArenaAttr>(attribute)) {
      ref.kind = BufferRef::Kind::Arena;
      ref.offset = arena.getOffset();
      ref.bytes = arena.getBytes();
      return ref;
    }
    auto part = dyn_cast<exe::PartAttr>(attribute);
    auto symbol =
        part ? part.getWhole() : dyn_cast<FlatSymbolRefAttr>(attribute);
    auto found = symbol ? places.find(symbol.getValue()) : places.end();
    if (found == places.end())
      return launch->emitError("buffer ") << attribute << " does not exist";
    ref.kind = found->second.kind;
    ref.index = found->second.index;
    switch (ref.kind) {
    case BufferRef::Kind::Argument:
      ref.bytes = *program->arguments[ref.index].type.byteCount();
      break;
    case BufferRef::Kind::Result:
      ref.bytes = *program->results[ref.index].type.byteCount();
      break;
    case BufferRef::Kind::Constant:
      ref.bytes = program->constants[ref.index].bytes;
      break;
    case BufferRef::Kind::Checks:
      ref.offset = int64_t(sizeof(int64_t)) * ref.index;
      ref.index = 0;
      ref.bytes = program->checkBytes() - ref.offset;
      ref.written = true;
      break;
    case BufferRef::Kind::Arena:
      break;
    }
    if (part) {
      ref.offset = part.getOffset();
      ref.bytes = part.getBytes();
    }
    return ref;
  }

  LogicalResult addStep(exe::StepOpInterface op) {
    Launch launch;
    for (Attribute name : op.getOps())
      launch.ops.push_back(cast<StringAttr>(name).getValue().str());
    launch.flops = op.getFlops();
    launch.bytes = op.getBytes();
    for (auto [list, written] :
         {std::pair(op.getInputs(), false), {op.getOutputs(), true}})
      for (Attribute attribute : list) {
        FailureOr<BufferRef> ref = resolve(op, attribute, written);
        if (failed(ref))
          return failure();
        launch.buffers.push_back(*ref);
      }
    if (auto call = dyn_cast<exe::GemmOp>(*op)) {
      launch.kernel = call.getName().str();
      launch.kind = stringifyFusionKind(FusionKind::library).str();
      launch.gemm = call.getProblem().getGemm();
    } else if (auto message = dyn_cast<exe::CollectiveOp>(*op)) {
      launch.kernel = message.getName().str();
      launch.kind = "collective";
      launch.collective = message.getMessage().getCollective();
    } else {
      auto kernel = cast<exe::LaunchOp>(*op);
      launch.kernel = kernel.getKernel().str();
      launch.kind = kindOf(kernel, launch);
    }
    program->launches.push_back(std::move(launch));
    return success();
  }

  /// Returns the launch's kind in reports: the fusion's, or "copy" and
  /// "input_cast" for kernels without computation.
  std::string kindOf(exe::LaunchOp op, const Launch &launch) {
    std::string kind = stringifyFusionKind(op.getKind()).str();
    auto kernel = symbols.lookup<func::FuncOp>(op.getKernel());
    if (!kernel || kernel.isExternal())
      return kind;
    bool onlyMoves = true, onlyViews = true;
    kernel.walk([&](Operation *inner) {
      if (isa<func::FuncOp, func::ReturnOp, ConstantOp, FusionOp, YieldOp,
              ReshapeOp>(inner))
        return;
      onlyViews = false;
      onlyMoves &= isa<CastOp, TransposeOp, PadOp>(inner);
    });
    if (onlyViews)
      return "copy";
    bool onlyInputs = llvm::all_of(launch.buffers, [&](const BufferRef &ref) {
      return ref.written ||
             (ref.kind == BufferRef::Kind::Argument &&
              program->arguments[ref.index].type.element == ElementType::F32);
    });
    return onlyMoves && onlyInputs ? "input_cast" : kind;
  }

  ModuleOp module;
  SymbolTable symbols{module};
  exe::ProgramOp op;
  std::shared_ptr<Program> program = std::make_shared<Program>();
  llvm::StringMap<Home> places;
};

} // namespace

FailureOr<std::shared_ptr<Program>> mpc::translateProgram(ModuleOp module) {
  auto programs = module.getOps<exe::ProgramOp>();
  if (programs.empty()) {
    emitError(module.getLoc(),
              "the module has no exe.program; run the stages up to plan");
    return failure();
  }
  return ProgramBuilder(module, *programs.begin()).build();
}
