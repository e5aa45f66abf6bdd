//===- ActivationMoments.cpp - second moments of activations --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/ActivationMoments.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

using namespace mlir;
using namespace mpc;

/// Returns the dimension of the left operand that is the channel.
static int64_t channelDimension(Operation *op) {
  auto rank = int64_t(shapeOf(op->getOperand(0)).size());
  if (auto conv = dyn_cast<ConvOp>(op))
    return conv.getLayout() == ImageLayout::channels_first ? 1 : rank - 1;
  return cast<MatmulOp>(op).getTransposeLhs() ? rank - 2 : rank - 1;
}

int64_t mpc::contractedChannels(Operation *op) {
  return shapeOf(op->getOperand(0))[channelDimension(op)];
}

void ActivationMoments::add(Value value, ArrayRef<double> elements) {
  for (OpOperand &use : value.getUses()) {
    Operation *op = use.getOwner();
    if (!isa<MatmulOp, ConvOp>(op) || use.getOperandNumber() != 0 ||
        !op->getOperand(1).getDefiningOp<mpc::ConstantOp>())
      continue;
    SmallVector<StringRef> names = opNames(op);
    if (names.empty())
      continue;
    Sums &sum = sums[names.front().str()];
    ArrayRef<int64_t> shape = shapeOf(value);
    int64_t dimension = channelDimension(op), channels = shape[dimension],
            run = productOf(shape.drop_front(dimension + 1));
    if (sum.squares.empty())
      sum.squares.resize(channels);
    // A name shared by ops of different shapes is ambiguous.
    if (int64_t(sum.squares.size()) != channels || channels == 0)
      continue;
    for (auto [at, element] : llvm::enumerate(elements))
      sum.squares[int64_t(at) / run % channels] += element * element;
    sum.rows += int64_t(elements.size()) / channels;
  }
}

std::vector<std::pair<std::string, std::vector<double>>>
ActivationMoments::means() const {
  std::vector<std::pair<std::string, std::vector<double>>> means;
  for (const auto &[name, sum] : sums) {
    if (sum.rows == 0)
      continue;
    std::vector<double> squares = sum.squares;
    for (double &square : squares)
      square /= double(sum.rows);
    if (llvm::all_of(squares, [](double square) { return square < 3e38; }))
      means.emplace_back(name, std::move(squares));
  }
  return means;
}
