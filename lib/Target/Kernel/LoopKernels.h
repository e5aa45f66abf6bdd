//===- LoopKernels.h - parts of loop kernels --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How last dimensions are cut into vectors, loops with carried values,
// reductions, and the state that the phases of one kernel share.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H
#define MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H

#include "ElementEmitter.h"
#include "IndexMath.h"
#include "KernelForm.h"
#include "MathExpansion.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"

namespace mpc {

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType()).getShape();
}

/// Whether integers of an element type have no sign.
inline bool isUnsignedElement(mlir::Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

//===----------------------------------------------------------------------===//
// Vectors along a last dimension
//===----------------------------------------------------------------------===//

/// A part of a last dimension and the vector width that it is walked in.
struct LaneSegment {
  LaneRange range;
  int64_t lanes = 1;
};

/// Cuts a last dimension of `extent` so that every vector of all `tensors` is
/// contiguous. Vectors are as wide as the types and the cost of computing
/// allow.
llvm::SmallVector<LaneSegment> planLanes(ElementEmitter &emitter,
                                         llvm::ArrayRef<mlir::Value> tensors,
                                         int64_t extent);

//===----------------------------------------------------------------------===//
// Loops with carried values
//===----------------------------------------------------------------------===//

using Carried = llvm::SmallVector<mlir::Value, 4>;

/// for (iv = begin; iv < end; iv += step): `body(iv, carried)` gives the next
/// carried values. Known single iterations become straight code.
mlir::FailureOr<Carried> carryLoop(
    ElementEmitter &emitter, mlir::Value begin, mlir::Value end, int64_t step,
    mlir::ValueRange initial,
    llvm::function_ref<mlir::FailureOr<Carried>(mlir::Value, mlir::ValueRange)>
        body);

/// The lengths of the parts in which a sum of `steps` terms is added up, each a
/// multiple of the next: parts of parts; none where the terms are few. No
/// accumulator takes many terms, the last one, whose roundings are not averaged
/// with those of others, the fewest.
llvm::SmallVector<int64_t, 4> partsOfSum(int64_t steps);

/// The same where all that is carried are sums. Many terms are added up in
/// parts, each from `zeros` on: the error of a sum grows with the number of
/// terms that one accumulator takes. `terms`: what one call of `body` adds to
/// an accumulator, more than one where it is a loop itself.
mlir::FailureOr<Carried> sumLoop(
    ElementEmitter &emitter, mlir::Value begin, mlir::Value end, int64_t step,
    mlir::ValueRange sums, mlir::ValueRange zeros, int64_t terms,
    llvm::function_ref<mlir::FailureOr<Carried>(mlir::Value, mlir::ValueRange)>
        body);

/// A reduction over `axes` of an index space.
struct ReductionLoop {
  /// Where the loop stands: full-rank indices and vector width; `keep` (null:
  /// all) marks the lanes that count.
  struct Place {
    mlir::ValueRange indices;
    int64_t lanes;
    LaneRange range;
    mlir::Value keep;
  };
  ElementEmitter &emitter;
  llvm::ArrayRef<int64_t> shape;
  llvm::ArrayRef<int64_t> axes;
  /// Scalars that the accumulators start from.
  Carried initial;
  std::function<mlir::FailureOr<Carried>(const Place &, mlir::ValueRange)> body;
  std::function<Carried(mlir::ValueRange, mlir::ValueRange)> join;
  /// Whether accumulators are sums in f32, which are added up in parts.
  bool adds = false;

  /// Reduces at `indices` (entries at `axes` are ignored). Where the last
  /// dimension is kept, `lanes` positions along it (inside `range`) are reduced
  /// at once and the results are vectors; otherwise `segments` says how it is
  /// walked and the results are scalars.
  mlir::FailureOr<Carried> run(mlir::ValueRange indices, int64_t lanes,
                               LaneRange range,
                               llvm::ArrayRef<LaneSegment> segments);
};

/// Joins the lanes of vectors to scalars, halves first.
Carried
joinLanes(ElementEmitter &emitter, mlir::ValueRange vectors,
          llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)> join);

/// The lanes of a vector at the end of a segment that an earlier vector has not
/// covered; null where that is all of them.
mlir::Value keepMask(ElementEmitter &emitter, int64_t lanes, int64_t covered);

/// Accumulator scalar type of a reduce op.
mlir::Type accumulatorType(mlir::Operation *op);
/// An element as the accumulator's type.
mlir::Value toAccumulator(ValueMath &math, mlir::Value value,
                          mlir::Type accumulator);
/// The result of a reduce op from its accumulator: mean's division, narrowing
/// and rounding.
mlir::Value finishReduction(ElementEmitter &emitter, mlir::Operation *op,
                            mlir::Value sum);

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// A tensor value and the memory that it is written to.
struct Root {
  mlir::Value tensor, memref;
};

/// State of one kernel's emission.
struct LoopContext {
  mlir::OpBuilder &builder;
  mlir::Location loc;
  const ElementTarget &target;
  ElementEmitter &emitter;
  mlir::Value scratch;
  int64_t scratchBytes = 0;
  /// Whether results may lie over arguments (exe.in_place): an element's
  /// operands are read before anything is written there.
  bool inPlace = false;

  /// Private memory for a tensor of carried (`type` scalar) or stored elements.
  mlir::Value allocate(llvm::ArrayRef<int64_t> shape, mlir::Type type);
};

/// Independent items of work and the code for one of them, emitted once.
class Phase {
public:
  virtual ~Phase() = default;
  virtual PhaseCost cost() = 0;
  virtual mlir::LogicalResult emit(mlir::Value item) = 0;
};

/// Whether all of `roots` are computed well element by element: nothing costly
/// is asked for again and again.
bool isMap(const ElementEmitter &emitter, llvm::ArrayRef<Root> roots);

/// Elementwise and data movement: all roots have one shape.
std::unique_ptr<Phase> makeMapPhase(LoopContext &context,
                                    llvm::ArrayRef<Root> roots);
/// Finds the transpositions that stand between the roots and memory, where all
/// move the input's last dimension to the same place (returned) and everything
/// around them is elementwise on the roots' shape. Fails where tiles do not
/// apply.
mlir::FailureOr<int64_t>
findTransposes(ElementEmitter &emitter, llvm::ArrayRef<Root> roots,
               llvm::SmallVectorImpl<TransposeOp> &transposes);
/// The gradient of a max_pool with what is elementwise in it, channels last;
/// null where the roots have no such form.
std::unique_ptr<Phase> makeMaxPoolGradientPhase(LoopContext &context,
                                                llvm::ArrayRef<Root> roots);
/// Softmax, norms and reductions along common axes with what surrounds them;
/// null where the kernel's body has no such form.
std::unique_ptr<Phase> makeRowPhase(LoopContext &context,
                                    llvm::ArrayRef<Root> roots);
/// Sums and extremes over the rows of a matrix that no cache holds, in the
/// order of memory; null where the kernel's body has no such form or gains
/// nothing by it.
std::unique_ptr<Phase> makeColumnPhase(LoopContext &context,
                                       llvm::ArrayRef<Root> roots);
/// cumsum, top_k, scatters and attention: writes the results of `op` to
/// `memrefs`.
std::unique_ptr<Phase> makeOpaquePhase(LoopContext &context,
                                       mlir::Operation *op,
                                       llvm::ArrayRef<mlir::Value> memrefs);

/// A scatter; where it does not copy its input, `memref` holds that already.
std::unique_ptr<Phase> makeScatterPhase(LoopContext &context,
                                        mlir::Operation *op, mlir::Value memref,
                                        bool copies);

/// Rewrites a kernel to fewer, longer dimensions where all of its ops allow it.
/// Argument and result types change; the memory stays the same.
void collapseDimensions(mlir::func::FuncOp kernel);
/// Replaces group_norm and instance_norm by layer_norm on reshaped operands.
void expandGroupedNorms(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H
