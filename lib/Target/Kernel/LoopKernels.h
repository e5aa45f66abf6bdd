//===- LoopKernels.h - building blocks of loop kernels ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectorization of last dimensions, loops with carried values, reductions, and
// the shared state of the phases of one kernel.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H
#define MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H

#include "ElementEmitter.h"
#include "KernelFunction.h"

#include "mpc/Dialect/Mpc/IR/MpcDialect.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Tile/IR/TileOps.h"

namespace mpc {
class AttentionOp;
class TransposeOp;

/// Returns true if integers of an element type are unsigned.
inline bool isUnsignedElement(mlir::Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

//===----------------------------------------------------------------------===//
// Vectors along a last dimension
//===----------------------------------------------------------------------===//

/// A part of a last dimension and its vector width.
struct LaneSegment {
  LaneRange range;
  int64_t lanes = 1;
};

/// Splits a last dimension of `extent` so that every vector of all `tensors` is
/// contiguous. Vectors are as wide as the types and the cost of computing
/// permit.
llvm::SmallVector<LaneSegment> planLanes(ElementEmitter &emitter,
                                         llvm::ArrayRef<mlir::Value> tensors,
                                         int64_t extent);

/// The same for a reduction: ElementTarget::canonicalSums asks for one segment
/// with a number of lanes that depends on `extent` only.
llvm::SmallVector<LaneSegment>
planSummedLanes(ElementEmitter &emitter, llvm::ArrayRef<mlir::Value> tensors,
                int64_t extent);

//===----------------------------------------------------------------------===//
// Loop nests and reductions
//===----------------------------------------------------------------------===//

/// A nest of loops over positions, the last dimension in steps of `by`.
struct LoopNest {
  ElementEmitter &emitter;
  llvm::SmallVector<int64_t> from, to;
  int64_t by = 1;
  /// Initial values of the parts of long sums; empty if the carried values are
  /// no sums.
  mlir::ValueRange zeros = {};

  /// `body(positions, carried, covered)` returns the next carried values. A
  /// remainder of the last dimension is one more step that ends with it, whose
  /// first `covered` positions are repeated.
  Carried run(mlir::ValueRange initial,
              llvm::function_ref<Carried(llvm::ArrayRef<mlir::Value>,
                                         mlir::ValueRange, int64_t)>
                  body) const;
};

/// A reduction as an accumulator: initial values (scalars), the step for an
/// element, the combination of two accumulators, and an op's result.
struct Reducer {
  /// Loop position: full-rank indices and vector width; `keep` (null: all)
  /// masks the active lanes.
  struct Place {
    mlir::ValueRange indices;
    int64_t lanes;
    LaneRange range;
    mlir::Value keep;
  };
  Carried initial;
  llvm::StringRef name;
  /// f32 sums are split into parts.
  tile::NamedReduction joining = tile::NamedReduction::any;
  std::function<Carried(const Place &, mlir::ValueRange)> body;
  std::function<Carried(mlir::ValueRange, mlir::ValueRange)> join;
  std::function<mlir::Value(mlir::ValueRange)> finish = {};

  /// Reduces over `axes` of `shape` at `indices` (entries at `axes` are
  /// ignored). If the last dimension is not reduced, reduces `lanes` positions
  /// along it (inside `range`) at once into vectors; otherwise iterates over it
  /// by `segments` and returns scalars.
  Carried run(ElementEmitter &emitter, llvm::ArrayRef<int64_t> shape,
              llvm::ArrayRef<int64_t> axes, mlir::ValueRange indices,
              int64_t lanes, LaneRange range,
              llvm::ArrayRef<LaneSegment> segments) const;
};

/// Returns true for a reduce op, argmax or argmin.
bool isReducing(mlir::Operation *op);
/// Returns the reducer of such an op; creates constants at the insertion point.
Reducer reducerOf(ElementEmitter &emitter, mlir::Operation *op);

/// Returns the types that a thread carries for a reduce op, or for the argmax
/// among `length` positions.
llvm::SmallVector<mlir::Type> partialTypes(mlir::Operation *op, int64_t length);

/// Reduces the lanes of vectors to scalars, halves first.
Carried reduceLanes(
    ElementEmitter &emitter, mlir::ValueRange vectors,
    llvm::function_ref<Carried(mlir::ValueRange, mlir::ValueRange)> join);

/// Mask of the lanes of a vector at the end of a segment that no earlier vector
/// has covered.
mlir::Value keepMask(ElementEmitter &emitter, int64_t lanes, int64_t covered);

/// Returns whether x comes before y in descending (`largest`) or ascending
/// order. NaN is larger than every number or, with `nanFirst`, first in either.
mlir::Value isBefore(ValueMath &math, mlir::Value x, mlir::Value y,
                     bool largest, bool isUnsigned, bool nanFirst);

/// Accumulator scalar type of a reduce op.
mlir::Type accumulatorType(mlir::Operation *op);
/// Converts an element to the accumulator's type.
mlir::Value toAccumulator(ValueMath &math, mlir::Value value,
                          mlir::Type accumulator);
/// Computes the result of a reduce op from its accumulator: mean's division,
/// narrowing and rounding.
mlir::Value finishReduction(ElementEmitter &emitter, mlir::Operation *op,
                            mlir::Value sum);

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

/// A tensor value and the memory of its result.
struct Root {
  mlir::Value tensor, memref;
};

llvm::SmallVector<mlir::Value> tensorsOf(llvm::ArrayRef<Root> roots);

/// State of one kernel's emission.
struct LoopContext {
  ElementEmitter &emitter;
  mlir::Value scratch;
  int64_t scratchBytes = 0;
  /// Whether results may alias arguments (exe.in_place): an element's operands
  /// are read before anything is stored there.
  bool inPlace = false;

  /// Allocates private memory for a tensor of carried (`type` scalar) or stored
  /// elements.
  mlir::Value allocate(llvm::ArrayRef<int64_t> shape, mlir::Type type);
};

/// Independent work items and the code for one of them, emitted once; `roots`
/// are the results that a phase stores.
class Phase {
public:
  explicit Phase(LoopContext &context, llvm::ArrayRef<Root> roots = {})
      : context(context), emitter(context.emitter),
        builder(emitter.getBuilder()), loc(emitter.getLoc()),
        target(emitter.getTarget()), math(emitter.math()),
        index(emitter.indexMath()), roots(roots) {}
  virtual ~Phase() = default;
  virtual PhaseCost cost() = 0;
  virtual void emit(mlir::Value item) = 0;

protected:
  /// Computes all roots at `indices` before anything is stored, so that loads
  /// are shared and results may overwrite inputs (in place).
  Carried computeRoots(mlir::ValueRange indices, int64_t lanes,
                       LaneRange range);
  void writeRoots(mlir::ValueRange values, mlir::ValueRange indices,
                  int64_t lanes);
  void storeRoots(mlir::ValueRange indices, int64_t lanes, LaneRange range) {
    writeRoots(computeRoots(indices, lanes, range), indices, lanes);
  }

  LoopContext &context;
  ElementEmitter &emitter;
  mlir::OpBuilder &builder;
  mlir::Location loc;
  const ElementTarget &target;
  MathExpansion math;
  IndexMath index;
  llvm::SmallVector<Root> roots;
};

/// Returns true if no expensive value would be recomputed when `roots` are
/// computed element by element.
bool isMap(const ElementEmitter &emitter, llvm::ArrayRef<Root> roots);

/// Creates the phase of elementwise ops and data movement: all roots have one
/// shape.
std::unique_ptr<Phase> makeMapPhase(LoopContext &context,
                                    llvm::ArrayRef<Root> roots);

/// Visits the ops that define `roots`, from bound values on, in no order.
/// `visit` may skip an op's operands. Returns false if it interrupts.
bool visitDefinitions(
    const ElementEmitter &emitter, llvm::ArrayRef<Root> roots,
    llvm::function_ref<mlir::WalkResult(mlir::Operation *)> visit);

/// Finds the transpositions between the roots and memory, if all move the
/// input's last dimension to the same position (returned) and everything around
/// them is elementwise on the roots' shape. Fails if tiles do not apply.
mlir::FailureOr<int64_t>
findTransposes(ElementEmitter &emitter, llvm::ArrayRef<Root> roots,
               llvm::SmallVectorImpl<TransposeOp> &transposes);
/// Creates the phase of a max_pool's gradient with fused elementwise ops,
/// channels last; null if the roots have another form.
std::unique_ptr<Phase> makeMaxPoolGradientPhase(LoopContext &context,
                                                llvm::ArrayRef<Root> roots);
/// Creates the phase of softmax, norms and reductions along common axes with
/// fused ops; null if the kernel's body has another form.
std::unique_ptr<Phase> makeRowPhase(LoopContext &context,
                                    llvm::ArrayRef<Root> roots);
/// Creates the phase of sums and extrema over the rows of a matrix larger than
/// any cache, in memory order; null if the kernel's body has another form or
/// does not benefit.
std::unique_ptr<Phase> makeColumnPhase(LoopContext &context,
                                       llvm::ArrayRef<Root> roots);
/// Creates the phase of cumsum, top_k, scatters and attention, which stores the
/// results of `op` in `memrefs`.
std::unique_ptr<Phase> makeSequentialPhase(LoopContext &context,
                                           mlir::Operation *op,
                                           llvm::ArrayRef<mlir::Value> memrefs);
/// Creates the phase of attention, whose items are rows, that stores the result
/// in `memref`.
std::unique_ptr<Phase> makeAttentionPhase(LoopContext &context, AttentionOp op,
                                          mlir::Value memref);
/// Creates the phases of an all_finite or global_norm, to be run in order; they
/// store the op's results in `memrefs`.
llvm::SmallVector<std::unique_ptr<Phase>>
makeCheckPhases(LoopContext &context, mlir::Operation *op,
                llvm::ArrayRef<mlir::Value> memrefs);
/// Creates the phase of a scatter; unless it copies its input, `memref` already
/// contains that.
std::unique_ptr<Phase> makeScatterPhase(LoopContext &context,
                                        mlir::Operation *op, mlir::Value memref,
                                        bool copies);

/// Collapses adjacent dimensions of a kernel if all of its ops permit it.
/// Argument and result types change; the memory layout does not.
void collapseDimensions(mlir::func::FuncOp kernel);
/// Reshapes inputs of sums whose adjacent reduced dimensions other ops of the
/// kernel kept apart, so that the order of a sum depends on its op alone.
void flattenReducedDimensions(mlir::func::FuncOp kernel);
/// Replaces group_norm and instance_norm by layer_norm on reshaped operands.
void expandGroupedNorms(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_LIB_TARGET_KERNEL_LOOPKERNELS_H
