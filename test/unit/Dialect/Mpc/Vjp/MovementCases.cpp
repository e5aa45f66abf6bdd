//===- MovementCases.cpp - random data movement, gathers, scatters --------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices reach outside on both sides: gathers clamp them, scatters drop them.
//
//===----------------------------------------------------------------------===//

#include "VjpCases.h"

#include <algorithm>

using namespace mpc::vjptest;

namespace {

/// `low` and `high` may crop where they are negative.
void pad(Draw &d, std::string mode, int64_t least, int64_t most,
         bool interior) {
  Shape shape = d.shape(2, 3), low, high, between, result;
  for (int64_t size : shape) {
    low.push_back(d.extent(least, most));
    // One sign per dimension.
    high.push_back(low.back() < 0 ? -d.extent(0, 1) : d.extent(0, most));
    between.push_back(interior ? d.extent(0, 2) : 0);
    result.push_back(size + low.back() + high.back() +
                     (size - 1) * between.back());
  }
  d.parameter(shape);
  d.parameter({});
  d.op("mpc.pad %0, %1 low(" + list(low) + ") high(" + list(high) + ")" +
           (interior ? " interior(" + list(between) + ")" : "") +
           (mode.empty() ? "" : " mode(" + mode + ")"),
       {result});
}

void gather(Draw &d, int64_t indexRank, std::string element) {
  Shape shape = d.shape(3, 2), indices = d.shape(indexRank);
  int64_t axis = d.extent(0, 2);
  Shape result(shape.begin(), shape.begin() + axis);
  result.append(indices);
  result.append(shape.begin() + axis + 1, shape.end());
  d.parameter(shape);
  d.integers(indices, -shape[axis] - 1, shape[axis], element);
  d.op("mpc.gather %0, %1 axis(" + std::to_string(axis) + ")", {result});
}

void gatherNd(Draw &d, int64_t batchDims) {
  Shape shape = d.shape(3, 2);
  int64_t tuple = d.extent(1, 3 - batchDims), count = d.extent(2, 4);
  Shape indices(shape.begin(), shape.begin() + batchDims);
  indices.push_back(count);
  Shape result = indices;
  indices.push_back(tuple);
  result.append(shape.begin() + batchDims + tuple, shape.end());
  d.parameter(shape);
  d.integers(indices, -3, 3);
  d.op("mpc.gather_nd %0, %1 batch_dims(" + std::to_string(batchDims) + ")",
       {result});
}

/// Few positions, so that updates collide.
void scatterElements(Draw &d, std::string reduction) {
  Shape shape = d.shape(2, 3), updates = {d.extent(2, 3), d.extent(2, 3)};
  int64_t axis = d.extent(0, 1);
  updates[axis] = 5;
  d.parameter(shape, awayFromZero);
  d.integers(updates, -shape[axis] - 1, shape[axis]);
  d.parameter(updates, awayFromZero);
  d.op("mpc.scatter_elements %0, %1, %2 axis(" + std::to_string(axis) + ")" +
           (reduction.empty() ? "" : " reduction(" + reduction + ")"),
       {shape});
}

void scatterNd(Draw &d, std::string reduction) {
  Shape shape = d.shape(3, 2);
  int64_t tuple = d.extent(1, 3), count = 5;
  Shape updates = {count};
  updates.append(shape.begin() + tuple, shape.end());
  d.parameter(shape, awayFromZero);
  d.integers({count, tuple}, -3, 2, "i32");
  d.parameter(updates, awayFromZero);
  d.op("mpc.scatter_nd %0, %1, %2" +
           (reduction.empty() ? "" : " reduction(" + reduction + ")"),
       {shape});
}

} // namespace

std::vector<OpCase> mpc::vjptest::movementCases() {
  return {
      {"mpc.reshape",
       [](Draw &d) {
         Shape shape = d.shape(3);
         d.parameter(shape);
         d.op("mpc.reshape %0", {{shape[0] * shape[1], shape[2], 1}},
              Types::To);
       }},
      {"mpc.transpose",
       [](Draw &d) {
         Shape shape = d.shape(4), order = {0, 1, 2, 3}, turned;
         std::shuffle(order.begin(), order.end(), d.generator);
         for (int64_t axis : order)
           turned.push_back(shape[axis]);
         d.parameter(shape);
         d.op("mpc.transpose %0 " + list(order), {turned}, Types::To);
       }},
      {"mpc.broadcast",
       [](Draw &d) {
         Shape shape = d.shape(4, 2);
         d.parameter({shape[1], 1, d.coin() ? shape[3] : 1});
         d.op("mpc.broadcast %0", {shape}, Types::To);
       }},
      {"mpc.concat",
       [](Draw &d) {
         Shape shape = d.shape(3), result = shape;
         int64_t axis = d.extent(0, 2);
         d.parameter(shape);
         for (int i = 0; i < 2; ++i) {
           shape[axis] = d.extent();
           result[axis] += shape[axis];
           d.parameter(shape);
         }
         d.op("mpc.concat %0, %1, %2 axis(" + std::to_string(axis) + ")",
              {result});
       }},
      {"mpc.slice",
       [](Draw &d) {
         Shape shape, offsets, sizes, strides;
         for (int i = 0; i < 3; ++i) {
           offsets.push_back(d.extent(0, 2));
           sizes.push_back(d.extent(1, 3));
           strides.push_back(d.extent(1, 3));
           shape.push_back(offsets[i] + (sizes[i] - 1) * strides[i] + 1 +
                           d.extent(0, 2));
         }
         d.parameter(shape);
         d.op("mpc.slice %0 " + list(offsets) + " " + list(sizes) +
                  " strides " + list(strides),
              {sizes}, Types::To);
       }},
      {"mpc.reverse",
       [](Draw &d) {
         Shape shape = d.shape(3);
         d.parameter(shape);
         d.op("mpc.reverse %0 axes([0, 2])", {shape}, Types::Result);
       }},
      {"mpc.pad", [](Draw &d) { pad(d, "", 0, 2, true); }},
      {"mpc.pad cropping", [](Draw &d) { pad(d, "", -1, 1, false); }},
      {"mpc.pad cropping between",
       [](Draw &d) {
         // 0 0 a 0 0 b 0 0 c, cropped by two at the start and one at the end.
         d.parameter({3});
         d.parameter({});
         d.op("mpc.pad %0, %1 low([-2]) high([-1]) interior([2])", {{4}});
       }},
      {"mpc.pad reflect", [](Draw &d) { pad(d, "reflect", 0, 2, false); }},
      {"mpc.pad edge", [](Draw &d) { pad(d, "edge", 0, 3, false); }},
      {"mpc.pad wrap", [](Draw &d) { pad(d, "wrap", 0, 8, false); }},
      {"mpc.pad edge cropping", [](Draw &d) { pad(d, "edge", -1, 2, false); }},
      {"mpc.gather", [](Draw &d) { gather(d, 2, "i64"); }},
      {"mpc.gather one index", [](Draw &d) { gather(d, 0, "i32"); }},
      {"mpc.gather_elements",
       [](Draw &d) {
         Shape shape = d.shape(3, 2), indices = shape;
         int64_t axis = d.extent(0, 2);
         indices[axis] = d.extent(1, 5);
         d.parameter(shape);
         d.integers(indices, -shape[axis] - 1, shape[axis]);
         d.op("mpc.gather_elements %0, %1 axis(" + std::to_string(axis) + ")",
              {indices});
       }},
      {"mpc.gather_nd", [](Draw &d) { gatherNd(d, 0); }},
      {"mpc.gather_nd batches", [](Draw &d) { gatherNd(d, d.extent(1, 2)); }},
      {"mpc.scatter_elements", [](Draw &d) { scatterElements(d, ""); }},
      {"mpc.scatter_elements add", [](Draw &d) { scatterElements(d, "add"); }},
      {"mpc.scatter_elements mul", [](Draw &d) { scatterElements(d, "mul"); }},
      {"mpc.scatter_elements max", [](Draw &d) { scatterElements(d, "max"); }},
      {"mpc.scatter_nd", [](Draw &d) { scatterNd(d, ""); }},
      {"mpc.scatter_nd add", [](Draw &d) { scatterNd(d, "add"); }},
      {"mpc.scatter_nd mul", [](Draw &d) { scatterNd(d, "mul"); }},
      {"mpc.scatter_nd min", [](Draw &d) { scatterNd(d, "min"); }},
      {"mpc.one_hot",
       [](Draw &d) {
         Shape shape = d.shape(2);
         int64_t depth = d.extent(2, 4), axis = d.extent(0, 2);
         Shape result = shape;
         result.insert(result.begin() + axis, depth);
         d.integers(shape, -depth - 1, depth);
         d.parameter({});
         d.parameter({});
         d.op("mpc.one_hot %0, %1, %2 depth(" + std::to_string(depth) +
                  ") axis(" + std::to_string(axis) + ")",
              {result});
       }},
  };
}
