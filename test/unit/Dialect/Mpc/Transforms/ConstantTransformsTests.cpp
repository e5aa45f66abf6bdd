//===- ConstantTransformsTests.cpp - tests of ConstantTransforms ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

using namespace mlir;
using namespace mpc;

namespace {

class ConstantTransforms : public ::testing::Test {
protected:
  ConstantTransforms() { context.loadDialect<MpcDialect>(); }

  /// 0, 1, 2, ... of `shape`, as i32.
  ElementsAttr counted(ArrayRef<int64_t> shape) {
    std::vector<int32_t> values(productOf(shape));
    std::iota(values.begin(), values.end(), 0);
    return makeConstant(
        RankedTensorType::get(shape, builder.getI32Type()),
        ArrayRef<char>(reinterpret_cast<const char *>(values.data()),
                       values.size() * sizeof(int32_t)));
  }
  std::vector<int32_t> valuesOf(FailureOr<ElementsAttr> attr) {
    EXPECT_TRUE(succeeded(attr));
    if (failed(attr))
      return {};
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(*attr);
    EXPECT_TRUE(succeeded(bytes));
    return bytes->as<int32_t>().vec();
  }
  ArrayRef<int64_t> shapeOf(FailureOr<ElementsAttr> attr) {
    return cast<RankedTensorType>(attr->getType()).getShape();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  Builder builder{&context};
};

using Values = std::vector<int32_t>;

TEST_F(ConstantTransforms, transpose_moves_dimensions) {
  FailureOr<ElementsAttr> result =
      transposeConstant(counted({2, 3, 2}), {2, 0, 1});
  EXPECT_EQ(valuesOf(result), (Values{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({2, 2, 3}));
}

TEST_F(ConstantTransforms, pad_grows_each_group) {
  // Columns are two groups of 1 that become 2; rows grow from 2 to 3.
  FailureOr<ElementsAttr> result =
      padConstant(counted({2, 2}), {1, 2}, {2, 1}, {3, 2}, /*fill=*/9);
  EXPECT_EQ(valuesOf(result), (Values{0, 9, 1, 9, 2, 9, 3, 9, 9, 9, 9, 9}));
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({3, 4}));
  result = padConstant(counted({2, 2, 3}), {1, 1, 1}, {2, 2, 3}, {2, 2, 3}, 0);
  EXPECT_EQ(valuesOf(result), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST_F(ConstantTransforms, pad_of_zeros_stays_one_value) {
  ElementsAttr zeros =
      makeSplat(RankedTensorType::get({3}, builder.getF32Type()), 0);
  FailureOr<ElementsAttr> result = padConstant(zeros, {1}, {3}, {8}, 0);
  ASSERT_TRUE(succeeded(result));
  EXPECT_EQ(splatValue(*result), 0);
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({8}));
  FailureOr<ElementsAttr> ones = padConstant(zeros, {1}, {3}, {4}, 1);
  ASSERT_TRUE(succeeded(ones));
  EXPECT_EQ(ConstantBytes::get(*ones)->as<float>().vec(),
            (std::vector<float>{0, 0, 0, 1}));
}

TEST_F(ConstantTransforms, transpose_of_one_value_stays_one_value) {
  ElementsAttr splat =
      makeSplat(RankedTensorType::get({400, 300}, builder.getF32Type()), 2.5);
  FailureOr<ElementsAttr> result = transposeConstant(splat, {1, 0});
  ASSERT_TRUE(succeeded(result));
  EXPECT_EQ(splatValue(*result), 2.5);
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({300, 400}));
}

TEST_F(ConstantTransforms, slice_takes_a_part) {
  EXPECT_EQ(valuesOf(sliceConstant(counted({3, 4}), {1, 2}, {2, 2})),
            (Values{6, 7, 10, 11}));
}

TEST_F(ConstantTransforms, reverse_turns_axes_round) {
  EXPECT_EQ(valuesOf(reverseConstant(counted({2, 3}), {1})),
            (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(valuesOf(reverseConstant(counted({2, 3}), {0, 1})),
            (Values{5, 4, 3, 2, 1, 0}));
}

TEST_F(ConstantTransforms, concat_joins_along_an_inner_axis) {
  FailureOr<ElementsAttr> result =
      concatConstants({counted({2, 1}), counted({2, 2})}, 1);
  EXPECT_EQ(valuesOf(result), (Values{0, 0, 1, 1, 2, 3}));
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({2, 3}));
}

TEST_F(ConstantTransforms, large_constants_stay_resources_with_a_name) {
  FailureOr<ElementsAttr> result = transposeConstant(counted({40, 30}), {1, 0});
  ASSERT_TRUE(succeeded(result));
  auto resource = dyn_cast<DenseResourceElementsAttr>(*result);
  ASSERT_TRUE(resource);
  EXPECT_NE(resource.getRawHandle().getKey().find("transposed"),
            StringRef::npos);
  EXPECT_EQ(valuesOf(result)[1], 30);
}

TEST_F(ConstantTransforms, reshape_keeps_the_bytes) {
  auto type = RankedTensorType::get({6}, builder.getI32Type());
  EXPECT_EQ(valuesOf(reshapeConstant(counted({2, 3}), type)),
            (Values{0, 1, 2, 3, 4, 5}));
}

TEST_F(ConstantTransforms, packing_pads_the_last_panel) {
  PackSource source;
  source.rows = source.rowSplit = 2;
  source.columns = 3;
  source.rowStride = 3;
  source.columnStride = 1;
  FailureOr<ElementsAttr> result =
      packConstant(counted({2, 3}), source, PackedAttr::get(&context, 2, 1, 1));
  EXPECT_EQ(valuesOf(result), (Values{0, 1, 3, 4, 2, 0, 5, 0}));
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({2, 2, 2}));
}

TEST_F(ConstantTransforms, packing_interleaves_halves_of_a_panel) {
  PackSource source;
  source.rows = source.rowSplit = 1;
  source.columns = 4;
  source.columnStride = 1;
  EXPECT_EQ(valuesOf(packConstant(counted({1, 4}), source,
                                  PackedAttr::get(&context, 4, 2, 1))),
            (Values{0, 2, 1, 3}));
}

TEST_F(ConstantTransforms, packing_walks_windows_then_channels_of_each_group) {
  // A filter [2 groups * 1, 2 channels, 2 places]: rows are place-major.
  PackSource source;
  source.groups = 2;
  source.columns = 1;
  source.rows = 4;
  source.groupStride = 4;
  source.columnStride = 4;
  source.rowStride = 2;
  source.rowSplit = 2;
  source.outerRowStride = 1;
  EXPECT_EQ(valuesOf(packConstant(counted({2, 2, 2}), source,
                                  PackedAttr::get(&context, 2, 1, 1))),
            (Values{0, 0, 2, 0, 1, 0, 3, 0, 4, 0, 6, 0, 5, 0, 7, 0}));
}

TEST_F(ConstantTransforms, packing_begins_a_step_with_every_run) {
  // Six positions in runs of three, two of them in a step.
  PackSource source;
  source.rows = source.rowSplit = 6;
  source.run = 3;
  source.columns = 2;
  source.rowStride = 2;
  source.columnStride = 1;
  FailureOr<ElementsAttr> result =
      packConstant(counted({6, 2}), source, PackedAttr::get(&context, 2, 1, 2));
  EXPECT_EQ(valuesOf(result),
            (Values{0, 2, 1, 3, 4, 0, 5, 0, 6, 8, 7, 9, 10, 0, 11, 0}));
  EXPECT_EQ(shapeOf(result), ArrayRef<int64_t>({1, 4, 4}));
}

/// Counts the constants that it computes, and keeps none.
class CountingStore : public ConstantStore {
public:
  std::shared_ptr<const void> find(StringRef, size_t) override {
    return nullptr;
  }
  std::shared_ptr<const void> get(StringRef key, size_t size,
                                  const ConstantFill &fill) override {
    keys.push_back(key.str());
    auto bytes = std::make_shared<std::vector<char>>(size);
    return succeeded(fill(*bytes))
               ? std::shared_ptr<const void>(bytes, bytes->data())
               : nullptr;
  }
  bool persists(StringRef, size_t) override { return false; }

  std::vector<std::string> keys;
};

TEST_F(ConstantTransforms, large_constants_are_deferred) {
  MLIRContext deferring(MLIRContext::Threading::DISABLED);
  deferring.loadDialect<MpcDialect>();
  auto store = std::make_shared<CountingStore>();
  setConstantStore(&deferring, store);
  constexpr int64_t kRows = 512, kColumns = 640;
  std::vector<float> values(kRows * kColumns);
  std::iota(values.begin(), values.end(), 0.0f);
  ArrayRef<char> raw(reinterpret_cast<const char *>(values.data()),
                     values.size() * sizeof(float));
  // Transposed twice along a chain, joined, padded and packed.
  auto transform = [&](MLIRContext *context, int64_t columns) {
    auto type =
        RankedTensorType::get({kRows, kColumns}, Float32Type::get(context));
    ElementsAttr source = makeConstant(type, raw, "source");
    ElementsAttr turned = *transposeConstant(source, {1, 0});
    ElementsAttr joined = *concatConstants({turned, turned}, 1);
    ElementsAttr padded = *padConstant(joined, {1, 1}, {kColumns, 2 * kRows},
                                       {kColumns + 8, 2 * kRows}, 1.5);
    PackSource view;
    view.columns = kColumns + 8;
    view.rows = 2 * kRows;
    view.columnStride = 2 * kRows;
    view.rowStride = 1;
    return *packConstant(padded, view, PackedAttr::get(context, columns, 1, 1));
  };
  ElementsAttr eager = transform(&context, 32),
               deferred = transform(&deferring, 32);
  EXPECT_TRUE(cast<DenseResourceElementsAttr>(deferred)
                  .getRawHandle()
                  .getBlob()
                  ->getData()
                  .empty());
  EXPECT_EQ(resourceBytes(cast<DenseResourceElementsAttr>(deferred)),
            byteCount(deferred.getType()));
  auto bytesOf = [](ElementsAttr attr) {
    return ConstantBytes::get(attr)->bytes().vec();
  };
  EXPECT_EQ(bytesOf(deferred), bytesOf(eager));
  // Equal recipes of equal bytes have equal keys, others have other keys.
  EXPECT_EQ(constantKey(transform(&deferring, 32)), constantKey(deferred));
  EXPECT_NE(constantKey(transform(&deferring, 16)), constantKey(deferred));
  EXPECT_TRUE(store->keys.empty());
  std::shared_ptr<const void> stored = storedConstant(deferred);
  EXPECT_EQ(store->keys, std::vector<std::string>{constantKey(deferred)});
  ASSERT_TRUE(stored);
  EXPECT_EQ(
      std::memcmp(stored.get(), bytesOf(eager).data(), bytesOf(eager).size()),
      0);
}

TEST_F(ConstantTransforms, widening_is_exact) {
  std::vector<uint16_t> bits(1 << 16);
  std::iota(bits.begin(), bits.end(), uint16_t(0));
  for (FloatType element :
       {FloatType(builder.getBF16Type()), FloatType(builder.getF16Type())}) {
    ElementsAttr narrow =
        makeConstant(RankedTensorType::get({1 << 16}, element),
                     ArrayRef<char>(reinterpret_cast<const char *>(bits.data()),
                                    bits.size() * sizeof(uint16_t)));
    FailureOr<ElementsAttr> wide = widenConstant(narrow);
    ASSERT_TRUE(succeeded(wide));
    ArrayRef<float> values = ConstantBytes::get(*wide)->as<float>();
    for (size_t i = 0; i < bits.size(); ++i) {
      llvm::APFloat exact(element.getFloatSemantics(),
                          llvm::APInt(16, bits[i]));
      if (exact.isNaN())
        EXPECT_TRUE(std::isnan(values[i])) << i;
      else
        EXPECT_EQ(values[i], exact.convertToFloat()) << i;
    }
  }
}

} // namespace
