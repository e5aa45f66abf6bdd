//===- ConstantTransforms.cpp - layout transforms of constants ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"

#include "RoundConstant.h"

#include "mpc/Dialect/Mpc/IR/MpcCastOps.h"
#include "mpc/Dialect/Mpc/IR/MpcConstantOps.h"
#include "mpc/Dialect/Mpc/IR/MpcShapeOps.h"
#include "mpc/Dialect/Mpc/IR/MpcSliceOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cstring>

using namespace mlir;
using namespace mpc;

std::string mpc::derivedConstantName(ElementsAttr attr, StringRef suffix) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return (resource.getRawHandle().getKey() + "." + suffix).str();
  return suffix.str();
}

template <typename Element>
static Element *elementsOf(MutableArrayRef<char> bytes) {
  return reinterpret_cast<Element *>(bytes.data());
}

/// Formats a list of numbers for a recipe.
static std::string textOf(ArrayRef<int64_t> numbers) {
  std::string text = " [";
  for (int64_t number : numbers)
    text += std::to_string(number) + ",";
  return text + "]";
}

static SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// Calls `fn` with an unsigned integer of an element's size. Elements are
/// copied as numbers: a memcpy of a size unknown to the compiler is a call.
template <typename Fn> static void withElementBytes(int64_t bytes, Fn fn) {
  switch (bytes) {
  case 1:
    return fn(uint8_t());
  case 2:
    return fn(uint16_t());
  case 4:
    return fn(uint32_t());
  default:
    assert(bytes == 8 && "element of an unknown size");
    return fn(uint64_t());
  }
}

/// Transposes in blocks that stay in the cache: target[i * pitch + j] =
/// source[i + j * step].
template <typename Element>
static void transposeBlocks(const Element *source, Element *target,
                            int64_t rows, int64_t columns, int64_t pitch,
                            int64_t step) {
  constexpr int64_t kBlock = 32;
  for (int64_t row = 0; row < rows; row += kBlock)
    for (int64_t column = 0; column < columns; column += kBlock)
      for (int64_t i = row; i < std::min(row + kBlock, rows); ++i)
        for (int64_t j = column; j < std::min(column + kBlock, columns); ++j)
          target[i * pitch + j] = source[i + j * step];
}

/// Gathers the elements at `offset` + index * `strides` into row-major order.
template <typename Element>
static void copyStrided(const Element *source, Element *target,
                        ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                        int64_t offset) {
  int64_t rank = shape.size();
  int64_t width = rank ? shape.back() : 1, step = rank ? strides.back() : 1;
  SmallVector<int64_t> targetStrides = rowMajorStrides(shape);
  // A dimension before the last of adjacent elements makes a transpose.
  auto adjacent = llvm::find(strides.drop_back(rank ? 1 : 0), 1);
  int64_t across =
      step != 1 ? adjacent - strides.begin() : std::max<int64_t>(rank - 1, 0);
  bool isTransposed = across + 1 < rank;
  int64_t rows = isTransposed ? shape[across] : 1;
  int64_t count = productOf(shape) / std::max<int64_t>(rows * width, 1);
  SmallVector<int64_t> index(shape.size(), 0);
  int64_t place = 0;
  for (int64_t done = 0; done < count; ++done) {
    if (isTransposed)
      transposeBlocks(source + offset, target + place, rows, width,
                      targetStrides[across], step);
    else
      for (int64_t i = 0; i < width; ++i)
        target[place + i] = source[offset + i * step];
    for (int64_t d = rank - 2; d >= 0; --d) {
      if (isTransposed && d == across)
        continue;
      offset += strides[d];
      place += targetStrides[d];
      if (++index[d] < shape[d])
        break;
      offset -= strides[d] * shape[d];
      place -= targetStrides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// Returns the strided view of `attr` as a constant of `shape`.
static FailureOr<ElementsAttr>
stridedConstant(ElementsAttr attr, ArrayRef<int64_t> shape,
                ArrayRef<int64_t> strides, int64_t offset, StringRef suffix) {
  Type element = attr.getElementType();
  auto type = RankedTensorType::get(shape, element);
  if (auto dense = dyn_cast<DenseElementsAttr>(attr); dense && dense.isSplat())
    return ElementsAttr(dense.resizeSplat(type));
  auto fill = [attr, element, offset, shape = llvm::to_vector(shape),
               strides = llvm::to_vector(strides)](
                  MutableArrayRef<char> target) -> LogicalResult {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (failed(bytes))
      return failure();
    withElementBytes(bytesPerElement(element), [&](auto unit) {
      using Element = decltype(unit);
      copyStrided(bytes->as<Element>().data(), elementsOf<Element>(target),
                  shape, strides, offset);
    });
    return success();
  };
  std::string text =
      "strided" + textOf(strides) + " from " + std::to_string(offset);
  return deriveConstant(type, {std::move(text), {attr}, std::move(fill)},
                        derivedConstantName(attr, suffix));
}

static ArrayRef<int64_t> constantShape(ElementsAttr attr) {
  return cast<RankedTensorType>(attr.getType()).getShape();
}

FailureOr<ElementsAttr> mpc::reshapeConstant(ElementsAttr attr,
                                             RankedTensorType type) {
  if (auto dense = dyn_cast<DenseElementsAttr>(attr))
    return ElementsAttr(dense.reshape(type));
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return ElementsAttr(
        DenseResourceElementsAttr::get(type, resource.getRawHandle()));
  return failure();
}

FailureOr<ElementsAttr> mpc::transposeConstant(ElementsAttr attr,
                                               ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> sourceStrides = rowMajorStrides(constantShape(attr)),
                       shape, strides;
  for (int64_t dimension : permutation) {
    shape.push_back(constantShape(attr)[dimension]);
    strides.push_back(sourceStrides[dimension]);
  }
  return stridedConstant(attr, shape, strides, /*offset=*/0, "transposed");
}

FailureOr<ElementsAttr> mpc::sliceConstant(ElementsAttr attr,
                                           ArrayRef<int64_t> offsets,
                                           ArrayRef<int64_t> sizes,
                                           ArrayRef<int64_t> steps) {
  SmallVector<int64_t> strides = rowMajorStrides(constantShape(attr));
  int64_t offset = 0;
  for (auto [stride, begin] : llvm::zip_equal(strides, offsets))
    offset += stride * begin;
  for (auto [stride, step] : llvm::zip(strides, steps))
    stride *= step;
  return stridedConstant(attr, sizes, strides, offset, "slice");
}

FailureOr<ElementsAttr> mpc::reverseConstant(ElementsAttr attr,
                                             ArrayRef<int64_t> axes) {
  SmallVector<int64_t> strides = rowMajorStrides(constantShape(attr));
  int64_t offset = 0;
  for (int64_t axis : axes) {
    offset += strides[axis] * (constantShape(attr)[axis] - 1);
    strides[axis] = -strides[axis];
  }
  return stridedConstant(attr, constantShape(attr), strides, offset,
                         "reversed");
}

FailureOr<ElementsAttr> mpc::concatConstants(ArrayRef<ElementsAttr> attrs,
                                             int64_t axis) {
  SmallVector<int64_t> shape(constantShape(attrs.front()));
  shape[axis] = 0;
  for (ElementsAttr attr : attrs)
    shape[axis] += constantShape(attr)[axis];
  auto type = RankedTensorType::get(shape, attrs.front().getElementType());
  int64_t outer = productOf(ArrayRef<int64_t>(shape).take_front(axis));
  SmallVector<ElementsAttr, 1> sources(attrs);
  auto fill = [sources, outer](MutableArrayRef<char> target) -> LogicalResult {
    size_t whole = target.size() / std::max<size_t>(outer, 1), at = 0;
    for (ElementsAttr source : sources) {
      FailureOr<ConstantBytes> bytes = ConstantBytes::get(source);
      if (failed(bytes))
        return failure();
      size_t run = bytes->bytes().size() / std::max<size_t>(outer, 1);
      for (int64_t i = 0; i < outer; ++i)
        llvm::copy(bytes->bytes().slice(run * i, run),
                   target.begin() + whole * i + at);
      at += run;
    }
    return success();
  };
  std::string text = "concatenated along " + std::to_string(axis);
  return deriveConstant(type, {std::move(text), sources, std::move(fill)},
                        derivedConstantName(attrs.front(), "joined"));
}

FailureOr<ElementsAttr> mpc::padConstant(ElementsAttr attr,
                                         ArrayRef<int64_t> groups,
                                         ArrayRef<int64_t> from,
                                         ArrayRef<int64_t> to, double fill) {
  Type element = attr.getElementType();
  SmallVector<int64_t> shape;
  for (auto [count, run] : llvm::zip_equal(groups, to))
    shape.push_back(count * run);
  auto type = RankedTensorType::get(shape, element);
  if (auto dense = dyn_cast<DenseElementsAttr>(attr);
      dense && dense.isSplat() && splatValue(attr) == fill)
    return ElementsAttr(dense.resizeSplat(type));
  auto write = [attr, element, fill, groups = llvm::to_vector(groups),
                from = llvm::to_vector(from), to = llvm::to_vector(to),
                shape](MutableArrayRef<char> target) -> LogicalResult {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    FailureOr<ConstantBytes> filling =
        ConstantBytes::get(makeSplat(RankedTensorType::get({}, element), fill));
    if (failed(bytes) || failed(filling))
      return failure();
    int64_t elementBytes = bytesPerElement(element);
    for (size_t i = 0; i < target.size(); i += elementBytes)
      std::memcpy(target.data() + i, filling->bytes().data(), elementBytes);
    // Copies rows of the last dimension; iterates over the other dimensions.
    SmallVector<int64_t> strides = rowMajorStrides(shape);
    int64_t rank = shape.size(), width = rank ? from.back() : 1;
    SmallVector<int64_t> index(rank, 0);
    for (const char *source = bytes->bytes().data(),
                    *end = source + bytes->bytes().size();
         source != end; source += width * elementBytes) {
      int64_t place = 0;
      for (int64_t d = 0; d < rank; ++d)
        place += (index[d] / from[d] * to[d] + index[d] % from[d]) * strides[d];
      std::memcpy(target.data() + place * elementBytes, source,
                  width * elementBytes);
      if (rank)
        index.back() += width - 1;
      for (int64_t d = rank - 1; d >= 0; --d) {
        if (++index[d] < groups[d] * from[d])
          break;
        index[d] = 0;
      }
    }
    return success();
  };
  std::string text = "padded" + textOf(groups) + textOf(from) + textOf(to) +
                     " with " + std::to_string(llvm::bit_cast<uint64_t>(fill));
  return deriveConstant(type, {std::move(text), {attr}, std::move(write)},
                        derivedConstantName(attr, "padded"));
}

/// Writes the panels that packConstant() returns; padding is left as it is.
template <typename Element>
static void packPanels(const Element *data, Element *target,
                       const PackSource &source, PackedAttr packed) {
  int64_t width = packed.getColumns(), depth = packed.getDepth();
  int64_t panels = llvm::divideCeil(source.columns, width);
  int64_t run = source.run ? source.run : source.rows;
  int64_t steps = packed.getSteps(source.rows, run);
  // Column j = h * half + i is at index interleave * i + h, with `depth`
  // consecutive k indices per step.
  int64_t half = width / packed.getInterleave();
  SmallVector<int64_t> places(width);
  for (int64_t j = 0; j < width; ++j)
    places[j] = (packed.getInterleave() * (j % half) + j / half) * depth;
  bool isCopy = depth == 1 && half == width && source.columnStride == 1;
  // Rows of one block are read for all panels while their pages are known to
  // the processor.
  constexpr int64_t kRows = 64;
  int64_t rowsAtOnce =
      source.columnStride == 1 ? kRows : std::max<int64_t>(source.rows, 1);
  auto packRows = [&](int64_t group, int64_t panel, int64_t first,
                      int64_t end) {
    int64_t count = std::min(width, source.columns - panel * width);
    Element *block = target + (group * panels + panel) * steps * depth * width;
    const Element *columns =
        data + group * source.groupStride + panel * width * source.columnStride;
    for (int64_t k = first; k < end; ++k) {
      int64_t step = packed.getSteps(k / run * run, run) + k % run / depth;
      Element *row = block + step * depth * width + k % run % depth;
      const Element *from = columns + (k % source.rowSplit) * source.rowStride +
                            (k / source.rowSplit) * source.outerRowStride;
      if (isCopy)
        std::copy_n(from, count, row);
      else
        for (int64_t j = 0; j < count; ++j)
          row[places[j]] = from[j * source.columnStride];
    }
  };
  for (int64_t group = 0; group < source.groups; ++group)
    for (int64_t first = 0; first < source.rows; first += rowsAtOnce)
      for (int64_t panel = 0; panel < panels; ++panel)
        packRows(group, panel, first,
                 std::min(first + rowsAtOnce, source.rows));
}

FailureOr<ElementsAttr> mpc::packConstant(ElementsAttr attr,
                                          const PackSource &source,
                                          PackedAttr packed) {
  Type element = attr.getElementType();
  int64_t panels = llvm::divideCeil(source.columns, packed.getColumns());
  int64_t steps =
      packed.getSteps(source.rows, source.run ? source.run : source.rows);
  auto type = RankedTensorType::get(
      {source.groups * panels, steps, packed.getStepElements()}, element);
  bool hasPadding =
      elementCount(type) != source.groups * source.columns * source.rows;
  auto fill = [=](MutableArrayRef<char> target) -> LogicalResult {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (failed(bytes))
      return failure();
    if (hasPadding)
      llvm::fill(target, 0);
    withElementBytes(bytesPerElement(element), [&](auto unit) {
      using Element = decltype(unit);
      packPanels(bytes->as<Element>().data(), elementsOf<Element>(target),
                 source, packed);
    });
    return success();
  };
  std::string text =
      "packed" +
      textOf({source.groups, source.columns, source.rows, source.groupStride,
              source.columnStride, source.rowStride, source.rowSplit,
              source.outerRowStride, source.run, packed.getColumns(),
              packed.getInterleave(), packed.getDepth()});
  return deriveConstant(type, {std::move(text), {attr}, std::move(fill)},
                        derivedConstantName(attr, "packed"));
}

FailureOr<ElementsAttr> mpc::widenConstant(ElementsAttr attr) {
  Type element = attr.getElementType();
  if (!element.isBF16() && !element.isF16())
    return failure();
  auto type = cast<RankedTensorType>(attr.getType())
                  .clone(Float32Type::get(attr.getContext()));
  auto fill = [attr, element](MutableArrayRef<char> target) -> LogicalResult {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (failed(bytes))
      return failure();
    widenElements(bytes->as<uint16_t>(), element, elementsOf<float>(target));
    return success();
  };
  return deriveConstant(type, {"upconverted", {attr}, std::move(fill)},
                        derivedConstantName(attr, "f32"));
}

FailureOr<ElementsAttr> mpc::transformConstant(Operation *op) {
  SmallVector<ElementsAttr> sources;
  for (Value operand : op->getOperands()) {
    auto constant = operand.getDefiningOp<ConstantOp>();
    if (!constant || !isa<DenseResourceElementsAttr>(constant.getValue()))
      return failure();
    sources.push_back(constant.getValue());
  }
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return transposeConstant(sources.front(), transpose.getPermutation());
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return reshapeConstant(sources.front(),
                           cast<RankedTensorType>(reshape.getType()));
  if (auto slice = dyn_cast<SliceOp>(op))
    return sliceConstant(sources.front(), slice.getOffsets(), slice.getSizes(),
                         slice.getStrides().value_or(ArrayRef<int64_t>()));
  if (auto concat = dyn_cast<ConcatOp>(op))
    return concatConstants(sources, concat.getAxis());
  if (isa<CastOp>(op) && getElementTypeOrSelf(op->getResult(0)).isF32())
    return widenConstant(sources.front());
  return failure();
}
