//===- SequenceOps.cpp - sequence and optional operators ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sequences exist only during import: lengths and positions are known, so that
// every element is a separate value.
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns input `i` as a list; emits an error if it is a tensor.
static std::vector<Value> listInput(NodeImport &n, size_t i) {
  Binding binding = n.binding(i);
  if (n.failed())
    return {};
  if (!binding.list) {
    n.error() << "input " << i << " is no sequence";
    return {};
  }
  return *binding.list;
}

/// Returns input `i` as a position in a list, at most `last`.
static int64_t positionInput(NodeImport &n, size_t i, int64_t length,
                             int64_t last) {
  int64_t position = n.knownInt(i, "position");
  if (position < 0)
    position += length;
  if (!n.failed() && (position < 0 || position > last))
    n.error() << "position " << position << " is outside a sequence of "
              << length << " elements";
  return position;
}

static LogicalResult convertSplitToSequence(NodeImport &n) {
  Value x = n.in(0);
  if (n.failed())
    return failure();
  int64_t axis = n.axisAttr("axis", 0, n.rank(x));
  int64_t extent = n.dim(x, axis);
  bool keepDims = n.flag("keepdims", true);
  SmallVector<int64_t> sizes;
  bool scalar = false;
  if (n.has(1)) {
    scalar = n.rank(n.in(1)) == 0;
    sizes = n.constantIntValues(1, "split");
    keepDims = true;
  } else {
    sizes = {1};
    scalar = true;
  }
  if (n.failed())
    return failure();
  if (scalar) {
    int64_t part = sizes.front();
    if (part < 1)
      return n.error() << "split is " << part << ", expected at least 1";
    sizes.clear();
    for (int64_t left = extent; left > 0; left -= part)
      sizes.push_back(std::min(left, part));
    if (int64_t(sizes.size()) > kMaxNodes)
      return n.error() << "it makes more than " << kMaxNodes << " parts";
  }
  std::vector<Value> parts;
  int64_t offset = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > extent - offset)
      return n.error() << "split sizes do not divide extent " << extent;
    Value part = n.sliceAxis(x, axis, offset, size);
    if (!keepDims && !n.failed()) {
      SmallVector<int64_t> shape(n.shape(part));
      shape.erase(shape.begin() + axis);
      part = n.reshape(part, shape);
    }
    parts.push_back(part);
    offset += size;
  }
  if (offset != extent)
    return n.error() << "split sizes do not divide extent " << extent;
  n.setList(0, std::move(parts));
  return n.status();
}

static LogicalResult convertSequenceAt(NodeImport &n) {
  std::vector<Value> list = listInput(n, 0);
  int64_t length = int64_t(list.size());
  int64_t position = positionInput(n, 1, length, length - 1);
  return n.failed() ? failure() : n.result(list[position]);
}

static LogicalResult convertSequenceConstruct(NodeImport &n) {
  SmallVector<Value> values = n.ins();
  n.setList(0, {values.begin(), values.end()});
  return n.status();
}

static LogicalResult convertSequenceEmpty(NodeImport &n) {
  (void)n.intAttr("dtype", kFloat);
  n.setList(0, {});
  return n.status();
}

static LogicalResult convertSequenceLength(NodeImport &n) {
  int64_t length = int64_t(listInput(n, 0).size());
  return n.result(n.ints({length}, {}));
}

static LogicalResult convertSequenceInsert(NodeImport &n) {
  std::vector<Value> list = listInput(n, 0);
  int64_t length = int64_t(list.size());
  int64_t position = n.has(2) ? positionInput(n, 2, length, length) : length;
  Value value = n.in(1);
  if (n.failed())
    return failure();
  list.insert(list.begin() + position, value);
  n.setList(0, std::move(list));
  return n.status();
}

static LogicalResult convertSequenceErase(NodeImport &n) {
  std::vector<Value> list = listInput(n, 0);
  int64_t length = int64_t(list.size());
  int64_t position =
      n.has(1) ? positionInput(n, 1, length, length - 1) : length - 1;
  if (!n.failed() && position < 0)
    return n.error() << "the sequence is empty";
  if (n.failed())
    return failure();
  list.erase(list.begin() + position);
  n.setList(0, std::move(list));
  return n.status();
}

static LogicalResult convertConcatFromSequence(NodeImport &n) {
  std::vector<Value> list = listInput(n, 0);
  bool newAxis = n.flag("new_axis");
  if (n.failed())
    return failure();
  if (list.empty())
    return n.error() << "the sequence is empty";
  int64_t axis = n.axisAttr("axis", 0, n.rank(list.front()) + newAxis);
  for (Value &value : list) {
    if (!newAxis)
      break;
    SmallVector<int64_t> shape(n.shape(value));
    if (axis > int64_t(shape.size()))
      return n.error() << "the elements have different ranks";
    shape.insert(shape.begin() + axis, 1);
    value = n.reshape(value, shape);
  }
  return n.result(n.concat(list, axis));
}

static LogicalResult convertOptionalHasElement(NodeImport &n) {
  Binding binding = n.binding(0);
  return n.result(n.booleans({}, int64_t(binding.value || binding.list)));
}

static LogicalResult convertOptionalGetElement(NodeImport &n) {
  Binding binding = n.binding(0);
  if (!n.failed() && !binding.value && !binding.list)
    return n.error() << "the optional is empty";
  if (binding.list)
    n.setList(0, *binding.list);
  else
    n.set(0, binding.value);
  return n.status();
}

/// `Optional` of a value is the value itself.
static LogicalResult convertOptional(NodeImport &n) {
  Binding binding = n.binding(0);
  if (binding.list)
    n.setList(0, *binding.list);
  else
    n.set(0, binding.value);
  return n.status();
}

OpFamily mpc::onnx::sequenceOps() {
  static const OpEntry entries[] = {
      {"ConcatFromSequence 11 1 axis new_axis", convertConcatFromSequence},
      {"Optional 15 0-1 type", convertOptional},
      {"OptionalGetElement 15,18 1", convertOptionalGetElement},
      {"OptionalHasElement 15,18 0-1", convertOptionalHasElement},
      {"SequenceAt 11 2", convertSequenceAt},
      {"SequenceConstruct 11 1+", convertSequenceConstruct},
      {"SequenceEmpty 11 0 dtype", convertSequenceEmpty},
      {"SequenceErase 11 1-2", convertSequenceErase},
      {"SequenceInsert 11 2-3", convertSequenceInsert},
      {"SequenceLength 11 1", convertSequenceLength},
      {"SplitToSequence 11,24 1-2 axis keepdims", convertSplitToSequence},
  };
  return entries;
}
