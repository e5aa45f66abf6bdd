//===- Fusibility.cpp - what the fuser will do ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Fusibility.h"

#include "mpc/Dialect/Mpc/IR/MpcTrainingOps.h"

#include <set>

using namespace mlir;
using namespace mpc;

/// The op's family; ops that the fuser does not know have a kernel of their
/// own.
static FusionClass classOf(Operation *op) {
  return op ? fusionClassOf(op) : FusionClass::Opaque;
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
    SmallVector<Node> inputs;
    for (Value operand : op.getOperands())
      if (std::optional<Node> source = kernelOf(operand.getDefiningOp()))
        inputs.push_back(*source);
    ops.push_back(&op);
    nodes[&op] = dag.addNode(inputs);
    kernels.push_back(
        {isa<ElementwiseOpInterface>(op) ? nullptr : &op, resultShape(&op)});
  }
  auto eachAnchor = [&](ArrayRef<FusionClass> classes, auto grow) {
    for (Operation *op : ops)
      if (kernels[*kernelOf(op)].anchor == op &&
          llvm::is_contained(classes, classOf(op)))
        grow(op);
  };
  eachAnchor({FusionClass::Contraction, FusionClass::Convolution,
              FusionClass::Attention, FusionClass::Pool},
             [&](Operation *anchor) { growEpilogue(anchor); });
  eachAnchor({FusionClass::RowWise, FusionClass::Reduction},
             [&](Operation *anchor) {
               growPrologue(anchor);
               growEpilogue(anchor);
             });
  for (Operation *op : ops)
    joinLoops(op);
}

std::optional<ContractedDag::Node>
KernelPrediction::kernelOf(Operation *op) const {
  auto entry = nodes.find(op);
  if (entry == nodes.end())
    return std::nullopt;
  return dag.find(entry->second);
}

bool KernelPrediction::isFree(Operation *op) const {
  std::optional<Node> kernel = kernelOf(op);
  return kernel && !kernels[*kernel].anchor;
}

bool KernelPrediction::isReadOnlyBy(Operation *op, Node kernel) const {
  return llvm::all_of(op->getUsers(), [&](Operation *user) {
    return kernelOf(user) == kernel;
  });
}

bool KernelPrediction::merge(Node into, Node from) {
  Kernel kernel = kernels[into];
  if (!dag.merge(into, from))
    return false;
  kernels[dag.find(into)] = kernel;
  return true;
}

/// Takes ops in block order. What reads one stands behind it, so that readers
/// of the ops that were taken are all that is left to look at.
void KernelPrediction::growEpilogue(Operation *anchor) {
  // Its product is rearranged on the way out.
  if (isa<ConvTransposeOp>(anchor))
    return;
  std::set<Node> pending;
  auto addReaders = [&](Operation *op) {
    for (Operation *user : op->getUsers())
      if (auto entry = nodes.find(user); entry != nodes.end())
        pending.insert(entry->second);
  };
  if (Operation *producer = prologues.lookup(anchor))
    addReaders(producer);
  addReaders(anchor);
  while (!pending.empty()) {
    Node next = *pending.begin();
    pending.erase(pending.begin());
    Operation *op = ops[next];
    Node kernel = *kernelOf(anchor);
    if (isFree(op) && kernelOf(op) != kernel && dag.sizeOf(next) == 1 &&
        resultShape(op) == kernels[kernel].shape && merge(kernel, next))
      addReaders(op);
  }
}

/// Takes what makes the anchor's input. More than that one op is left to the
/// loop that it ends in, as what the fuser takes depends on costs.
void KernelPrediction::growPrologue(Operation *anchor) {
  Node kernel = *kernelOf(anchor);
  ArrayRef<int64_t> shape =
      cast<ShapedType>(anchor->getOperand(0).getType()).getShape();
  bool mayYield =
      shape == kernels[kernel].shape && classOf(anchor) == FusionClass::RowWise;
  Operation *producer = anchor->getOperand(0).getDefiningOp();
  if (!isFree(producer) || dag.sizeOf(*kernelOf(producer)) != 1 ||
      resultShape(producer) != shape ||
      !(mayYield || isReadOnlyBy(producer, kernel)))
    return;
  if (merge(kernel, *kernelOf(producer)))
    prologues[anchor] = producer;
}

/// Joins an op with one loop that it reads: kernels of several ops take nothing
/// more of what they read.
void KernelPrediction::joinLoops(Operation *op) {
  if (!isFree(op))
    return;
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    Node kernel = *kernelOf(op);
    if (dag.sizeOf(kernel) != 1)
      return;
    if (isFree(producer) &&
        kernels[*kernelOf(producer)].shape == kernels[kernel].shape)
      merge(kernel, *kernelOf(producer));
  }
}

bool KernelPrediction::shareKernel(Operation *a, Operation *b) const {
  std::optional<Node> kernel = kernelOf(a);
  return kernel && kernel == kernelOf(b);
}

const void *KernelPrediction::kernelId(Operation *op) const {
  std::optional<Node> kernel = kernelOf(op);
  return kernel ? &kernels[*kernel] : nullptr;
}

bool KernelPrediction::isInternal(Value value) const {
  Operation *producer = value.getDefiningOp();
  if (!producer || value.use_empty())
    return false;
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return shareKernel(producer, user);
  });
}
