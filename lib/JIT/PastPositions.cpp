//===- PastPositions.cpp - decoders with unfilled cache rows --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The caches of a Decoder have a fixed number of rows. The oldest are unfilled,
// and a chunk ends with padding tokens; the attention mask hides both. Whether
// they are really without effect is proved op by op, by comparison with imports
// of the same model at exact numbers of rows:
//  - Values that depend only on constants, the mask and positions are evaluated
//    in all imports. Where they meet run-time values, they must agree at the
//    visible rows and tokens, aligned at the first new token, or up to a number
//    that the softmax of a token removes. If they do not, integer constants
//    that grow with the number of rows or tokens are replaced by ones computed
//    from the positions of the first and the last token, and the value is
//    compared again.
//  - For run-time values, a forward analysis tracks which dimension consists of
//    cache rows, which of tokens, and what hidden rows may contain. A reduction
//    over rows needs a weight of zero at hidden ones; every other op that mixes
//    rows or tokens is refused.
//
//===----------------------------------------------------------------------===//

#include "PastPositions.h"

#include "KnownValues.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/IndexChecks.h"
#include "mpc/Dialect/Mpc/IR/MpcArithmeticOps.h"
#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcIndexOps.h"
#include "mpc/Dialect/Mpc/IR/MpcLogicOps.h"
#include "mpc/Dialect/Mpc/IR/MpcNormalizationOps.h"
#include "mpc/Dialect/Mpc/IR/MpcReductionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"
#include "mpc/Dialect/Mpc/IR/MpcTraits.h"
#include "mpc/Dialect/Mpc/IR/MpcUnaryOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using mpc::reference::Tensor;

namespace {

/// Facts about all elements at hidden rows, as a set of bits.
enum Content : unsigned {
  kAnything = 0,
  kFinite = 1,
  kZero = 2,
  kOne = 4,
  /// At most -1e4: as a score, its softmax weight is zero.
  kNegative = 8,
  /// At least 1e4.
  kLarge = 16,
  kEverything = 31
};
constexpr double kFill = -1.0e4;

/// Dimensions of a run-time value that consist of cache rows and of tokens, -1
/// if none does, and what it contains at hidden rows.
struct Layout {
  int64_t rows = -1, tokens = -1;
  /// Elements of dimension `rows` after the newest row (attention sinks).
  int64_t tail = 0;
  /// Unfilled rows, and rows that are newer than the token.
  unsigned unfilled = kFinite, newer = kFinite;
  /// True if all visible rows of a token may be off by one number, which the
  /// softmax over the rows removes (ALiBi from the end of a table).
  bool isShifted = false;
};

/// An import at an exact number of rows.
struct ExactImport {
  ExactImport(int64_t past, int64_t tokens, KnownValues values)
      : past(past), tokens(tokens), values(std::move(values)) {}

  int64_t past = 0, tokens = 0;
  KnownValues values;
  /// Run-time ops of the program and of this import.
  DenseMap<Operation *, Operation *> twins;
  /// Pairs of known values, and whether they are equal; the last pair of each.
  DenseMap<std::pair<Value, Value>, bool> pairs;
  DenseMap<Value, Value> counterparts;

  /// Returns true if `value` and `other` are computed in the same way from
  /// equal constants.
  bool isSame(Value value, Value other);
};

/// Inputs of the program for the length of an exact import.
struct Scenario {
  ExactImport *exact;
  /// True if the other entries of the batch have another length.
  bool isMixed;
  KnownValues values;
};

class PaddedProgram {
public:
  PaddedProgram(func::FuncOp function, ArrayRef<func::FuncOp> exact,
                ArrayRef<GrowingCache> caches, const PaddedDecoder &decoder);
  LogicalResult run();

private:
  bool isKnown(Value value) const { return known.contains(value); }
  /// Returns the inputs for `count` of `tokens` tokens after `length` of `past`
  /// rows, or `other` in all but the first entry of the batch.
  KnownValues::Inputs inputs(int64_t past, int64_t tokens, int64_t count,
                             int64_t length, int64_t other) const;

  /// Returns the ops of `from` that depend on tokens or caches, and lookups in
  /// tables; all other values are inserted into `values`.
  SmallVector<Operation *> runTimeOps(func::FuncOp from,
                                      DenseSet<Value> &values) const;
  LogicalResult pair();
  LogicalResult visit(Operation *op);
  LogicalResult visitRunTime(Operation *op);
  LogicalResult visitElementwise(Operation *op, ArrayRef<Layout> layouts);
  LogicalResult visitMatmul(MatmulOp op, Layout lhs, Layout rhs);
  LogicalResult visitAttention(AttentionOp op);
  LogicalResult visitReduction(Operation *op, Layout layout);
  LogicalResult visitSlice(SliceOp op, Layout layout);
  LogicalResult visitConcat(ConcatOp op, ArrayRef<Layout> layouts);
  LogicalResult visitGather(GatherOp op, Layout input, Layout index);
  LogicalResult visitResults(Operation *terminator);
  /// Raises negative indices of a table at hidden rows to zero, so that they
  /// are not out of range, if the model has no negative ones.
  void clampHiddenIndices(OpOperand &operand);

  /// Returns the layout of an operand; a known one is compared with the exact
  /// imports and, if necessary, repaired.
  FailureOr<Layout> layoutOf(OpOperand &operand);
  std::optional<Layout> differingDimensions(ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> other,
                                            const ExactImport &exact) const;
  /// Returns the layout of `value` if it agrees with the counterparts of an
  /// operand; if `mayShift`, up to one number for each line of rows.
  std::optional<Layout> compare(Value value, OpOperand &original,
                                bool mayShift);
  /// Returns true if, in the exact imports, an element of the operand at a
  /// token is the same for all numbers of later tokens: a chunk of a prompt
  /// does not know how many follow.
  bool isCausal(OpOperand &operand, const Layout &layout);
  /// Returns true if the elements of the known `value` agree if aligned at
  /// their start.
  bool agreesAtStart(Value value);
  Value repaired(Value value);
  /// Growth of a constant per cache row and per token.
  struct Steps {
    int64_t rows = 0, tokens = 0;
  };
  std::optional<Steps> stepsOf(mpc::ConstantOp op);
  FailureOr<Value> argument(Operation *reader);
  FailureOr<Value> shifted(mpc::ConstantOp op, Steps steps);
  LogicalResult refuseValue(Operation *op, Value value);
  LogicalResult refuseMixing(Operation *op, const Layout &layout);
  LogicalResult refuseSelection(Operation *op);
  /// Returns true if all hidden elements have this content.
  bool hides(const Layout &layout, unsigned content) const {
    return (layout.unfilled & content) &&
           (layout.newer & content || decoder.tokens == 1);
  }

  func::FuncOp function;
  ArrayRef<GrowingCache> caches;
  const PaddedDecoder &decoder;
  std::vector<std::unique_ptr<ExactImport>> exacts;
  std::vector<func::FuncOp> functions;
  std::vector<std::unique_ptr<Scenario>> scenarios;
  /// Values computed from constants, mask and positions only.
  DenseSet<Value> known;
  SmallVector<Operation *> ops;
  DenseMap<Value, Layout> layouts;
  DenseMap<Value, Value> repairs;
  /// Results of comparisons with operands of the exact imports: the layout, and
  /// the value or its repair.
  std::map<std::vector<const void *>, std::pair<std::optional<Layout>, Value>>
      comparisons;
  Value added;
  /// Set once the missing argument was reported.
  bool isRefused = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Imports
//===----------------------------------------------------------------------===//

KnownValues::Inputs PaddedProgram::inputs(int64_t past, int64_t tokens,
                                          int64_t count, int64_t length,
                                          int64_t other) const {
  int64_t rows = past + tokens;
  std::vector<int64_t> mask(decoder.batch * rows),
      positions(decoder.batch * tokens);
  for (int64_t b = 0; b < decoder.batch; ++b) {
    int64_t filled = b == 0 ? length : other;
    for (int64_t i = std::max<int64_t>(past - filled, 0);
         i < past + (decoder.showsPadding ? tokens : count); ++i)
      mask[b * rows + i] = 1;
    for (int64_t i = 0; i < tokens; ++i)
      positions[b * tokens + i] = filled + std::min(i, count - 1);
  }
  return {{decoder.mask, std::move(mask)},
          {decoder.positions, std::move(positions)}};
}

PaddedProgram::PaddedProgram(func::FuncOp function,
                             ArrayRef<func::FuncOp> exact,
                             ArrayRef<GrowingCache> caches,
                             const PaddedDecoder &decoder)
    : function(function), caches(caches), decoder(decoder),
      functions(exact.begin(), exact.end()) {
  for (auto [entry, import] : llvm::zip_equal(decoder.lengths, exact)) {
    int64_t past = entry.first, count = entry.second.at(decoder.mask)[1] - past;
    exacts.push_back(std::make_unique<ExactImport>(
        past, count,
        KnownValues(import, inputs(past, count, count, past, past))));
    auto add = [&](int64_t other) {
      scenarios.push_back(std::make_unique<Scenario>(
          Scenario{exacts.back().get(),
                   other != past,
                   {function, inputs(decoder.past, decoder.tokens, count, past,
                                     other)}}));
    };
    add(past);
    if (decoder.batch > 1)
      add(past / 2 + 1 == past ? past + 1 : past / 2 + 1);
  }
}

/// Returns true if both constants have the same shape and elements.
static bool isSame(mpc::ConstantOp op, mpc::ConstantOp other) {
  if (shapeOf(op.getResult()) != shapeOf(other.getResult()))
    return false;
  FailureOr<ConstantBytes> own = ConstantBytes::get(op.getValue()),
                           same = ConstantBytes::get(other.getValue());
  return succeeded(own) && succeeded(same) &&
         (own->bytes().data() == same->bytes().data() ||
          own->bytes() == same->bytes());
}

/// Returns true if attributes differ; the ops may belong to two contexts.
static bool isDifferent(Operation *op, Operation *other) {
  auto textOf = [](Operation *printed) {
    std::string text;
    llvm::raw_string_ostream(text) << printed->getAttrDictionary();
    return text;
  };
  return textOf(op) != textOf(other);
}

bool ExactImport::isSame(Value value, Value other) {
  counterparts[value] = other;
  if (auto found = pairs.find({value, other}); found != pairs.end())
    return found->second;
  Operation *op = value.getDefiningOp(), *same = other.getDefiningOp();
  bool isEqual = false;
  if (op && same &&
      op->getName().getStringRef() == same->getName().getStringRef() &&
      op->getNumOperands() == same->getNumOperands()) {
    auto constant = dyn_cast<mpc::ConstantOp>(op);
    isEqual = constant
                  ? ::isSame(constant, cast<mpc::ConstantOp>(same))
                  : shapeOf(value) == shapeOf(other) && !isDifferent(op, same);
    for (auto [own, theirs] :
         llvm::zip_equal(op->getOperands(), same->getOperands()))
      isEqual &= isSame(own, theirs);
  }
  return pairs[{value, other}] = isEqual;
}

/// Returns true if `op` looks rows of a weight up.
static bool isLookup(Operation *op) {
  return isa<GatherOp>(op) &&
         op->getOperand(0).getDefiningOp<mpc::ConstantOp>() &&
         isa<FloatType>(getElementTypeOrSelf(op->getResult(0)));
}

SmallVector<Operation *>
PaddedProgram::runTimeOps(func::FuncOp from, DenseSet<Value> &values) const {
  for (BlockArgument argument : from.getArguments()) {
    std::string name = argumentName(from, argument.getArgNumber());
    if (name == decoder.mask || name == decoder.positions)
      values.insert(argument);
  }
  SmallVector<Operation *> ops;
  for (Operation &op : from.getBody().front()) {
    bool isKnown = llvm::all_of(op.getOperands(), [&](Value operand) {
      return values.contains(operand);
    });
    if (!isKnown || isLookup(&op) || op.hasTrait<OpTrait::IsTerminator>())
      ops.push_back(&op);
    else
      values.insert(op.result_begin(), op.result_end());
  }
  return ops;
}

LogicalResult PaddedProgram::pair() {
  ops = runTimeOps(function, known);
  for (auto [exact, other] : llvm::zip_equal(exacts, functions)) {
    DenseSet<Value> values;
    SmallVector<Operation *> same = runTimeOps(other, values);
    for (auto [i, op] : llvm::enumerate(ops)) {
      bool isPair =
          i < same.size() &&
          op->getName().getStringRef() == same[i]->getName().getStringRef() &&
          op->getNumOperands() == same[i]->getNumOperands() &&
          op->getNumResults() == same[i]->getNumResults();
      for (unsigned k = 0; isPair && k < op->getNumOperands(); ++k)
        isPair = known.contains(op->getOperand(k)) ==
                 values.contains(same[i]->getOperand(k));
      if (!isPair)
        return op->emitError()
               << "exists only for some numbers of rows of the KV caches, so "
                  "the positions of tokens are unknown; export the model with "
                  "input '"
               << decoder.positions << "'";
      exact->twins[op] = same[i];
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Comparison of known values
//===----------------------------------------------------------------------===//

/// Calls `visit` with each index of a tensor, its offset, and the offset of the
/// element in a tensor of shape `other` whose index is less by `shift`, -1 if
/// there is none, until it returns false.
static bool
forEachAligned(ArrayRef<int64_t> shape, ArrayRef<int64_t> other,
               ArrayRef<int64_t> shift,
               function_ref<bool(ArrayRef<int64_t>, int64_t, int64_t)> visit) {
  int64_t rank = shape.size(), size = 1;
  for (int64_t extent : shape)
    size *= extent;
  SmallVector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < size; ++i) {
    int64_t aligned = 0;
    for (int64_t d = 0; d < rank && aligned >= 0; ++d) {
      int64_t at = index[d] - shift[d];
      aligned = at < 0 || at >= other[d] ? -1 : aligned * other[d] + at;
    }
    if (!visit(index, i, aligned))
      return false;
    for (int64_t d = rank - 1; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
  }
  return true;
}

/// Returns the dimensions in which `shape` has all cache rows and tokens, or
/// only tokens, because the extents of an exact import are other ones; nullopt
/// if an extent differs for another reason.
std::optional<Layout>
PaddedProgram::differingDimensions(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> other,
                                   const ExactImport &exact) const {
  Layout layout;
  if (shape.size() != other.size())
    return std::nullopt;
  for (auto [d, own, same] : llvm::enumerate(shape, other)) {
    if (own == same)
      continue;
    bool isRows = own == decoder.past + decoder.tokens &&
                  same == exact.past + exact.tokens,
         isTokens = own == decoder.tokens && same == exact.tokens;
    int64_t &dimension = isRows ? layout.rows : layout.tokens;
    if ((!isRows && !isTokens) || dimension >= 0)
      return std::nullopt;
    dimension = d;
  }
  return layout;
}

static double elementOf(const Tensor &tensor, int64_t i) {
  return tensor.isFloat() ? tensor.floats()[i] : double(tensor.ints()[i]);
}

/// Returns true if the difference is a rounding error of float64 arithmetic on
/// numbers of this size.
static bool isClose(double a, double b, double size) {
  constexpr double kRounding = 1e-9;
  return std::abs(a - b) <= kRounding * std::max(1.0, size);
}

static bool agree(const Tensor &own, int64_t i, const Tensor &other,
                  int64_t j) {
  double a = elementOf(own, i), b = elementOf(other, j);
  return a == b || (std::isnan(a) && std::isnan(b)) ||
         (own.isFloat() && isClose(a, b, std::max(std::abs(a), std::abs(b))));
}

static unsigned contentOf(double value) {
  return (std::isfinite(value) ? kFinite : 0) | (value == 0 ? kZero : 0) |
         (value == 1 ? kOne : 0) | (value <= kFill ? kNegative : 0) |
         (value >= -kFill ? kLarge : 0);
}

std::optional<Layout> PaddedProgram::compare(Value value, OpOperand &original,
                                             bool mayShift) {
  auto counterpart = [&](ExactImport &exact) {
    return exact.twins.at(original.getOwner())
        ->getOperand(original.getOperandNumber());
  };
  Layout layout{-1, -1, 0, kEverything, kEverything};
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t rank = shape.size();
  for (auto &exact : exacts) {
    std::optional<Layout> own =
        differingDimensions(shape, shapeOf(counterpart(*exact)), *exact);
    if (!own ||
        (layout.rows >= 0 && own->rows >= 0 && own->rows != layout.rows) ||
        (layout.tokens >= 0 && own->tokens >= 0 &&
         own->tokens != layout.tokens))
      return std::nullopt;
    layout.rows = std::max(layout.rows, own->rows);
    layout.tokens = std::max(layout.tokens, own->tokens);
  }
  if (layout.rows >= 0 && layout.rows == layout.tokens)
    return std::nullopt;
  for (auto &scenario : scenarios) {
    const Tensor *own = scenario->values.find(value);
    const Tensor *same =
        scenario->exact->values.find(counterpart(*scenario->exact));
    if (!own || !same)
      return std::nullopt;
    int64_t compared = own->size();
    if (scenario->isMixed && rank > 0 && shape[0] % decoder.batch == 0)
      compared /= decoder.batch;
    int64_t count = scenario->exact->tokens,
            unfilledRows = decoder.past - scenario->exact->past;
    SmallVector<int64_t> shift(rank, 0);
    int64_t rowStride = 1;
    if (layout.rows >= 0) {
      shift[layout.rows] = unfilledRows;
      for (int64_t extent : shape.drop_front(layout.rows + 1))
        rowStride *= extent;
    }
    // Differences by the offset of the first row.
    DenseMap<int64_t, double> shifts;
    bool agrees = forEachAligned(
        shape, same->getShape(), shift,
        [&](ArrayRef<int64_t> index, int64_t i, int64_t aligned) {
          int64_t row = layout.rows < 0 ? 0 : index[layout.rows],
                  token = layout.tokens < 0 ? 0 : index[layout.tokens];
          if (i >= compared || token >= count)
            return true;
          bool isUnfilled = layout.rows >= 0 && row < unfilledRows;
          bool isNewer = layout.rows >= 0 && row > decoder.past + token;
          unsigned content = contentOf(elementOf(*own, i));
          if (isUnfilled)
            layout.unfilled &= content;
          if (isNewer)
            layout.newer &= layout.tokens >= 0 ? content : kFinite & content;
          if (isUnfilled || (layout.rows >= 0 && row >= decoder.past + count))
            return true;
          if (aligned < 0)
            return false;
          bool isEqual = agree(*own, i, *same, aligned);
          double a = elementOf(*own, i), b = elementOf(*same, aligned);
          if (!mayShift || (a == b && std::isinf(a)))
            return isEqual;
          layout.isShifted |= !isEqual;
          double first =
              shifts.try_emplace(i - row * rowStride, a - b).first->second;
          return isClose(a - b, first, std::max(std::abs(a), std::abs(b)));
        });
    if (!agrees)
      return std::nullopt;
  }
  if (layout.rows < 0)
    layout.unfilled = layout.newer = kFinite;
  layout.isShifted &= layout.rows >= 0;
  return layout;
}

bool PaddedProgram::isCausal(OpOperand &operand, const Layout &layout) {
  auto valueOf = [&](ExactImport &exact) {
    return exact.values.find(exact.twins.at(operand.getOwner())
                                 ->getOperand(operand.getOperandNumber()));
  };
  auto agreesWith = [&](ExactImport &exact, ExactImport &other) {
    const Tensor *own = valueOf(exact), *same = valueOf(other);
    if (!own || !same || own->getRank() != same->getRank())
      return false;
    // Tokens are aligned at their positions, rows at the first.
    SmallVector<int64_t> shift(own->getRank(), 0);
    if (layout.tokens >= 0)
      shift[layout.tokens] = other.past - exact.past;
    std::map<SmallVector<int64_t>, double> shifts;
    return forEachAligned(
        own->getShape(), same->getShape(), shift,
        [&](ArrayRef<int64_t> index, int64_t i, int64_t aligned) {
          bool isLater = layout.rows >= 0 && layout.tokens >= 0 &&
                         index[layout.rows] > exact.past + index[layout.tokens];
          if (aligned < 0 || isLater)
            return true;
          if (!layout.isShifted)
            return agree(*own, i, *same, aligned);
          SmallVector<int64_t> line(index);
          line[layout.rows] = 0;
          double a = elementOf(*own, i), b = elementOf(*same, aligned);
          double first = shifts.try_emplace(line, a - b).first->second;
          return isClose(a - b, first, std::max(std::abs(a), std::abs(b)));
        });
  };
  return decoder.tokens == 1 ||
         llvm::all_of(ArrayRef(exacts).drop_front(), [&](auto &other) {
           return llvm::all_of(
               exacts, [&](auto &exact) { return agreesWith(*exact, *other); });
         });
}

bool PaddedProgram::agreesAtStart(Value value) {
  return llvm::all_of(scenarios, [&](auto &scenario) {
    Value other = scenario->exact->counterparts.lookup(value);
    const Tensor *own = scenario->values.find(value),
                 *same = other ? scenario->exact->values.find(other) : nullptr;
    return own && same && own->getRank() == same->getRank() &&
           forEachAligned(own->getShape(), same->getShape(),
                          SmallVector<int64_t>(own->getRank(), 0),
                          [&](ArrayRef<int64_t>, int64_t i, int64_t aligned) {
                            return aligned < 0 ||
                                   agree(*own, i, *same, aligned);
                          });
  });
}

//===----------------------------------------------------------------------===//
// Repair of positions
//===----------------------------------------------------------------------===//

std::optional<PaddedProgram::Steps> PaddedProgram::stepsOf(mpc::ConstantOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (!isa<IntegerType>(type.getElementType()) ||
      type.getElementType().isInteger(1) || type.getNumElements() == 0)
    return std::nullopt;
  // Imports with all tokens give the step per row, the others that per token.
  std::optional<int64_t> rowStep, tokenStep;
  for (bool isFull : {true, false})
    for (auto &exact : exacts) {
      int64_t moreRows = decoder.past - exact->past,
              moreTokens = decoder.tokens - exact->tokens;
      if ((moreTokens == 0) != isFull)
        continue;
      Value other = exact->counterparts.lookup(op.getResult());
      std::optional<Layout> layout;
      if (other)
        layout = differingDimensions(type.getShape(), shapeOf(other), *exact);
      if (!layout)
        return std::nullopt;
      const Tensor *own = scenarios.front()->values.find(op.getResult()),
                   *same = exact->values.find(other);
      SmallVector<int64_t> shift(type.getRank(), 0);
      if (layout->rows >= 0)
        shift[layout->rows] = moreRows;
      std::optional<int64_t> &step = isFull ? rowStep : tokenStep;
      int64_t more = isFull ? moreRows : moreTokens;
      bool agrees =
          forEachAligned(type.getShape(), same->getShape(), shift,
                         [&](ArrayRef<int64_t>, int64_t i, int64_t aligned) {
                           if (aligned < 0)
                             return true;
                           int64_t difference =
                               own->ints()[i] - same->ints()[aligned];
                           if (!isFull)
                             difference -= rowStep.value_or(0) * moreRows;
                           if (!step && difference % more == 0)
                             step = difference / more;
                           return step && difference == *step * more;
                         });
      if (!agrees)
        return std::nullopt;
    }
  return Steps{rowStep.value_or(0), tokenStep.value_or(0)};
}

FailureOr<Value> PaddedProgram::argument(Operation *reader) {
  if (added)
    return added;
  if (decoder.batch != 1) {
    isRefused = true;
    return reader->emitError()
           << "computes positions from the number of rows of the KV caches, "
              "which is the same for all "
           << decoder.batch
           << " slots; open one slot, or export the model with input '"
           << decoder.positions << "'";
  }
  for (BlockArgument given : function.getArguments())
    if (argumentName(function, given.getArgNumber()) == decoder.positions)
      return added = given;
  Builder builder(function.getContext());
  unsigned index = function.getNumArguments();
  NamedAttrList attributes;
  attributes.append(
      MpcDialect::kRoleAttr,
      RoleAttr::get(builder.getContext(), RoleKind::input, StringAttr()));
  attributes.append(MpcDialect::kNameAttr,
                    builder.getStringAttr(decoder.positions));
  if (failed(function.insertArgument(
          index,
          RankedTensorType::get({decoder.batch, decoder.tokens},
                                builder.getI64Type()),
          attributes.getDictionary(builder.getContext()), function.getLoc())))
    return failure();
  return added = function.getArgument(index);
}

/// Returns `op` for the true number of rows and tokens.
FailureOr<Value> PaddedProgram::shifted(mpc::ConstantOp op, Steps steps) {
  FailureOr<Value> given = argument(op);
  if (failed(given))
    return failure();
  Location loc = op.getLoc();
  OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
  auto type = cast<RankedTensorType>(op.getType());
  auto scalar = type.clone(ArrayRef<int64_t>());
  Tensor offset = *scenarios.front()->values.find(op.getResult());
  int64_t first = offset.ints()[0];
  // Either the positions of the tokens, or values that depend on the positions
  // of the first and the last token.
  bool counts = steps.rows == 1 && steps.tokens == 0 &&
                type.getNumElements() == decoder.tokens;
  for (auto [i, element] : llvm::enumerate(offset.ints()))
    counts &= element - first == int64_t(i);
  for (auto [i, element] : llvm::enumerate(offset.ints()))
    element -= steps.rows * decoder.past + (counts ? int64_t(i) : 0) +
               steps.tokens * (decoder.tokens - 1);
  Value positions = *given, sum;
  if (auto own = cast<RankedTensorType>(positions.getType());
      own.getElementType() != type.getElementType())
    positions = CastOp::create(builder, loc, own.clone(type.getElementType()),
                               positions);
  auto addTerm = [&](Value term) {
    sum = sum ? AddOp::create(builder, loc, sum, term).getResult() : term;
  };
  auto addPosition = [&](int64_t token, int64_t factor) {
    if (factor == 0)
      return;
    SmallVector<int64_t> offsets = {0, token}, ones = {1, 1};
    Value term = SliceOp::create(builder, loc, type.clone(ones), positions,
                                 builder.getDenseI64ArrayAttr(offsets),
                                 builder.getDenseI64ArrayAttr(ones),
                                 DenseI64ArrayAttr());
    term = ReshapeOp::create(builder, loc, scalar, term);
    if (factor != 1) {
      Value constant = mpc::ConstantOp::create(
          builder, loc, makeSplat(scalar, double(factor)));
      term = MulOp::create(builder, loc, term, constant);
    }
    addTerm(term);
  };
  if (counts)
    addTerm(ReshapeOp::create(builder, loc, type, positions));
  else
    addPosition(0, steps.rows - steps.tokens);
  addPosition(decoder.tokens - 1, steps.tokens);
  if (!counts || llvm::any_of(offset.ints(), [](int64_t i) { return i != 0; }))
    addTerm(mpc::ConstantOp::create(builder, loc, offset.toAttr("positions")));
  return sum;
}

/// Returns the known `value` with positions instead of constants; the value
/// itself if it contains none.
Value PaddedProgram::repaired(Value value) {
  if (Value found = repairs.lookup(value))
    return found;
  Operation *op = value.getDefiningOp();
  Value result = value;
  if (auto constant = dyn_cast_or_null<mpc::ConstantOp>(op)) {
    if (std::optional<Steps> steps = stepsOf(constant);
        steps && (steps->rows != 0 || steps->tokens != 0))
      if (FailureOr<Value> moved = shifted(constant, *steps); succeeded(moved))
        result = *moved;
  } else if (op) {
    SmallVector<Value> operands(op->getOperands());
    for (auto [i, operand] : llvm::enumerate(operands)) {
      // An index into cache rows counts from the same row in both imports.
      bool isRow = i == 1 && isa<GatherOp, GatherElementsOp, GatherNdOp>(op) &&
                   !agreesAtStart(op->getOperand(0));
      if (!isRow)
        operand = repaired(operand);
    }
    if (!llvm::equal(operands, op->getOperands())) {
      OpBuilder builder(op);
      Operation *copy = builder.clone(*op);
      copy->setOperands(operands);
      result = copy->getResult(cast<OpResult>(value).getResultNumber());
    }
  }
  return repairs[value] = result;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

LogicalResult PaddedProgram::refuseValue(Operation *op, Value value) {
  if (isRefused)
    return failure();
  return op->emitError()
         << "reads " << value.getType()
         << " that depends on the number of rows of the KV caches other than "
            "as positions or distances of tokens; export the model with input '"
         << decoder.positions << "'";
}

LogicalResult PaddedProgram::refuseMixing(Operation *op, const Layout &layout) {
  // Scores that are hidden at unfilled rows only show later tokens.
  bool showsLater = decoder.tokens > 1 && layout.unfilled & kNegative &&
                    !(layout.newer & kNegative);
  if (layout.rows >= 0 && !showsLater)
    return op->emitError()
           << "reads rows of a KV cache that may be unfilled and are not "
              "hidden by input '"
           << decoder.mask
           << "'; export the model so that each use of the cache is masked";
  return op->emitError() << "combines tokens of a prompt other than by masked "
                            "attention, but prompts are computed in padded "
                            "chunks; export the model with causal attention";
}

LogicalResult PaddedProgram::refuseSelection(Operation *op) {
  return op->emitError()
         << "selects tokens by their place in a chunk of a prompt, such as the "
            "last one, but the last chunk is padded; export the model with "
            "logits of all tokens";
}

//===----------------------------------------------------------------------===//
// Run-time values
//===----------------------------------------------------------------------===//

FailureOr<Layout> PaddedProgram::layoutOf(OpOperand &operand) {
  Value value = operand.get();
  if (!isKnown(value))
    return layouts.lookup(value);
  Operation *op = operand.getOwner();
  unsigned number = operand.getOperandNumber();
  bool isIndependent = true;
  for (auto &exact : exacts)
    isIndependent &=
        exact->isSame(value, exact->twins.at(op)->getOperand(number));
  if (isIndependent) {
    Layout layout;
    if (std::optional<double> splat = constantSplat(value))
      layout.unfilled = layout.newer = contentOf(*splat);
    return layout;
  }
  // Layers share masks and rotary angles.
  std::vector<const void *> key = {value.getAsOpaquePointer(),
                                   op->getName().getAsOpaquePointer()};
  for (auto &exact : exacts)
    key.push_back(exact->twins.at(op)->getOperand(number).getAsOpaquePointer());
  auto [entry, isNew] = comparisons.try_emplace(std::move(key));
  auto &[layout, agreeing] = entry->second;
  if (isNew) {
    layout = compare(agreeing = value, operand, /*mayShift=*/false);
    if (!layout && isa<AddOp>(op) &&
        isa<FloatType>(getElementTypeOrSelf(value)))
      layout = compare(value, operand, /*mayShift=*/true);
    if (!layout)
      layout = compare(agreeing = repaired(value), operand, /*mayShift=*/false);
    if (layout && !isCausal(operand, *layout))
      return op->emitError()
             << "reads " << value.getType()
             << " that depends on the number of all tokens of a prompt, but "
                "prompts are computed in chunks of "
             << decoder.tokens
             << " tokens, which do not know how many follow; export the model "
                "so that each token depends on its own position";
  }
  if (!layout)
    return refuseValue(op, value);
  if (agreeing != value) {
    operand.set(agreeing);
    if (number == 1 && isLookup(op))
      op->setDiscardableAttr(kCheckedIndicesAttr,
                             UnitAttr::get(function.getContext()));
  }
  return *layout;
}

/// Returns what an elementwise op gives at hidden rows for operands of the
/// given contents.
static unsigned contentOf(Operation *op, ArrayRef<unsigned> in,
                          ArrayRef<bool> isHidden) {
  unsigned all = kEverything;
  for (unsigned content : in)
    all &= content;
  Type element = getElementTypeOrSelf(op->getResult(0));
  bool isInteger = isa<IntegerType>(element), isBoolean = element.isInteger(1);
  unsigned finite = isInteger ? kFinite : all & kFinite, a = in[0],
           b = in.back();
  auto bit = [](bool holds, unsigned content) { return holds ? content : 0u; };
  auto isModest = [](unsigned content) {
    return (content & (kFinite | kNegative)) && !(content & kLarge);
  };
  // Scales that leave very negative values very negative.
  constexpr double kLeastScale = 1.0 / 64;
  auto scale = [&](unsigned number) {
    return isHidden[number] ? 0
                            : constantSplat(op->getOperand(number)).value_or(0);
  };
  if (isa<CastOp>(op))
    return isInteger ? kFinite | (a & (kZero | kOne)) : a;
  if (isa<AddOp>(op))
    return finite | (all & kZero) |
           bit((a & kNegative && isModest(b)) || (b & kNegative && isModest(a)),
               kNegative);
  if (isa<SubOp>(op))
    return finite | (all & kZero) |
           bit((a & kNegative && b & kFinite && !(b & kNegative)) ||
                   (a & kFinite && !(a & kLarge) && b & kLarge),
               kNegative);
  if (isa<MulOp>(op))
    return finite | bit(finite && (a | b) & kZero, kZero) |
           bit((a & kNegative && scale(1) >= kLeastScale) ||
                   (b & kNegative && scale(0) >= kLeastScale),
               kNegative);
  if (isa<DivOp>(op))
    return bit(a & kFinite && !isHidden[1], kFinite | (a & kZero)) |
           bit(a & kNegative && scale(1) > 0 && scale(1) <= 1 / kLeastScale,
               kNegative);
  if (isa<MaxOp>(op))
    return all & (kFinite | kNegative | kZero);
  if (isa<MinOp>(op))
    return finite |
           bit((a & kNegative && b) || (b & kNegative && a), kNegative);
  if (isa<SelectOp>(op))
    return (a & kZero ? in[2] : 0) | (a & kOne ? in[1] : 0) | (in[1] & in[2]);
  if (isa<ClampOp>(op))
    return finite | (a & in[1] & kNegative);
  if (isa<NegOp>(op))
    return (a & (kFinite | kZero)) | bit(a & kLarge, kNegative) |
           bit(a & kNegative, kLarge);
  if (isa<ExpOp>(op))
    return bit(a & kNegative, kZero | kFinite);
  if (isa<AndOp>(op))
    return finite | ((a | b) & kZero);
  if (isa<OrOp>(op))
    return finite | (all & kZero);
  if (isa<NotOp>(op) && isBoolean)
    return kFinite | bit(a & kZero, kOne) | bit(a & kOne, kZero);
  return isInteger || op->hasTrait<KeepsFinite>() ? finite : 0;
}

LogicalResult PaddedProgram::visitElementwise(Operation *op,
                                              ArrayRef<Layout> operands) {
  int64_t rank = shapeOf(op->getResult(0)).size();
  Layout layout;
  auto join = [&](int64_t &own, int64_t dimension, Value operand) {
    if (dimension < 0)
      return true;
    dimension += rank - int64_t(shapeOf(operand).size());
    if (own >= 0 && own != dimension)
      return false;
    own = dimension;
    return true;
  };
  for (auto [operand, each] : llvm::zip_equal(op->getOperands(), operands)) {
    if (!join(layout.rows, each.rows, operand) ||
        !join(layout.tokens, each.tokens, operand))
      return refuseMixing(op, each);
    layout.tail = std::max(layout.tail, each.tail);
    layout.isShifted |= each.isShifted;
  }
  if (layout.rows >= 0 && layout.rows == layout.tokens)
    return refuseMixing(op, layout);
  SmallVector<unsigned> unfilled, newer;
  SmallVector<bool> isHidden;
  for (auto [operand, each] : llvm::zip_equal(op->getOperands(), operands)) {
    bool hasRows = each.rows >= 0;
    int64_t own = layout.rows - (rank - int64_t(shapeOf(operand).size()));
    if (layout.tail > 0 && each.tail != layout.tail && own >= 0 &&
        shapeOf(operand)[own] != 1)
      return refuseMixing(op, layout);
    isHidden.push_back(hasRows);
    unfilled.push_back(each.unfilled);
    newer.push_back(each.newer);
  }
  layout.unfilled = contentOf(op, unfilled, isHidden);
  layout.newer = contentOf(op, newer, isHidden);
  layouts[op->getResult(0)] = layout;
  return success();
}

LogicalResult PaddedProgram::visitMatmul(MatmulOp op, Layout lhs, Layout rhs) {
  int64_t lhsRank = shapeOf(op.getLhs()).size(),
          rhsRank = shapeOf(op.getRhs()).size(),
          rank = shapeOf(op.getResult()).size();
  int64_t lhsDepth = lhsRank - (op.getTransposeLhs() ? 2 : 1),
          rhsDepth = rhsRank - (op.getTransposeRhs() ? 1 : 2);
  if (lhs.tail || rhs.tail || op.getPacked())
    return refuseMixing(op, lhs.tail ? lhs : rhs);
  if (lhs.tokens == lhsDepth || rhs.tokens == rhsDepth) {
    lhs.rows = -1;
    lhs.tokens = 0;
    return refuseMixing(op, lhs);
  }
  bool isFinite = hides(lhs, kFinite) && hides(rhs, kFinite);
  if (lhs.rows == lhsDepth || rhs.rows == rhsDepth) {
    bool isZero = (lhs.rows == lhsDepth && hides(lhs, kZero)) ||
                  (rhs.rows == rhsDepth && hides(rhs, kZero));
    if (!isZero || !isFinite || (lhs.rows >= 0 && lhs.rows != lhsDepth) ||
        (rhs.rows >= 0 && rhs.rows != rhsDepth))
      return refuseMixing(op, lhs.rows == lhsDepth ? lhs : rhs);
    lhs.rows = rhs.rows = -1;
  }
  // Dimensions of the result: batch dimensions are aligned at their end.
  auto place = [&](int64_t dimension, int64_t own, int64_t depth, bool isRhs) {
    if (dimension < 0)
      return int64_t(-1);
    if (dimension < own - 2)
      return dimension + rank - own;
    assert(dimension != depth);
    return rank - (isRhs ? 1 : 2);
  };
  Layout layout;
  layout.rows = place(lhs.rows, lhsRank, lhsDepth, false);
  layout.tokens = place(lhs.tokens, lhsRank, lhsDepth, false);
  int64_t rows = place(rhs.rows, rhsRank, rhsDepth, true),
          tokens = place(rhs.tokens, rhsRank, rhsDepth, true);
  if ((rows >= 0 && layout.rows >= 0 && rows != layout.rows) ||
      (tokens >= 0 && layout.tokens >= 0 && tokens != layout.tokens))
    return refuseMixing(op, rows >= 0 ? rhs : lhs);
  layout.rows = std::max(layout.rows, rows);
  layout.tokens = std::max(layout.tokens, tokens);
  layout.unfilled = layout.newer = isFinite ? kFinite : kAnything;
  layouts[op.getResult()] = layout;
  return success();
}

void PaddedProgram::clampHiddenIndices(OpOperand &operand) {
  Value value = operand.get();
  for (auto &exact : exacts) {
    const Tensor *same =
        exact->values.find(exact->twins.at(operand.getOwner())->getOperand(1));
    if (!same || llvm::any_of(same->ints(), [](int64_t i) { return i < 0; }))
      return;
  }
  OpBuilder builder(operand.getOwner());
  auto scalar = RankedTensorType::get({}, getElementTypeOrSelf(value));
  operand.set(MaxOp::create(
      builder, value.getLoc(), value,
      mpc::ConstantOp::create(builder, value.getLoc(), makeSplat(scalar, 0))));
}

LogicalResult PaddedProgram::visitAttention(AttentionOp op) {
  int64_t rank = shapeOf(op.getQuery()).size();
  FailureOr<Layout> query = layoutOf(op.getQueryMutable()),
                    key = layoutOf(op.getKeyMutable()),
                    value = layoutOf(op.getValueMutable());
  if (failed(query) || failed(key) || failed(value))
    return failure();
  Layout mask{-1, -1, 0, kAnything, kAnything};
  unsigned fill = kNegative;
  if (op.getMask()) {
    int64_t own = shapeOf(op.getMask()).size();
    FailureOr<Layout> given = layoutOf(op.getMaskMutable()[0]);
    if (failed(given))
      return failure();
    mask = *given;
    if (isa<IntegerType>(getElementTypeOrSelf(op.getMask())))
      fill = kZero;
    if (mask.rows != own - 1)
      mask.unfilled = mask.newer = kAnything;
  }
  if (op.getCausal())
    mask.newer = kEverything;
  if (key->rows != rank - 2 || value->rows != rank - 2 || query->rows >= 0 ||
      !hides(*key, kFinite) || !hides(*value, kFinite) || !hides(mask, fill))
    return refuseMixing(op, *key);
  Layout layout;
  layout.tokens = decoder.tokens > 1 ? rank - 2 : -1;
  if (query->tokens != layout.tokens)
    return refuseMixing(op, *query);
  layouts[op.getResult()] = layout;
  return success();
}

LogicalResult PaddedProgram::visitReduction(Operation *op, Layout layout) {
  SmallVector<int64_t> axes = cast<ReductionOpInterface>(op).getReductionAxes();
  if (llvm::is_contained(axes, layout.tokens))
    return refuseMixing(op, Layout{-1, layout.tokens});
  unsigned content = hides(layout, kFinite) ? kFinite : kAnything;
  if (llvm::is_contained(axes, layout.rows)) {
    bool isMasked = isa<ReduceSumOp>(op) ? hides(layout, kZero)
                                         : isa<SoftmaxOp, ReduceMaxOp>(op) &&
                                               hides(layout, kNegative);
    if (!isMasked || axes.size() != 1)
      return refuseMixing(op, layout);
    if (isa<SoftmaxOp>(op))
      content = kZero | kFinite, layout.isShifted = false;
    else
      layout = Layout{-1, layout.tokens};
  }
  int64_t rank = shapeOf(op->getOperand(0)).size();
  for (Value result : op->getResults()) {
    Layout reduced = layout;
    if (int64_t(shapeOf(result).size()) < rank)
      for (int64_t *dimension : {&reduced.rows, &reduced.tokens})
        *dimension -= llvm::count_if(
            axes, [&](int64_t axis) { return axis < *dimension; });
    reduced.unfilled = reduced.newer = content;
    layouts[result] = reduced;
  }
  return success();
}

LogicalResult PaddedProgram::visitSlice(SliceOp op, Layout layout) {
  ArrayRef<int64_t> shape = shapeOf(op.getInput());
  for (int64_t d = 0, rank = shape.size(); d < rank; ++d) {
    int64_t end = op.getOffsets()[d] + op.getSizes()[d];
    bool isWhole = op.getSizes()[d] == shape[d];
    if (d == layout.tokens && !isWhole)
      return refuseSelection(op);
    if (d != layout.rows || isWhole)
      continue;
    // Only attention sinks may be removed, or the oldest rows of a single
    // token: the newest row of a chunk may be a padding token.
    bool keepsAll =
        op.getSizes()[d] == shape[d] - layout.tail && layout.tail > 0;
    bool keepsNewest =
        end == shape[d] - layout.tail && (keepsAll || decoder.tokens == 1);
    for (auto &exact : exacts) {
      auto other = cast<SliceOp>(exact->twins.at(op));
      int64_t most = exact->past + exact->tokens;
      keepsNewest &= other.getOffsets()[d] + other.getSizes()[d] == most &&
                     other.getSizes()[d] ==
                         (keepsAll ? most : std::min(op.getSizes()[d], most)) &&
                     other.getStrideValues()[d] == 1;
    }
    if (!keepsNewest || op.getStrideValues()[d] != 1)
      return refuseMixing(op, layout);
    layout.tail = 0;
  }
  layouts[op.getResult()] = layout;
  return success();
}

LogicalResult PaddedProgram::visitConcat(ConcatOp op,
                                         ArrayRef<Layout> operands) {
  int64_t axis = op.getAxis();
  if (auto past = dyn_cast<BlockArgument>(op.getInputs().front()))
    for (const GrowingCache &cache : caches)
      if (cache.argument == argumentName(function, past.getArgNumber())) {
        for (const Layout &fresh : operands.drop_front())
          if (fresh.rows >= 0 ||
              fresh.tokens != (decoder.tokens > 1 ? axis : -1))
            return refuseMixing(op, fresh);
        if (axis != cache.axis ||
            shapeOf(op.getResult())[axis] != decoder.past + decoder.tokens)
          return refuseMixing(op, Layout{axis});
        layouts[op.getResult()] = Layout{axis};
        return success();
      }
  Layout layout = operands.front();
  for (auto [i, each] : llvm::enumerate(operands.drop_front())) {
    if (layout.rows == axis && layout.rows >= 0) {
      // Attention sinks, one more score for each token.
      if (each.rows >= 0)
        return refuseMixing(op, layout);
      layout.tail += shapeOf(op.getInputs()[i + 1])[axis];
    } else {
      if (each.rows >= 0 && layout.rows >= 0 && each.rows != layout.rows)
        return refuseMixing(op, layout);
      layout.rows = std::max(layout.rows, each.rows);
    }
    if (each.tokens >= 0 && layout.tokens >= 0 && each.tokens != layout.tokens)
      return refuseMixing(op, layout);
    layout.tokens = std::max(layout.tokens, each.tokens);
    if (each.tail && each.tail != layout.tail)
      return refuseMixing(op, layout);
    layout.unfilled &= each.rows >= 0 ? each.unfilled : kEverything;
    layout.newer &= each.rows >= 0 ? each.newer : kEverything;
  }
  if (layout.tokens == axis || (layout.rows == axis && !layout.tail))
    return refuseMixing(op, layout);
  layouts[op.getResult()] = layout;
  return success();
}

LogicalResult PaddedProgram::visitGather(GatherOp op, Layout input,
                                         Layout index) {
  int64_t axis = op.getAxis(), width = shapeOf(op.getIndices()).size();
  if (input.tokens == axis)
    return refuseSelection(op);
  if (input.rows == axis || input.tail ||
      (input.rows >= 0 && index.rows >= 0) ||
      (input.tokens >= 0 && index.tokens >= 0))
    return refuseMixing(op, input);
  auto place = [&](int64_t own, int64_t indexed) {
    return indexed >= 0 ? axis + indexed : own + (own > axis ? width - 1 : 0);
  };
  Layout layout;
  layout.rows = place(input.rows, index.rows);
  layout.tokens = place(input.tokens, index.tokens);
  layout.unfilled = input.unfilled & kFinite;
  layout.newer = input.newer & kFinite;
  layouts[op.getResult()] = layout;
  return success();
}

/// Returns the dimension of `to` that holds dimension `dimension` of `from`
/// after a reshape; -1 if there is none.
static int64_t reshapedDimension(ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                                 int64_t dimension) {
  int64_t after = 1, found = 1;
  for (int64_t extent : from.drop_front(dimension + 1))
    after *= extent;
  for (int64_t d = to.size() - 1; d >= 0; found *= to[d--])
    if (found == after && to[d] == from[dimension])
      return d;
  return -1;
}

LogicalResult PaddedProgram::visitRunTime(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return visitAttention(attention);
  auto gather = dyn_cast<GatherOp>(op);
  SmallVector<Layout> operands;
  for (OpOperand &operand : op->getOpOperands()) {
    FailureOr<Layout> layout = layoutOf(operand);
    if (failed(layout))
      return failure();
    if (operand.getOperandNumber() == 1 && isLookup(op) && layout->rows >= 0)
      clampHiddenIndices(operand);
    operands.push_back(*layout);
  }
  for (auto [i, layout] : llvm::enumerate(operands)) {
    auto softmax = dyn_cast<SoftmaxOp>(op);
    bool keepsShift = isa<AddOp, CastOp>(op) ||
                      (softmax && int64_t(softmax.getAxis()) == layout.rows) ||
                      (isa<SelectOp>(op) && i > 0 && operands[3 - i].rows < 0 &&
                       operands[3 - i].unfilled & kNegative);
    if (layout.isShifted && !keepsShift)
      return refuseValue(op, op->getOperand(i));
  }
  bool isTracked = llvm::any_of(operands, [](const Layout &layout) {
    return layout.rows >= 0 || layout.tokens >= 0;
  });
  const Layout &first = operands.front();
  for (auto &exact : exacts)
    if (!isa<SliceOp, ReshapeOp, BroadcastOp>(op) &&
        isDifferent(op, exact->twins.at(op)))
      return refuseMixing(op, first);
  if (isa<GatherElementsOp, ScatterElementsOp>(op)) {
    int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
    for (const Layout &layout : operands)
      if (layout.rows == axis || layout.tokens == axis)
        return refuseMixing(op, layout);
    return visitElementwise(op, operands);
  }
  if (isa<ElementwiseOpInterface>(op))
    return visitElementwise(op, operands);
  if (auto matmul = dyn_cast<MatmulOp>(op))
    return visitMatmul(matmul, operands[0], operands[1]);
  if (isa<ReductionOpInterface>(op) &&
      llvm::none_of(ArrayRef(operands).drop_front(), [](const Layout &layout) {
        return layout.rows >= 0 || layout.tokens >= 0;
      }))
    return visitReduction(op, first);
  if (auto slice = dyn_cast<SliceOp>(op))
    return visitSlice(slice, first);
  if (auto concat = dyn_cast<ConcatOp>(op))
    return visitConcat(concat, operands);
  if (gather)
    return visitGather(gather, operands[0], operands[1]);
  Layout layout = first;
  SmallVector<int64_t *> dimensions = {&layout.rows, &layout.tokens};
  if (isa<ReshapeOp, TransposeOp, BroadcastOp, OneHotOp, TopKOp>(op) &&
      !layout.tail) {
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                      to = shapeOf(op->getResult(0));
    for (int64_t *dimension : dimensions) {
      if (*dimension < 0)
        continue;
      int64_t own = *dimension;
      if (isa<ReshapeOp>(op))
        *dimension = reshapedDimension(from, to, own);
      else if (auto transpose = dyn_cast<TransposeOp>(op))
        *dimension = llvm::find(transpose.getPermutation(), own) -
                     transpose.getPermutation().begin();
      else if (isa<BroadcastOp>(op))
        *dimension += int64_t(to.size()) - int64_t(from.size());
      else if (auto oneHot = dyn_cast<OneHotOp>(op))
        *dimension += own >= int64_t(oneHot.getAxis());
      else if (int64_t(cast<TopKOp>(op).getAxis()) == own)
        *dimension = -1;
      if (*dimension < 0)
        return refuseMixing(op, first);
    }
    if (isa<TopKOp, OneHotOp>(op))
      layout.unfilled = layout.newer = kFinite;
    for (Value result : op->getResults())
      layouts[result] = layout;
    return success();
  }
  if (isTracked)
    return refuseMixing(op, *llvm::find_if(operands, [](const Layout &each) {
                          return each.rows >= 0 || each.tokens >= 0;
                        }));
  for (Value result : op->getResults())
    layouts[result] = Layout();
  return success();
}

LogicalResult PaddedProgram::visit(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return visitResults(op);
  if (failed(visitRunTime(op)))
    return failure();
  // All dimensions that depend on the number of rows are tracked.
  for (Value result : op->getResults())
    for (auto &exact : exacts) {
      ArrayRef<int64_t> own = shapeOf(result),
                        other = shapeOf(exact->twins.at(op)->getResult(
                            cast<OpResult>(result).getResultNumber()));
      if (own.size() != other.size())
        return refuseMixing(op, Layout{0});
      Layout &layout = layouts[result];
      for (int64_t d = 0, rank = own.size(); d < rank; ++d) {
        // The newest rows, or all.
        int64_t all = decoder.past + decoder.tokens,
                visible = exact->past + exact->tokens,
                extent = own[d] - layout.tail;
        bool isTokens = own[d] == decoder.tokens && other[d] == exact->tokens;
        if (d == layout.rows
                ? other[d] - layout.tail ==
                      (extent == all ? visible : std::min(extent, visible))
            : d == layout.tokens ? isTokens
                                 : own[d] == other[d])
          continue;
        int64_t &dimension = isTokens ? layout.tokens : layout.rows;
        if (dimension >= 0 || !isa<BroadcastOp>(op) ||
            !(isTokens || (own[d] == all && other[d] == visible)))
          return refuseMixing(op, isTokens ? Layout{-1, d} : Layout{d});
        dimension = d;
      }
      if (layout.rows < 0)
        layout.unfilled = layout.newer = kFinite;
    }
  return success();
}

LogicalResult PaddedProgram::visitResults(Operation *terminator) {
  auto nameOf = [&](unsigned i) {
    auto name =
        function.getResultAttrOfType<StringAttr>(i, MpcDialect::kNameAttr);
    return name ? name.getValue() : StringRef();
  };
  unsigned logits = 0;
  for (unsigned i = 0; i < terminator->getNumOperands(); ++i)
    if (nameOf(i) == "logits")
      logits = i;
  Value value = terminator->getOperand(logits);
  Layout layout = layouts.lookup(value);
  Operation *op = value.getDefiningOp();
  if (layout.rows >= 0 || (decoder.tokens > 1 && layout.tokens != 1))
    return refuseMixing(op ? op : terminator, layout);
  return success();
}

LogicalResult PaddedProgram::run() {
  if (failed(pair()))
    return failure();
  for (BlockArgument argument : function.getArguments()) {
    layouts[argument] = decoder.tokens > 1 ? Layout{-1, 1} : Layout();
    for (const GrowingCache &cache : caches)
      if (argumentName(function, argument.getArgNumber()) == cache.argument)
        layouts[argument] = Layout{cache.axis};
  }
  for (Operation *op : ops)
    if (failed(visit(op)))
      return failure();
  if (added)
    function.setType(FunctionType::get(
        function.getContext(), function.getBody().getArgumentTypes(),
        function.getBody().front().getTerminator()->getOperandTypes()));
  return success();
}

LogicalResult mpc::placePositions(func::FuncOp function,
                                  ArrayRef<func::FuncOp> exact,
                                  ArrayRef<GrowingCache> caches,
                                  const PaddedDecoder &decoder) {
  return PaddedProgram(function, exact, caches, decoder).run();
}
