//===- ConstantTransforms.cpp - layout transforms of constants ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Dialect/Mpc/Transforms/ConstantTransforms.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mpc;

std::string mpc::derivedConstantName(ElementsAttr attr, StringRef suffix) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr))
    return (resource.getRawHandle().getKey() + "." + suffix).str();
  return suffix.str();
}

static SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

/// Gathers the elements at `offset` + index * `strides` into row-major order.
static void copyStrided(ArrayRef<char> source, std::vector<char> &target,
                        int64_t elementBytes, ArrayRef<int64_t> shape,
                        ArrayRef<int64_t> strides, int64_t offset) {
  int64_t count = productOf(shape);
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(target.data() + i * elementBytes,
                source.data() + offset * elementBytes, elementBytes);
    for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
      offset += strides[d];
      if (++index[d] < shape[d])
        break;
      offset -= strides[d] * shape[d];
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
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
  if (failed(bytes))
    return failure();
  int64_t elementBytes = bytesPerElement(element);
  std::vector<char> target(productOf(shape) * elementBytes);
  copyStrided(bytes->bytes(), target, elementBytes, shape, strides, offset);
  return makeConstant(type, target, derivedConstantName(attr, suffix));
}

static ArrayRef<int64_t> shapeOf(ElementsAttr attr) {
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
  SmallVector<int64_t> sourceStrides = rowMajorStrides(shapeOf(attr)), shape,
                       strides;
  for (int64_t dimension : permutation) {
    shape.push_back(shapeOf(attr)[dimension]);
    strides.push_back(sourceStrides[dimension]);
  }
  return stridedConstant(attr, shape, strides, /*offset=*/0, "transposed");
}

FailureOr<ElementsAttr> mpc::sliceConstant(ElementsAttr attr,
                                           ArrayRef<int64_t> offsets,
                                           ArrayRef<int64_t> sizes,
                                           ArrayRef<int64_t> steps) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(attr));
  int64_t offset = 0;
  for (auto [stride, begin] : llvm::zip_equal(strides, offsets))
    offset += stride * begin;
  for (auto [stride, step] : llvm::zip(strides, steps))
    stride *= step;
  return stridedConstant(attr, sizes, strides, offset, "slice");
}

FailureOr<ElementsAttr> mpc::reverseConstant(ElementsAttr attr,
                                             ArrayRef<int64_t> axes) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(attr));
  int64_t offset = 0;
  for (int64_t axis : axes) {
    offset += strides[axis] * (shapeOf(attr)[axis] - 1);
    strides[axis] = -strides[axis];
  }
  return stridedConstant(attr, shapeOf(attr), strides, offset, "reversed");
}

FailureOr<ElementsAttr> mpc::concatConstants(ArrayRef<ElementsAttr> attrs,
                                             int64_t axis) {
  SmallVector<int64_t> shape(shapeOf(attrs.front()));
  SmallVector<ConstantBytes> parts;
  shape[axis] = 0;
  for (ElementsAttr attr : attrs) {
    FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
    if (failed(bytes))
      return failure();
    parts.push_back(*bytes);
    shape[axis] += shapeOf(attr)[axis];
  }
  Type element = attrs.front().getElementType();
  auto type = RankedTensorType::get(shape, element);
  std::vector<char> target;
  target.reserve(byteCount(type));
  int64_t outer = productOf(ArrayRef<int64_t>(shape).take_front(axis));
  for (int64_t i = 0; i < outer; ++i)
    for (const ConstantBytes &part : parts) {
      ArrayRef<char> row = part.bytes().slice(part.bytes().size() / outer * i,
                                              part.bytes().size() / outer);
      target.insert(target.end(), row.begin(), row.end());
    }
  return makeConstant(type, target,
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
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
  FailureOr<ConstantBytes> filling =
      ConstantBytes::get(makeSplat(RankedTensorType::get({}, element), fill));
  if (failed(bytes) || failed(filling))
    return failure();
  int64_t elementBytes = bytesPerElement(element);
  std::vector<char> target(elementCount(type) * elementBytes);
  for (int64_t i = 0, count = elementCount(type); i < count; ++i)
    std::memcpy(target.data() + i * elementBytes, filling->bytes().data(),
                elementBytes);
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
  return makeConstant(type, target, derivedConstantName(attr, "padded"));
}

FailureOr<ElementsAttr> mpc::packConstant(ElementsAttr attr,
                                          const PackSource &source,
                                          PackedAttr packed) {
  FailureOr<ConstantBytes> bytes = ConstantBytes::get(attr);
  if (failed(bytes))
    return failure();
  Type element = attr.getElementType();
  int64_t elementBytes = bytesPerElement(element), width = packed.getColumns();
  int64_t panels = llvm::divideCeil(source.columns, width);
  int64_t depth = packed.getDepth(),
          run = source.run ? source.run : source.rows;
  int64_t steps = packed.getSteps(source.rows, run);
  auto type = RankedTensorType::get(
      {source.groups * panels, steps, packed.getStepElements()}, element);
  std::vector<char> target(elementCount(type) * elementBytes, 0);
  int64_t half = width / packed.getInterleave();
  const char *data = bytes->bytes().data();
  for (int64_t group = 0; group < source.groups; ++group)
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t k = 0; k < source.rows; ++k) {
        int64_t step = packed.getSteps(k / run * run, run) + k % run / depth;
        char *row = target.data() + ((group * panels + panel) * steps + step) *
                                        depth * width * elementBytes;
        int64_t base = group * source.groupStride +
                       (k % source.rowSplit) * source.rowStride +
                       (k / source.rowSplit) * source.outerRowStride;
        int64_t count = std::min(width, source.columns - panel * width);
        for (int64_t j = 0; j < count; ++j) {
          // Column j = h * half + i is at index interleave * i + h, with
          // `depth` consecutive k indices per step.
          int64_t place = packed.getInterleave() * (j % half) + j / half;
          place = place * depth + k % run % depth;
          std::memcpy(row + place * elementBytes,
                      data +
                          (base + (panel * width + j) * source.columnStride) *
                              elementBytes,
                      elementBytes);
        }
      }
  return makeConstant(type, target, derivedConstantName(attr, "packed"));
}
