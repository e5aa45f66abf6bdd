//===- QuantizedPanels.cpp - constants of quantized panels ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "QuantizedPanels.h"

#include "RoundConstant.h"

#include "mpc/Dialect/Mpc/IR/ConstantData.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcPackOps.h"
#include "mpc/Dialect/Mpc/IR/Shapes.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

std::optional<std::vector<float>>
mpc::constantFloats(mpc::ConstantOp constant) {
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(constant.getValue());
  if (failed(bytes))
    return std::nullopt;
  Type element = getElementTypeOrSelf(constant.getType());
  if (element.isF32()) {
    ArrayRef<float> numbers = bytes->as<float>();
    return std::vector<float>(numbers.begin(), numbers.end());
  }
  std::vector<float> numbers(bytes->as<uint16_t>().size());
  widenElements(bytes->as<uint16_t>(), element, numbers.data());
  return numbers;
}

template <typename T>
static ArrayRef<char> bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()),
          values.size() * sizeof(T)};
}

/// Returns the 16 bits of all numbers; empty if `bitsOf` fails for one.
static std::vector<uint16_t>
asHalves(ArrayRef<float> numbers, std::optional<uint16_t> (*bitsOf)(float)) {
  std::vector<uint16_t> halves;
  for (float number : numbers) {
    std::optional<uint16_t> bits = bitsOf(number);
    if (!bits)
      return {};
    halves.push_back(*bits);
  }
  return halves;
}

static Type byteType(MLIRContext *context) {
  return IntegerType::get(context, 8, IntegerType::Unsigned);
}

static Type elementOf(LosslessPanels::Kind kind, MLIRContext *context) {
  switch (kind) {
  case LosslessPanels::Kind::BFloat16:
    return BFloat16Type::get(context);
  case LosslessPanels::Kind::Float16:
    return Float16Type::get(context);
  case LosslessPanels::Kind::Int16:
    return IntegerType::get(context, 16);
  case LosslessPanels::Kind::Int8:
    return IntegerType::get(context, 8);
  case LosslessPanels::Kind::Float8:
  case LosslessPanels::Kind::UnsignedInt8:
  case LosslessPanels::Kind::Nibbles:
    return byteType(context);
  }
  llvm_unreachable("every kind has a type");
}

namespace {
/// What is remembered of a search, next to the arrays of its result.
struct KnownEncoding {
  bool exists = false;
  LosslessPanels form() const {
    LosslessPanels found;
    found.kind = kind;
    found.group = group;
    found.depth = depth;
    found.commonZero = commonZero;
    if (sharedGroup > 0)
      found.shared.emplace().group = sharedGroup;
    return found;
  }

  LosslessPanels::Kind kind = LosslessPanels::Kind::BFloat16;
  int64_t group = 0, depth = 1, commonZero = 0;
  /// SharedScales::group; 0 if there are none.
  int64_t sharedGroup = 0;
  /// Sizes of the arrays.
  size_t values = 0, scales = 0, zeros = 0, offsets = 0, sharedScales = 0,
         factors = 0;
};
} // namespace

/// Calls `fn` with each array of `form`, its name and its number of elements.
template <typename Known, typename Fn>
static bool forEachArray(LosslessPanels &form, Known &known, Fn fn) {
  if (form.shared &&
      !(fn(form.shared->values, "shared scales", known.sharedScales) &&
        fn(form.shared->factors, "factors", known.factors)))
    return false;
  return fn(form.values, "values", known.values) &&
         fn(form.scales, "scales", known.scales) &&
         fn(form.zeros, "zeros", known.zeros) &&
         fn(form.offsets, "offsets", known.offsets);
}

/// Returns `key` with the name of an array of the encoding.
static std::string arrayKey(const std::string &key, StringRef array) {
  return key + " " + array.str();
}

std::optional<QuantizedPanels> QuantizedPanels::find(
    mpc::ConstantOp constant, ArrayRef<int64_t> panels, const std::string &text,
    llvm::function_ref<std::optional<LosslessPanels>()> search) {
  ConstantStore *store = constantStore(constant.getContext());
  std::optional<LosslessPanels> form;
  if (!store) {
    form = search();
    return form ? std::optional(make(constant, *form, panels, ""))
                : std::nullopt;
  }
  ConstantRecipe recipe{"lossless encoding " + text, {constant.getValue()}, {}};
  std::string key = derivedKey(recipe, constant.getType());
  // Arrays stay in the store while `kept` or a constant refers to them.
  SmallVector<std::shared_ptr<const void>> kept;
  bool isSearched = false;
  auto put = [&](auto &array, StringRef name, size_t &size) {
    size = array.size();
    size_t bytes = size * sizeof(array[0]);
    if (bytes == 0)
      return true;
    kept.push_back(store->get(arrayKey(key, name), bytes,
                              [&](MutableArrayRef<char> target) {
                                std::memcpy(target.data(), array.data(), bytes);
                                return success();
                              }));
    return true;
  };
  auto lookFor = [&]() -> std::optional<KnownEncoding> {
    form = search();
    isSearched = true;
    KnownEncoding found;
    if (!form)
      return found;
    found = {true, form->kind, form->group, form->depth, form->commonZero};
    found.sharedGroup = form->shared ? form->shared->group : 0;
    forEachArray(*form, found, put);
    return found;
  };
  std::optional<KnownEncoding> known =
      rememberFact<KnownEncoding>(recipe, constant.getType(), lookFor);
  if (!known || !known->exists)
    return std::nullopt;
  auto read = [&](auto &array, StringRef name, size_t size) {
    size_t bytes = size * sizeof(array[0]);
    array.resize(size);
    if (bytes == 0)
      return true;
    std::shared_ptr<const void> found = store->find(arrayKey(key, name), bytes);
    if (found)
      std::memcpy(array.data(), found.get(), bytes);
    kept.push_back(found);
    return found != nullptr;
  };
  if (!isSearched) {
    form = known->form();
    // What was found may have been released or evicted since.
    if (!forEachArray(*form, *known, read))
      (void)lookFor();
  }
  if (!form)
    return std::nullopt;
  return make(constant, *form, panels, key);
}

QuantizedPanels QuantizedPanels::make(mpc::ConstantOp constant,
                                      const LosslessPanels &form,
                                      ArrayRef<int64_t> panels,
                                      const std::string &key) {
  OpBuilder builder(constant);
  MLIRContext *context = builder.getContext();
  std::string name = resourceName(constant);
  bool haveColumns = panels.size() == 3;
  int64_t count = panels[0], depth = panels[1],
          columns = haveColumns ? panels[2] : 1;
  QuantizedPanels stored;
  auto make = [&](int64_t lines, int64_t width, Type element,
                  ArrayRef<char> data, StringRef suffix) -> Value {
    SmallVector<int64_t> shape = {count, lines};
    if (haveColumns)
      shape.push_back(width);
    auto narrow = RankedTensorType::get(shape, element);
    stored.bytes += byteCount(narrow);
    std::string own = (name + "." + suffix).str();
    ConstantStore *store = constantStore(context);
    // The values are large, and the store has them.
    if (suffix == "narrow" && store && !key.empty())
      if (std::shared_ptr<const void> held =
              store->find(arrayKey(key, "values"), data.size()))
        return mpc::ConstantOp::create(
            builder, constant.getLoc(),
            makeConstant(
                narrow,
                AsmResourceBlob(
                    {static_cast<const char *>(held.get()), data.size()},
                    kConstantAlignment, [held](void *, size_t, size_t) {},
                    /*dataIsMutable=*/false),
                own, arrayKey(key, "values")));
    return mpc::ConstantOp::create(builder, constant.getLoc(),
                                   makeConstant(narrow, data, own));
  };
  stored.areNibbles = form.kind == LosslessPanels::Kind::Nibbles;
  stored.areFloats = form.kind == LosslessPanels::Kind::Float8;
  stored.commonZero = form.commonZero;
  stored.depth = form.depth;
  int64_t ofByte = form.depth * (stored.areNibbles ? 2 : 1);
  stored.values =
      make(depth / ofByte, form.depth * columns, elementOf(form.kind, context),
           bytesOf(form.values), "narrow");
  if (!form.isScaled())
    return stored;
  int64_t groups = depth / form.group;
  // The smallest float type in which all scales are exact.
  auto makeFloats = [&](ArrayRef<float> numbers, int64_t groups,
                        StringRef suffix) -> Value {
    if (std::vector<uint16_t> halves = asHalves(numbers, exactBFloat);
        !halves.empty())
      return make(groups, columns, builder.getBF16Type(), bytesOf(halves),
                  suffix);
    if (std::vector<uint16_t> halves = asHalves(numbers, exactHalf);
        !halves.empty())
      return make(groups, columns, builder.getF16Type(), bytesOf(halves),
                  suffix);
    return make(groups, columns, builder.getF32Type(),
                {reinterpret_cast<const char *>(numbers.data()),
                 numbers.size() * sizeof(float)},
                suffix);
  };
  if (form.shared) {
    stored.scale = make(groups, columns, byteType(context),
                        bytesOf(form.shared->values), "scales");
    stored.scaleFactor = makeFloats(form.shared->factors,
                                    groups / form.shared->group, "factors");
  } else {
    stored.scale = makeFloats(form.scales, groups, "scales");
  }
  if (!form.offsets.empty())
    stored.offset = makeFloats(form.offsets, groups, "offsets");
  if (!form.zeros.empty())
    stored.zero =
        make(groups, columns, byteType(context), bytesOf(form.zeros), "zeros");
  return stored;
}

Value QuantizedPanels::widen(OpBuilder &builder, Location loc,
                             Type element) const {
  Value scale = this->scale;
  if (scaleFactor)
    scale = DequantizeOp::create(builder, loc, scale, scaleFactor, Value(),
                                 Value(), /*nibbles=*/false, /*float8=*/false,
                                 /*commonZero=*/0, /*depth=*/1,
                                 builder.getF32Type());
  return DequantizeOp::create(builder, loc, values, scale, zero, offset,
                              areNibbles, areFloats, commonZero, depth,
                              element);
}
