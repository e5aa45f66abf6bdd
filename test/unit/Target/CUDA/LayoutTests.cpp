//===- LayoutTests.cpp - layout algebra -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The examples of CuTe's documentation, and the fragments of the PTX manual.
//
//===----------------------------------------------------------------------===//

#include "Target/CUDA/MatrixUnits.h"

#include "gtest/gtest.h"

using namespace mpc::cuda;

TEST(Layout, ComposesLikeFunctions) {
  Layout outer = {{6, 8}, {2, 2}}, inner = {{4, 3}, {3, 1}};
  Layout both = outer.compose(inner);
  EXPECT_EQ(both, (Layout{{2, 24}, {2, 2}, {3, 8}}));
  for (int64_t i = 0; i < inner.size(); ++i)
    EXPECT_EQ(both(i), outer(inner(i)));
  EXPECT_EQ((Layout{{20, 2}}.compose({{5, 4}, {4, 1}})),
            (Layout{{5, 8}, {4, 2}}));
  EXPECT_EQ((Layout{{10, 16}, {2, 4}}.compose({{5, 1}, {4, 5}})),
            (Layout{{5, 16}, {2, 80}, {2, 4}}));
}

TEST(Layout, ComplementReachesTheOtherOffsets) {
  EXPECT_EQ((Layout{{4, 1}}.complement(24)), (Layout{{6, 4}}));
  EXPECT_EQ((Layout{{6, 4}}.complement(24)), (Layout{{4, 1}}));
  EXPECT_EQ((Layout{{4, 2}}.complement(24)), (Layout{{2, 1}, {3, 8}}));
  EXPECT_EQ((Layout{{2, 1}, {2, 6}}.complement(24)), (Layout{{3, 2}, {2, 12}}));
  EXPECT_EQ((Layout{{4, 1}, {6, 4}}.complement(24)), Layout());
}

TEST(Layout, DividesIntoTiles) {
  EXPECT_EQ((Layout{{4, 2}, {2, 1}, {3, 8}}.divide({{4, 2}})),
            (Layout{{2, 4}, {2, 1}, {2, 2}, {3, 8}}));
}

TEST(Layout, CoalescesAdjacentModes) {
  EXPECT_EQ((Layout{{2, 1}, {1, 6}, {6, 2}}.coalesce()), (Layout{{12, 1}}));
  EXPECT_EQ((Layout{{8, 0}, {2, 0}, {2, 8}}.coalesce()),
            (Layout{{16, 0}, {2, 8}}));
}

/// Lane 13 has group 3 and member 1; slot 5 is element 1 of word 2 of 16-bit
/// fragments, and word 1 of tf32 is slot 1.
TEST(MatrixUnits, FragmentsOfThePtxManual) {
  mlir::MLIRContext context;
  const MatrixUnit &half =
      *findMatrixUnit(MatrixInstruction::Mma, mlir::Float16Type::get(&context));
  const MatrixUnit &tf32 = *findMatrixUnit(MatrixInstruction::Mma,
                                           mlir::FloatTF32Type::get(&context));
  auto at = [](const FragmentLayout &layout, int64_t lane, int64_t slot) {
    return std::pair(layout.row(lane + 32 * slot),
                     layout.column(lane + 32 * slot));
  };
  EXPECT_EQ(at(half.left(), 13, 5), std::pair(int64_t(3), int64_t(11)));
  EXPECT_EQ(at(half.left(), 13, 2), std::pair(int64_t(11), int64_t(2)));
  EXPECT_EQ(at(half.right(), 13, 3), std::pair(int64_t(3), int64_t(11)));
  EXPECT_EQ(at(tf32.left(), 13, 1), std::pair(int64_t(11), int64_t(1)));
  EXPECT_EQ(at(tf32.right(), 13, 1), std::pair(int64_t(3), int64_t(5)));
  EXPECT_EQ(at(MatrixUnit::sums(), 13, 3), std::pair(int64_t(11), int64_t(3)));
}
