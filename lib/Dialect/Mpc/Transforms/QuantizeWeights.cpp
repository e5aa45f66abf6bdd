//===- QuantizeWeights.cpp - quantize weights by policy -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weight-only quantization: rounds constant right-hand sides and filters to the
// policy's weight format, in f32 (fake quantization). mpc-compress-panels later
// chooses the storage. A stage of its own, between Simplify and Precision.
//
//===----------------------------------------------------------------------===//

#include "PolicyOption.h"
#include "RoundConstant.h"

#include "mpc/Analysis/ActivationMoments.h"
#include "mpc/Analysis/OpNames.h"
#include "mpc/Analysis/WeightColumns.h"
#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcContractionOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConvolutionOps.h"
#include "mpc/Dialect/Mpc/IR/StepFunction.h"
#include "mpc/Dialect/Mpc/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/BLAKE3.h"

#include <cstring>
#include <map>

namespace mpc {
#define GEN_PASS_DEF_QUANTIZEWEIGHTSPASS
#include "mpc/Dialect/Mpc/Transforms/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {

struct QuantizeWeightsPass
    : mpc::impl::QuantizeWeightsPassBase<QuantizeWeightsPass> {
  using Base::Base;

  LogicalResult initialize(MLIRContext *context) override {
    FailureOr<Policy> found = policyWith(policy, sets, context);
    if (succeeded(found))
      chosen = std::move(*found);
    return found;
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
  /// Describes the first quantized format in the policy.
  std::string describeNarrow() const {
    if (chosen.getWeights().isNarrow())
      return chosen.getWeights().describe();
    for (const auto &[name, format] : chosen.getNamedWeights())
      if (format.isNarrow())
        return format.describe();
    for (const LayerPolicy &layer : chosen.getLayers())
      if (layer.policy->getWeights().isNarrow())
        return layer.policy->getWeights().describe();
    return chosen.getWeights().describe();
  }

  LogicalResult checkParameters(func::FuncOp function) {
    StepFunction step(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (RoleAttr role = step.argumentRole(i);
          role && role.getKind() == RoleKind::parameter)
        return function.emitError()
               << "policy '" << chosen.getName() << "' stores weights as "
               << describeNarrow()
               << ", but the weights of a training step are arguments; train "
                  "with float32 weights and quantize the trained model";
    return success();
  }

  /// Returns the storage format of the constant of `op`.
  FailureOr<StoredWeights> formatOf(Operation *op) {
    FailureOr<OpPolicy> found = policyOf(op, chosen, /*isBackward=*/false);
    if (failed(found))
      return failure();
    auto [policy, override] = *found;
    // An override to float32 also applies to the stored weights.
    if (override && (override->type == PolicyType::Float32 ||
                     override->type == PolicyType::Float64))
      return StoredWeights();
    StringRef kind = cast<PrecisionOpInterface>(op).getPrecisionKind();
    SmallVector<StringRef> names = opNames(op);
    PolicyType type = PolicyType::Float32;
    if (policy->classOf(kind) == PrecisionClass::Low)
      type = chosen.productOf(names).value_or(policy->getCompute());
    if (override)
      type = override->type;
    const WeightFormat *named = chosen.weightsOf(names);
    StoredWeights stored{named ? *named : policy->getWeights(),
                         significantBits(type)};
    // 16-bit operands gain nothing from int16 storage.
    if (stored.format.type == WeightType::Int16 && stored.bits < kFloat32Bits)
      return StoredWeights();
    if (stored.format.isScaled() && stored.format.clip)
      stored.squares = squaresOf(op);
    return stored;
  }

  /// Returns the policy's second moments of the activations multiplied with
  /// `op`'s weights; empty, with a warning, if the channel count differs.
  ArrayRef<float> squaresOf(Operation *op) {
    ArrayRef<float> squares = chosen.momentsOf(opNames(op));
    if (squares.empty() || squares.size() == size_t(contractedChannels(op)))
      return squares;
    op->emitWarning() << "policy '" << chosen.getName() << "' has moments of "
                      << squares.size() << " channels for '" << mpc::opName(op)
                      << "', which multiplies " << contractedChannels(op)
                      << ", so they are ignored; calibrate this model";
    return {};
  }

  LogicalResult narrow(Operation *op) {
    mpc::ConstantOp constant = weightsOf(op);
    if (!constant)
      return success();
    std::optional<WeightColumns> columns = WeightColumns::of(op);
    FailureOr<StoredWeights> stored = formatOf(op);
    if (failed(stored))
      return failure();
    if (!columns || !stored->format.isNarrow() || columns->length == 0)
      return success();
    stored->format = columns->formatFor(stored->format, op);
    Value &rounded = known[{constant.getOperation(), columns->count,
                            columns->step, stored->format.describe(),
                            stored->bits, stored->squares.data()}];
    if (!rounded)
      rounded = round(constant, *columns, *stored);
    if (rounded)
      op->setOperand(1, rounded);
    return success();
  }

  /// What is known of weights that were rounded; no padding, since it is
  /// stored.
  struct RoundingFacts {
    RoundingErrorStats losses;
    /// Whether all rounded weights are exact in bf16.
    uint64_t areBFloats = false;
  };

  /// Scales of weights and what rounding to them does.
  struct Quantization {
    RoundingFacts facts;
    GroupScales scales;
    /// Owner of the scales.
    std::shared_ptr<const void> owner;
  };

  /// Quantizes a constant, or returns what the context's store remembers of it
  /// by `text`; nullopt if its values are unknown or not finite.
  static std::optional<Quantization> quantize(mpc::ConstantOp constant,
                                              const WeightColumns &columns,
                                              const StoredWeights &stored,
                                              const std::string &text) {
    static_assert(sizeof(RoundingFacts) % alignof(float) == 0);
    // Facts, scales, zero points.
    Quantization found;
    size_t count = columns.groupCount(stored.format),
           zeros = stored.format.zeroPoint ? count : 0,
           size = sizeof(RoundingFacts) + count * sizeof(float) + zeros;
    auto scalesIn = [&](char *memory) -> MutableScales {
      auto *scales = reinterpret_cast<float *>(memory + sizeof(RoundingFacts));
      return {{scales, count},
              {reinterpret_cast<uint8_t *>(scales + count), zeros}};
    };
    auto fill = [&](MutableArrayRef<char> target) -> LogicalResult {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
      if (failed(bytes) || !areFinite(bytes->as<float>()))
        return failure();
      ArrayRef<float> exact = bytes->as<float>();
      MutableScales chosen = scalesIn(target.data());
      MLIRContext *context = constant.getContext();
      columns.chooseScales(context, exact, stored, chosen);
      std::shared_ptr<void> memory =
          scratchMemory(context, exact.size() * sizeof(float));
      if (!memory)
        return failure();
      MutableArrayRef<float> values(static_cast<float *>(memory.get()),
                                    exact.size());
      llvm::copy(exact, values.begin());
      columns.round(context, values, stored, {chosen.scales, chosen.zeros});
      RoundingFacts facts;
      facts.losses.note(exact, values);
      facts.areBFloats = areBFloats(values);
      std::memcpy(target.data(), &facts, sizeof(facts));
      return success();
    };
    if (ConstantStore *store = constantStore(constant.getContext())) {
      ConstantRecipe recipe{
          "scales and errors of " + text, {constant.getValue()}, {}};
      found.owner =
          store->get(derivedKey(recipe, constant.getType()), size, fill);
    } else {
      auto memory = std::make_shared<std::vector<char>>(size);
      if (succeeded(fill(*memory)))
        found.owner = std::shared_ptr<const void>(memory, memory->data());
    }
    if (!found.owner)
      return std::nullopt;
    auto *memory =
        const_cast<char *>(static_cast<const char *>(found.owner.get()));
    std::memcpy(static_cast<void *>(&found.facts), memory, sizeof(found.facts));
    MutableScales known = scalesIn(memory);
    found.scales = {known.scales, known.zeros};
    return found;
  }

  /// Returns the rounded constant, or null on failure.
  Value round(mpc::ConstantOp constant, const WeightColumns &columns,
              const StoredWeights &stored) {
    const WeightFormat &format = stored.format;
    std::string text = "weights in " + format.describe();
    for (int64_t number : {int64_t(stored.bits), int64_t(format.clip),
                           columns.count, columns.length, columns.stride,
                           columns.step, columns.run, columns.alike})
      text += " " + std::to_string(number);
    text += " moments " +
            llvm::toHex(llvm::BLAKE3::hash<16>(ArrayRef(
                reinterpret_cast<const uint8_t *>(stored.squares.data()),
                stored.squares.size() * sizeof(float))));
    std::optional<Quantization> found =
        quantize(constant, columns, stored, text);
    if (!found)
      return {};
    const RoundingErrorStats &losses = found->facts.losses;
    if (losses.getOverflowed())
      constant.emitWarning()
          << "weights '" << resourceName(constant) << "' in "
          << stringify(format.type) << ": " << losses.getOverflowed() << " of "
          << losses.getCount()
          << " values become infinite; override the op that reads them with "
             "float32";
    ElementsAttr source = constant.getValue();
    auto fill =
        [source, columns, format, bits = stored.bits, scales = found->scales,
         owner = found->owner](MutableArrayRef<char> target) -> LogicalResult {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(source);
      if (failed(bytes))
        return failure();
      llvm::copy(bytes->bytes(), target.begin());
      columns.round(source.getContext(),
                    {reinterpret_cast<float *>(target.data()),
                     target.size() / sizeof(float)},
                    {format, bits}, scales);
      return success();
    };
    FailureOr<ElementsAttr> value = deriveConstant(
        cast<RankedTensorType>(constant.getType()),
        {std::move(text), {source}, std::move(fill)},
        resourceName(constant) + "." + stringify(format.type).str());
    if (failed(value))
      return {};
    OpBuilder builder(constant);
    if (found->facts.areBFloats)
      rememberExact(*value, builder.getBF16Type());
    auto made = mpc::ConstantOp::create(builder, constant.getLoc(), *value);
    made->setDiscardableAttrs(constant->getDiscardableAttrDictionary());
    made->setDiscardableAttr(MpcDialect::kNarrowingAttr,
                             losses.toAttr(&getContext()));
    made->setDiscardableAttr(kWeightsAttr,
                             builder.getStringAttr(format.describe()));
    ++numRounded;
    return made.getResult();
  }

  Policy chosen;
  /// Cache, keyed by the constant, its scale groups, the format and the
  /// activation moments.
  std::map<std::tuple<Operation *, int64_t, int64_t, std::string, int,
                      const float *>,
           Value>
      known;
};

} // namespace
