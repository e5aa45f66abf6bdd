//===- Selection.cpp - NonZero, Unique, NonMaxSuppression -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The result's extent depends on values. Shapes are static, so these values
// must be known at import: constants, folded values, or inputs with a given
// value.
//
//===----------------------------------------------------------------------===//

#include "NodeImport.h"

#include <algorithm>
#include <limits>
#include <tuple>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

static LogicalResult convertNonZero(NodeImport &n) {
  SmallVector<double> values = n.constantFloatValues(0, "input");
  if (n.failed())
    return failure();
  SmallVector<int64_t> shape(n.shape(n.in(0)));
  std::vector<SmallVector<int64_t>> found;
  for (auto [position, value] : llvm::enumerate(values)) {
    if (value == 0)
      continue;
    SmallVector<int64_t> index(shape.size());
    int64_t rest = int64_t(position);
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d])
      index[d] = rest % shape[d];
    found.push_back(std::move(index));
  }
  SmallVector<int64_t> flat;
  for (size_t d = 0; d < shape.size(); ++d)
    for (const SmallVector<int64_t> &index : found)
      flat.push_back(index[d]);
  return n.result(n.ints(flat, {int64_t(shape.size()), int64_t(found.size())}));
}

//===----------------------------------------------------------------------===//
// Unique
//===----------------------------------------------------------------------===//

/// Returns the rank of each value in sorted order; equal values share it, and
/// NaN comes last.
template <typename T> static SmallVector<int64_t> placesOf(ArrayRef<T> values) {
  auto less = [](T a, T b) { return a < b || (b != b && a == a); };
  SmallVector<T> sorted(values);
  llvm::sort(sorted, less);
  SmallVector<int64_t> places;
  for (T value : values)
    places.push_back(
        std::lower_bound(sorted.begin(), sorted.end(), value, less) -
        sorted.begin());
  return places;
}

static SmallVector<int64_t> placesOf(const reference::Tensor &x,
                                     bool isUnsigned) {
  if (x.isFloat())
    return placesOf<double>(x.floats());
  if (!isUnsigned)
    return placesOf<int64_t>(x.ints());
  return placesOf<uint64_t>(
      SmallVector<uint64_t>(x.ints().begin(), x.ints().end()));
}

/// Returns the slices of `x` along `axis` as rows, or its elements if `axis` is
/// -1.
static std::vector<SmallVector<int64_t>>
rowsOf(ArrayRef<int64_t> x, ArrayRef<int64_t> shape, int64_t axis) {
  int64_t inner = 1, extent = int64_t(x.size());
  if (axis >= 0) {
    extent = shape[axis];
    for (int64_t each : shape.drop_front(axis + 1))
      inner *= each;
  }
  std::vector<SmallVector<int64_t>> rows(extent);
  for (auto [position, value] : llvm::enumerate(x))
    rows[int64_t(position) / inner % extent].push_back(value);
  return rows;
}

static LogicalResult convertUnique(NodeImport &n) {
  Value x = n.in(0);
  // Emits an error if the input is not known.
  (void)n.constantFloatValues(0, "input");
  bool sorted = n.flag("sorted", true);
  int64_t axis =
      n.hasAttr("axis") ? n.axisAttr("axis", 0, n.rank(x)) : int64_t(-1);
  if (n.failed())
    return failure();
  std::vector<SmallVector<int64_t>> rows =
      rowsOf(placesOf(*n.known(x), n.isUnsigned(x)), n.shape(x), axis);
  // Row indices, sorted to group equal rows.
  SmallVector<int64_t> order(rows.size());
  for (auto [i, place] : llvm::enumerate(order))
    place = int64_t(i);
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return std::tie(rows[a], a) < std::tie(rows[b], b);
  });
  std::vector<SmallVector<int64_t>> groups;
  for (int64_t place : order) {
    if (groups.empty() || rows[groups.back().front()] != rows[place])
      groups.emplace_back();
    groups.back().push_back(place);
  }
  if (!sorted)
    llvm::sort(groups, [](const auto &a, const auto &b) {
      return a.front() < b.front();
    });
  SmallVector<int64_t> first, counts, inverse(rows.size());
  for (auto [number, group] : llvm::enumerate(groups)) {
    first.push_back(group.front());
    counts.push_back(int64_t(group.size()));
    for (int64_t place : group)
      inverse[place] = int64_t(number);
  }
  if (axis < 0) {
    x = n.reshape(x, {int64_t(rows.size())});
    axis = 0;
  }
  n.set(0, n.gather(x, n.ints(first), axis));
  n.set(1, n.ints(first));
  n.set(2, n.ints(inverse));
  n.set(3, n.ints(counts));
  return n.status();
}

//===----------------------------------------------------------------------===//
// Non-maximum suppression
//===----------------------------------------------------------------------===//

namespace {

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

} // namespace

static Box readBox(const double *numbers, bool centred) {
  if (centred)
    return {numbers[1] - numbers[3] / 2, numbers[0] - numbers[2] / 2,
            numbers[1] + numbers[3] / 2, numbers[0] + numbers[2] / 2};
  return {std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3]),
          std::max(numbers[0], numbers[2]), std::max(numbers[1], numbers[3])};
}

/// Returns true if the intersection over union exceeds `threshold`.
static bool overlap(const Box &a, const Box &b, double threshold) {
  double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0 || a.area() <= 0 || b.area() <= 0)
    return false;
  double shared = height * width;
  return shared / (a.area() + b.area() - shared) > threshold;
}

/// Returns input `i` as one known number, `fallback` if absent.
static double knownNumber(NodeImport &n, size_t i, StringRef what,
                          double fallback) {
  if (!n.has(i))
    return fallback;
  SmallVector<double> values = n.constantFloatValues(i, what);
  return values.empty() ? fallback : values.front();
}

static LogicalResult convertNonMaxSuppression(NodeImport &n) {
  SmallVector<double> boxes = n.constantFloatValues(0, "boxes"),
                      scores = n.constantFloatValues(1, "scores");
  int64_t most = n.knownInt(2, "max_output_boxes_per_class");
  double threshold = knownNumber(n, 3, "iou_threshold", 0);
  double least = knownNumber(n, 4, "score_threshold",
                             -std::numeric_limits<double>::infinity());
  bool centred = n.flag("center_point_box");
  if (n.failed())
    return failure();
  Value boxInput = n.in(0), scoreInput = n.in(1);
  if (n.rank(boxInput) != 3 || n.dim(boxInput, 2) != 4 ||
      n.rank(scoreInput) != 3 || n.dim(scoreInput, 0) != n.dim(boxInput, 0) ||
      n.dim(scoreInput, 2) != n.dim(boxInput, 1))
    return n.error() << "boxes " << boxInput.getType() << " and scores "
                     << scoreInput.getType()
                     << " are not [batch, boxes, 4] and [batch, classes, "
                        "boxes]";
  int64_t classes = n.dim(scoreInput, 1), count = n.dim(scoreInput, 2);
  SmallVector<int64_t> chosen;
  for (int64_t batch = 0; batch < n.dim(scoreInput, 0); ++batch)
    for (int64_t label = 0; label < classes; ++label) {
      const double *score = &scores[(batch * classes + label) * count];
      SmallVector<int64_t> order, kept;
      for (int64_t i = 0; i < count; ++i)
        if (score[i] > least || (!n.has(4) && score[i] == least))
          order.push_back(i);
      llvm::sort(order, [&](int64_t a, int64_t b) {
        return score[a] > score[b] || (score[a] == score[b] && a < b);
      });
      auto box = [&](int64_t i) {
        return readBox(&boxes[(batch * count + i) * 4], centred);
      };
      for (int64_t i : order) {
        if (int64_t(kept.size()) >= most)
          break;
        if (llvm::any_of(kept, [&](int64_t other) {
              return overlap(box(i), box(other), threshold);
            }))
          continue;
        kept.push_back(i);
        chosen.append({batch, label, i});
      }
    }
  return n.result(n.ints(chosen, {int64_t(chosen.size()) / 3, 3}));
}

OpFamily mpc::onnx::selectionOps() {
  static const OpEntry entries[] = {
      {"NonMaxSuppression 10,11 2-5 center_point_box",
       convertNonMaxSuppression},
      {"NonZero 9,13 1", convertNonZero},
      {"Unique 11 1 axis sorted", convertUnique},
  };
  return entries;
}
