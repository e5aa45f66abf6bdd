//===- NarrowWeights.cpp - round weights as a policy stores them ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounds constant right-hand sides and filters to what the policy's weights
// hold, in f32: the graph says what is computed, mpc-narrow-panels how it is
// stored. Its own stage, between Simplify and Precision.
//
//===----------------------------------------------------------------------===//

#include "LoadPolicy.h"
#include "NarrowConstant.h"

#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/WeightMoments.h"
#include "mpc/Analysis/WeightRounding.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "mlir/IR/Threading.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <map>

namespace mpc {
#define GEN_PASS_DEF_NARROWWEIGHTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

/// Where the columns of a product, or the output channels of a conv, lie in its
/// constant.
struct ColumnsOf {
  int64_t count = 0, length = 0;
  /// Elements between columns, and between the elements of one.
  int64_t stride = 0, step = 0;
};

/// nullopt where the constant is a batch of matrices.
std::optional<ColumnsOf> columnsOf(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(1));
  if (isa<ConvOp>(op)) {
    int64_t length = productOf(shape.drop_front());
    return ColumnsOf{shape[0], length, length, 1};
  }
  if (productOf(shape.drop_back(2)) != 1)
    return std::nullopt;
  int64_t rows = shape[shape.size() - 2], width = shape.back();
  if (cast<MatmulOp>(op).getTransposeRhs())
    return ColumnsOf{rows, width, width, 1};
  return ColumnsOf{width, rows, 1, width};
}

/// `format` as `columns` of `op` take it.
WeightFormat formatFor(WeightFormat format, Operation *op,
                       const ColumnsOf &columns) {
  if (format.type == WeightType::Int4 &&
      (isa<ConvOp>(op) || columns.length % format.group)) {
    format.type = WeightType::Int8;
    format.zeroPoint = false;
  }
  return format;
}

/// How a constant is stored, for factors of so many significant bits, and mean
/// squares of these, where they are known: one for each position of a column
/// times the first number of `runOf`.
struct StoredAs {
  WeightFormat format;
  int bits = kFloat32Bits;
  ArrayRef<float> squares = {};
};

/// Of a conv's column: the elements that read one input channel, and the
/// columns that read the same channels. Of a product's each element is one
/// channel.
std::pair<int64_t, int64_t> runOf(Operation *op, const ColumnsOf &columns) {
  auto conv = dyn_cast<ConvOp>(op);
  if (!conv)
    return {1, columns.count};
  return {productOf(shapeOf(conv.getFilter()).drop_front(2)),
          columns.count / conv.getGroups()};
}

/// Significant bits of a type that ops compute in.
int significantBits(PolicyType type) {
  return type == PolicyType::BFloat16  ? kBFloat16Bits
         : type == PolicyType::Float16 ? kFloat16Bits
                                       : kFloat32Bits;
}

/// Rounds `values`, which `columns` of `op` lie in.
void roundColumns(Operation *op, MutableArrayRef<float> values,
                  const ColumnsOf &columns, const StoredAs &stored) {
  const WeightFormat &format = stored.format;
  int64_t group =
      format.type == WeightType::Int4 ? format.group : columns.length;
  auto [run, alike] = runOf(op, columns);
  parallelFor(
      op->getContext(), 0, columns.count,
      [&, run = run, alike = alike](size_t column) {
        std::vector<float> together(group), squares;
        int64_t channel = int64_t(column) / alike * (columns.length / run);
        for (int64_t first = 0; first < columns.length; first += group) {
          float *from = values.data() + int64_t(column) * columns.stride +
                        first * columns.step;
          for (int64_t i = 0; i < group; ++i)
            together[i] = from[i * columns.step];
          if (!stored.squares.empty()) {
            squares.resize(group);
            for (int64_t i = 0; i < group; ++i)
              squares[i] = stored.squares[channel + (first + i) / run];
          }
          roundWeights(together, format, stored.bits, squares);
          for (int64_t i = 0; i < group; ++i)
            from[i * columns.step] = together[i];
        }
      });
}

struct NarrowWeightsPass : mpc::impl::NarrowWeightsPassBase<NarrowWeightsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    return loadPolicy(policy, sets, context, chosen);
  }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!chosen.narrowsWeights() || function.isDeclaration())
      return markAllAnalysesPreserved();
    if (failed(checkParameters(function)))
      return signalPassFailure();
    SmallVector<Operation *> users;
    function.walk([&](Operation *op) {
      if (isa<MatmulOp, ConvOp>(op))
        users.push_back(op);
    });
    for (Operation *op : users)
      if (failed(narrow(op)))
        return signalPassFailure();
    llvm::SetVector<Operation *> unused;
    for (auto &[key, rounded] : known)
      if (Operation *constant = std::get<0>(key);
          rounded && constant->use_empty())
        unused.insert(constant);
    for (Operation *constant : unused)
      constant->erase();
    known.clear();
  }

private:
  LogicalResult checkParameters(func::FuncOp function) {
    StepFunction step(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (RoleAttr role = step.argumentRole(i);
          role && role.getKind() == RoleKind::parameter)
        return function.emitError()
               << "policy '" << chosen.getName() << "' stores weights as "
               << chosen.getWeights().describe()
               << ", but a training step keeps them as arguments; train with "
                  "weights float32 and narrow the trained model";
    return success();
  }

  /// How the constant of `op` is stored.
  FailureOr<StoredAs> formatOf(Operation *op) {
    StringRef layer = layerPath(op);
    llvm::Expected<const Policy *> policy = chosen.policyOfLayer(layer);
    if (!policy)
      return op->emitError(llvm::toString(policy.takeError()));
    StringRef kind = cast<PrecisionOpInterface>(op).getPrecisionKind();
    llvm::Expected<const PolicyOverride *> override =
        chosen.findOverride(kind, layer, opNames(op));
    if (!override)
      return op->emitError(llvm::toString(override.takeError()));
    // In float32 it means what the op reads as well.
    if (*override && ((*override)->type == PolicyType::Float32 ||
                      (*override)->type == PolicyType::Float64))
      return StoredAs();
    PolicyType type = (*policy)->classOf(kind) == PrecisionClass::Low
                          ? (*policy)->getCompute()
                          : PolicyType::Float32;
    if (*override)
      type = (*override)->type;
    StoredAs stored{(*policy)->getWeights(), significantBits(type)};
    if (stored.format.isScaled() && stored.format.clip)
      stored.squares = squaresOf(op);
    return stored;
  }

  /// What the policy knows of what `op` multiplies with; none, with a warning,
  /// where that is of another op.
  ArrayRef<float> squaresOf(Operation *op) {
    ArrayRef<float> squares = chosen.momentsOf(opNames(op));
    if (squares.empty() || squares.size() == size_t(contractedChannels(op)))
      return squares;
    op->emitWarning() << "policy '" << chosen.getName() << "' has moments of "
                      << squares.size() << " channels for '" << mpc::opName(op)
                      << "', which multiplies " << contractedChannels(op)
                      << ": they are not used; calibrate this model";
    return {};
  }

  LogicalResult narrow(Operation *op) {
    auto constant = op->getOperand(1).getDefiningOp<mpc::ConstantOp>();
    if (!constant || !getElementTypeOrSelf(constant.getType()).isF32())
      return success();
    std::optional<ColumnsOf> columns = columnsOf(op);
    FailureOr<StoredAs> wanted = formatOf(op);
    if (failed(wanted))
      return failure();
    if (!columns || !wanted->format.isNarrow() || columns->length == 0)
      return success();
    StoredAs stored{formatFor(wanted->format, op, *columns), wanted->bits};
    stored.squares = wanted->squares;
    Value &rounded =
        known[{constant.getOperation(), columns->count, columns->step,
               stored.format.describe(), stored.bits, stored.squares.data()}];
    if (!rounded)
      rounded = round(constant, op, *columns, stored);
    if (rounded)
      op->setOperand(1, rounded);
    return success();
  }

  /// The rounded constant; null where it cannot be.
  Value round(mpc::ConstantOp constant, Operation *reader,
              const ColumnsOf &columns, const StoredAs &stored) {
    const WeightFormat &format = stored.format;
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
    if (failed(bytes))
      return {};
    ArrayRef<float> old = bytes->as<float>();
    if (!llvm::all_of(old, [](float value) { return std::isfinite(value); }))
      return {};
    std::vector<float> values(old.begin(), old.end());
    roundColumns(reader, values, columns, stored);
    RoundingLosses losses;
    for (auto [before, after] : llvm::zip_equal(old, values))
      losses.note(before, after);
    if (losses.getOverflowed())
      constant.emitWarning()
          << "weights '" << resourceName(constant) << "' in "
          << stringify(format.type) << ": " << losses.getOverflowed() << " of "
          << losses.getCount()
          << " values become infinite; an override float32 for the op that "
             "reads them keeps them";
    OpBuilder builder(constant);
    auto type = cast<RankedTensorType>(constant.getType());
    ElementsAttr value = makeConstant(
        type,
        ArrayRef(reinterpret_cast<const char *>(values.data()),
                 values.size() * sizeof(float)),
        resourceName(constant) + "." + stringify(format.type).str());
    auto made = mpc::ConstantOp::create(builder, constant.getLoc(), value);
    made->setDiscardableAttrs(constant->getDiscardableAttrDictionary());
    made->setDiscardableAttr(MpcDialect::kNarrowingAttr,
                             losses.toAttr(&getContext()));
    made->setDiscardableAttr(kWeightsAttr,
                             builder.getStringAttr(format.describe()));
    ++numRounded;
    return made.getResult();
  }

  Policy chosen;
  /// By the constant, what shares a scale in it, the form, and what it is
  /// multiplied with.
  std::map<std::tuple<Operation *, int64_t, int64_t, std::string, int,
                      const float *>,
           Value>
      known;
};

} // namespace
