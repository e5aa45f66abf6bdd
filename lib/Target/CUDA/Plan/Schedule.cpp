//===- Schedule.cpp - launch, tiling and body of a kernel -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Schedule.h"

#include "../Emit/KernelAttributes.h"
#include "Target/Kernel/ElementEmitter.h"

#include "mpc/Dialect/Cuda/IR/CudaOps.h"
#include "mpc/Dialect/Exe/IR/ExeDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

//===----------------------------------------------------------------------===//
// Schedule attribute
//===----------------------------------------------------------------------===//

DictionaryAttr Schedule::toAttribute(MLIRContext *context) const {
  Builder b(context);
  NamedAttrList entries;
  entries.set("family", b.getStringAttr(family));
  entries.set("blocks", b.getDenseI64ArrayAttr(blocks));
  entries.set("threads", b.getI64IntegerAttr(threads));
  if (sharedBytes)
    entries.set("shared_bytes", b.getI64IntegerAttr(sharedBytes));
  if (scratchBytes)
    entries.set("scratch_bytes", b.getI64IntegerAttr(scratchBytes));
  if (team)
    entries.set("team", team);
  for (const auto &[name, values] : parameters)
    entries.set(name, values.size() == 1
                          ? Attribute(b.getI64IntegerAttr(values.front()))
                          : b.getDenseI64ArrayAttr(values));
  return entries.getDictionary(context);
}

FailureOr<Schedule> Schedule::of(func::FuncOp kernel) {
  auto entries = kernel->getAttrOfType<DictionaryAttr>(exe::kScheduleAttr);
  if (!entries)
    return kernel.emitError()
           << "kernel '" << kernel.getName() << "' has no "
           << exe::kScheduleAttr << "; run mpc-schedule-kernels first";
  Schedule schedule;
  for (NamedAttribute entry : entries) {
    StringRef name = entry.getName();
    if (auto text = dyn_cast<StringAttr>(entry.getValue());
        text && name == "family") {
      schedule.family = text.str();
    } else if (auto extents = dyn_cast<DenseI64ArrayAttr>(entry.getValue());
               extents && name == "blocks" && extents.size() == 3) {
      llvm::copy(extents.asArrayRef(), schedule.blocks.begin());
    } else if (auto team =
                   dyn_cast<tile::ThreadMappingAttr>(entry.getValue())) {
      schedule.team = team;
    } else if (auto number = dyn_cast<IntegerAttr>(entry.getValue())) {
      if (name == "threads")
        schedule.threads = number.getInt();
      else if (name == "shared_bytes")
        schedule.sharedBytes = number.getInt();
      else if (name == "scratch_bytes")
        schedule.scratchBytes = number.getInt();
      else
        schedule.parameters[name.str()].assign(1, number.getInt());
    } else if (auto numbers = dyn_cast<DenseI64ArrayAttr>(entry.getValue())) {
      schedule.parameters[name.str()].assign(numbers.asArrayRef().begin(),
                                             numbers.asArrayRef().end());
    } else {
      return kernel.emitError() << "kernel '" << kernel.getName() << "' has a "
                                << exe::kScheduleAttr << " whose entry '"
                                << name << "' is " << entry.getValue();
    }
  }
  return schedule;
}

//===----------------------------------------------------------------------===//
// Kernel bodies
//===----------------------------------------------------------------------===//

Value cuda::scratchOf(gpu::GPUFuncOp function) {
  // Static shared arrays follow the arguments.
  unsigned last = function.getFunctionType().getNumInputs() - 1;
  return function->hasAttr(kScratchAttr) ? Value(function.getArgument(last))
                                         : Value();
}

Value GpuBody::thread() {
  return gpu::ThreadIdOp::create(builder, loc, gpu::Dimension::x);
}

Value GpuBody::block(gpu::Dimension dimension) {
  Value block = gpu::BlockIdOp::create(builder, loc, dimension);
  if (firstBlock == 0 || dimension != gpu::Dimension::x)
    return block;
  Value first = arith::ConstantIndexOp::create(builder, loc, firstBlock);
  return arith::SubIOp::create(builder, loc, block, first);
}

Value GpuBody::shared(ArrayRef<int64_t> shape, Type type, StringRef name) {
  auto space = gpu::AddressSpaceAttr::get(builder.getContext(),
                                          gpu::AddressSpace::Workgroup);
  return function.addWorkgroupAttribution(
      MemRefType::get(shape, type, MemRefLayoutAttrInterface(), space),
      NameLoc::get(builder.getStringAttr(name)));
}

Value GpuBody::local(ArrayRef<int64_t> shape, Type type, StringRef name) {
  return memref::AllocaOp::create(builder,
                                  NameLoc::get(builder.getStringAttr(name)),
                                  MemRefType::get(shape, type));
}

void GpuBody::barrier() { gpu::BarrierOp::create(builder, loc); }

void GpuBody::enter(Value condition) {
  auto branch = scf::IfOp::create(builder, loc, condition);
  builder.setInsertionPoint(branch.thenBlock()->getTerminator());
}

void GpuBody::within(Value condition, llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  OpBuilder::InsertionGuard guard(builder);
  enter(condition);
  body();
}

Value GpuBody::orElse(Value condition, Type type,
                      llvm::function_ref<Value()> body,
                      llvm::function_ref<Value()> other) {
  auto zero = [&]() -> Value {
    return arith::ConstantOp::create(builder, loc, type,
                                     builder.getZeroAttr(type));
  };
  return IndexMath{builder, loc}.choose(
      condition, type, [&] { return Carried{body()}; },
      [&] { return Carried{other ? other() : zero()}; })[0];
}

Value GpuBody::named(Value value, StringRef name) {
  value.setLoc(NameLoc::get(builder.getStringAttr(name)));
  return value;
}

TrialCodegen::TrialCodegen(func::FuncOp kernel)
    : builder(kernel.getContext()),
      module(ModuleOp::create(builder.getUnknownLoc())) {
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    types.push_back(memoryType(type));
  for (Type type : kernel.getResultTypes())
    types.push_back(memoryType(type));
  types.append({MemRefType::get({ShapedType::kDynamic}, builder.getI8Type()),
                builder.getIndexType()});
  Location loc = builder.getUnknownLoc();
  builder.setInsertionPointToStart(module->getBody());
  auto function = func::FuncOp::create(
      builder, loc, "trial", FunctionType::get(kernel.getContext(), types, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  builder.setInsertionPoint(func::ReturnOp::create(builder, loc));
  for (BlockArgument argument : entry->getArguments().drop_back(2))
    (argument.getArgNumber() < kernel.getNumArguments() ? memory.inputs
                                                        : memory.outputs)
        .push_back(argument);
  memory.scratch = entry->getArguments().drop_back().back();
  item = entry->getArguments().back();
}

void GpuKernel::bindInputs(ElementEmitter &emitter) const {
  func::FuncOp function = kernel;
  for (auto [argument, memory] : llvm::zip(function.getArguments(), inputs))
    emitter.bindMemory(argument, memory);
}

ElementTarget cuda::cudaElementTarget() {
  ElementTarget target;
  target.lanes = 4;
  target.registers = 32;
  target.has16BitTypes = true;
  target.alignedVectors = true;
  target.privateScratch = false;
  target.call = [](OpBuilder &builder, Location loc, StringRef name,
                   ValueRange arguments) -> Value {
    return cuda::CallOp::create(builder, loc, arguments.front().getType(), name,
                                arguments);
  };
  return target;
}

FailureOr<CudaTarget> cuda::cudaTargetOf(Operation *module) {
  TargetInfo target = exe::targetOf(module);
  if (std::optional<CudaTarget> cuda = CudaTarget::of(target))
    return *cuda;
  return module->emitError()
         << "kernels are generated for cuda:sm_75 and later, not for '"
         << target.name() << "'";
}
