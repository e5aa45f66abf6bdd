//===- Fusibility.cpp - what the fuser will do ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusibility.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

std::optional<FusionTarget> FusionTarget::parse(StringRef name) {
  auto [kind, level] = name.split(':');
  if (kind == "cuda") {
    // Kernels for tensor cores copy 16-bit tiles as they lie, too.
    StringRef digits = level;
    if (!digits.consume_front("sm_"))
      return std::nullopt;
    digits = digits.drop_while([](char c) { return llvm::isDigit(c); });
    bool known = level.size() > 3 && llvm::isDigit(level[3]) &&
                 (digits.empty() || digits == "a" || digits == "f");
    if (!known)
      return std::nullopt;
    unsigned version = 0;
    level.drop_front(3).consumeInteger(10, version);
    FusionTarget target;
    target.roundsToTensorFloat32 = version >= 80;
    target.permitsBFloat16Terms = true;
    return target;
  }
  if (kind != "cpu")
    return std::nullopt;
  if (!level.empty() && level != "native" && level != "avx2" &&
      level != "avx512")
    return std::nullopt;
  return FusionTarget();
}

/// The op's family; ops that the fuser does not know have a kernel of their
/// own.
static FusionClass classOf(Operation *op) {
  auto fusible = dyn_cast_if_present<FusionOpInterface>(op);
  return fusible ? fusible.getFusionClass() : FusionClass::Opaque;
}

//===----------------------------------------------------------------------===//
// Casts
//===----------------------------------------------------------------------===//

bool mpc::absorbsCast(Operation *op, unsigned index,
                      const FusionTarget &target) {
  switch (classOf(op)) {
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
  case FusionClass::Reduction:
  case FusionClass::RowWise:
  case FusionClass::Pool:
    return true;
  case FusionClass::Contraction:
  case FusionClass::Convolution:
  case FusionClass::Attention: {
    // Only the multiplied operands are streamed through the micro-kernel; a
    // mask is loaded element by element.
    auto precision = dyn_cast<PrecisionOpInterface>(op);
    bool streamed = !precision || precision.isPrecisionOperand(index);
    return !streamed || target.narrowsContractionOperands;
  }
  case FusionClass::Constant:
  case FusionClass::Source:
  case FusionClass::View:
  case FusionClass::Scan:
  case FusionClass::Recurrent:
  case FusionClass::Opaque:
    return false;
  }
  return false;
}

bool mpc::absorbsResultCast(Operation *op, const FusionTarget &target) {
  // Partial sums of a filter's gradient meet in memory, in f32.
  if (isa<ConvFilterGradientOp>(op))
    return false;
  switch (classOf(op)) {
  case FusionClass::Source:
  case FusionClass::Elementwise:
  case FusionClass::IndexMap:
  case FusionClass::Gather:
  case FusionClass::Reduction:
  case FusionClass::RowWise:
  case FusionClass::Pool:
  case FusionClass::Contraction:
  case FusionClass::Convolution:
  case FusionClass::Attention:
    return true;
  case FusionClass::Constant:
  case FusionClass::View:
  case FusionClass::Scan:
  case FusionClass::Recurrent:
  case FusionClass::Opaque:
    return false;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// KernelPrediction
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> resultShape(Operation *op) {
  return cast<ShapedType>(op->getResult(0).getType()).getShape();
}

KernelPrediction::KernelPrediction(func::FuncOp func) {
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (op.getNumResults() == 0 || classOf(&op) == FusionClass::Constant)
      continue;
    ops.push_back(&op);
    kernels.push_back(std::make_unique<Kernel>());
    Kernel *kernel = kernels.back().get();
    kernel->ops.push_back(&op);
    kernel->shape = resultShape(&op);
    if (!isa<ElementwiseOpInterface>(op))
      kernel->anchor = &op;
    members[&op] = kernel;
  }
  auto eachAnchor = [&](ArrayRef<FusionClass> classes, auto grow) {
    for (Operation *op : ops)
      if (kernelOf(op)->anchor == op &&
          llvm::is_contained(classes, classOf(op)))
        grow(kernelOf(op));
  };
  eachAnchor({FusionClass::Contraction, FusionClass::Convolution,
              FusionClass::Attention, FusionClass::Pool},
             [&](Kernel *kernel) { growEpilogue(kernel); });
  eachAnchor({FusionClass::RowWise, FusionClass::Reduction},
             [&](Kernel *kernel) {
               growPrologue(kernel);
               growEpilogue(kernel);
             });
  for (Operation *op : ops)
    joinLoops(op);
}

KernelPrediction::Kernel *KernelPrediction::kernelOf(Operation *op) const {
  return op ? members.lookup(op) : nullptr;
}

bool KernelPrediction::isFree(Operation *op) const {
  Kernel *kernel = kernelOf(op);
  return kernel && !kernel->anchor;
}

bool KernelPrediction::isReadOnlyBy(Operation *op, Kernel *kernel) const {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return kernelOf(user) == kernel;
  });
}

bool KernelPrediction::dependsOn(ArrayRef<Operation *> roots,
                                 Kernel *kernel) const {
  llvm::SmallPtrSet<Kernel *, 16> seen;
  SmallVector<Operation *> pending(roots);
  for (size_t next = 0; next < pending.size(); ++next) {
    bool isRoot = next < roots.size();
    for (Value operand : pending[next]->getOperands()) {
      Kernel *source = kernelOf(operand.getDefiningOp());
      if (!source)
        continue;
      if (source == kernel) {
        // Reading the kernel at once is what merging removes.
        if (isRoot)
          continue;
        return true;
      }
      if (seen.insert(source).second)
        llvm::append_range(pending, source->ops);
    }
  }
  return false;
}

bool KernelPrediction::merge(Kernel *into, Kernel *from) {
  if (dependsOn(from->ops, into) || dependsOn(into->ops, from))
    return false;
  for (Operation *op : from->ops)
    members[op] = into;
  llvm::append_range(into->ops, from->ops);
  from->ops.clear();
  return true;
}

void KernelPrediction::growEpilogue(Kernel *kernel) {
  // Its product is rearranged on the way out.
  if (isa<ConvTransposeOp>(kernel->anchor))
    return;
  for (Operation *op : ops) {
    Kernel *reader = kernelOf(op);
    if (!isFree(op) || reader == kernel || reader->ops.size() != 1 ||
        resultShape(op) != kernel->shape)
      continue;
    bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
      return kernelOf(operand.getDefiningOp()) == kernel;
    });
    if (reads)
      merge(kernel, reader);
  }
}

void KernelPrediction::growPrologue(Kernel *kernel) {
  Operation *anchor = kernel->anchor;
  ArrayRef<int64_t> shape =
      cast<ShapedType>(anchor->getOperand(0).getType()).getShape();
  bool mayYield =
      shape == kernel->shape && classOf(anchor) == FusionClass::RowWise;
  SmallVector<Value> pending = {anchor->getOperand(0)};
  while (!pending.empty()) {
    Operation *producer = pending.pop_back_val().getDefiningOp();
    Kernel *source = kernelOf(producer);
    if (!isFree(producer) || source->ops.size() != 1 ||
        resultShape(producer) != shape ||
        !(mayYield || isReadOnlyBy(producer, kernel)))
      continue;
    if (merge(kernel, source))
      llvm::append_range(pending, producer->getOperands());
  }
}

void KernelPrediction::joinLoops(Operation *op) {
  if (!isFree(op))
    return;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    Kernel *kernel = kernelOf(op), *source = kernelOf(producer);
    if (isFree(producer) && source != kernel && source->shape == kernel->shape)
      merge(kernel, source);
  }
}

bool KernelPrediction::shareKernel(Operation *a, Operation *b) const {
  Kernel *kernel = kernelOf(a);
  return kernel && kernel == kernelOf(b);
}

const void *KernelPrediction::kernelId(Operation *op) const {
  return kernelOf(op);
}

bool KernelPrediction::isInternal(Value value) const {
  Operation *producer = value.getDefiningOp();
  if (!producer || value.use_empty())
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return shareKernel(producer, user);
  });
}
