//===- GemmSums.h - an operand summed beside its product --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product that also stores the sums of one operand over k: a weight's
// gradient with that of the bias. The blocks of the first row (column) of tiles
// add up the operand's tiles where they lie in shared memory, exact elements in
// f32, whatever the unit multiplies.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMSUMS_H
#define MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMSUMS_H

#include "Gemm.h"

namespace mpc {

/// The sums of one kernel; does nothing for a problem without any.
class GemmSums {
public:
  GemmSums(GpuKernel &kernel, const GemmProblem &problem,
           const GemmTiles &tiles);

  /// Whether a block of `tiles` has a thread for each row that it sums alone,
  /// as it does where rows run along k.
  static bool fits(const GemmProblem &problem, const GemmTiles &tiles);

  /// Bytes of shared memory in which threads join their sums, and of the
  /// scratch buffer in which the blocks of a split product do.
  static int64_t sharedBytes(const GemmProblem &problem,
                             const GemmTiles &tiles);
  static int64_t scratchBytes(const GemmProblem &problem,
                              const GemmTiles &tiles);

  /// Zeros, for the block whose tile begins at `rowBegin`, `columnBegin`.
  void prepare(mlir::Value rowBegin, mlir::Value columnBegin);
  /// Adds one stage of the block's tiles.
  void accumulate(const WarpOperand &lhs, const WarpOperand &rhs);
  /// Stores the sums. The tiles in `shared` are overwritten; the next who
  /// writes there waits first.
  void finish(mlir::Value shared);
  /// Of a split product: leaves the sums of block `split`, at byte `offset` of
  /// the scratch buffer.
  void leave(mlir::Value shared, mlir::Value split, int64_t offset);
  /// Adds what all blocks left, in their order, and stores it.
  void addUp(int64_t offset);

private:
  /// How threads share a tile of `rows` by `depth`: a thread adds `lanes`
  /// neighbouring rows of one of `groups`, at every one of `parts` positions
  /// along k.
  struct Shares {
    Shares(const GemmProblem &problem, const GemmTiles &tiles);
    int64_t rows, depth, lanes, groups, parts;
  };

  /// `body` runs for threads below `count` of the blocks that sum.
  void byThreads(int64_t count, llvm::function_ref<void(mlir::Value)> body);
  /// `body` gets the rows of the tile, spread over the threads of these blocks.
  void byRows(llvm::function_ref<void(mlir::Value)> body);
  /// Joins the threads' sums: `take` gets that of a row of the tile.
  void join(mlir::Value shared,
            llvm::function_ref<void(mlir::Value sum, mlir::Value row)> take);
  /// array[first] + array[first + step] + ... of `count` elements.
  mlir::Value addElements(
      mlir::Value array, int64_t count,
      llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value number)>
          at);
  void store(mlir::Value sum, mlir::Value row);
  mlir::Value partials(int64_t offset);
  IndexMath math() { return {kernel.builder, kernel.loc}; }

  GpuKernel &kernel;
  const GemmProblem &problem;
  GemmTiles tiles;
  Shares shares;
  /// The thread's sums; where the block's rows begin; whether the block is one
  /// that sums (null: all are).
  mlir::Value sums, begin, isSumming;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_SCHEDULES_GEMMSUMS_H
