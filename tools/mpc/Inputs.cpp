//===- Inputs.cpp - data for a model --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"

#include "JIT/Compiler.h"

#include "mpc/Dialect/Mpc/IR/MpcOps.h"
#include "mpc/Reference/Tensor.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

using namespace mpc;
using namespace mpc::tool;

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static bool endsWith(const std::string &text, const char *end) {
  size_t size = std::strlen(end);
  return text.size() >= size &&
         text.compare(text.size() - size, size, end) == 0;
}

Result<std::vector<NamedArray>>
tool::loadArrays(const std::vector<std::string> &arguments) {
  std::vector<NamedArray> arrays;
  for (const std::string &argument : arguments) {
    std::vector<NamedArray> more;
    size_t equals = argument.find('=');
    if (endsWith(argument, ".npz") && equals == std::string::npos) {
      Result<std::vector<NamedArray>> read = readNpz(argument);
      if (!read.ok())
        return read;
      more = std::move(*read);
    } else if (equals != std::string::npos && equals > 0 &&
               endsWith(argument, ".npy")) {
      std::string path = argument.substr(equals + 1);
      Result<Buffer> read = readNpy(path);
      if (!read.ok())
        return read.status();
      more.push_back({argument.substr(0, equals), std::move(*read), path});
    } else {
      return Status(StatusCode::InvalidArgument, argument,
                    "is no data file; use FILE.npz or NAME=FILE.npy");
    }
    for (NamedArray &array : more) {
      for (const NamedArray &other : arrays)
        if (other.name == array.name)
          return Status(StatusCode::InvalidArgument, array.where,
                        "array '" + array.name + "' is also in " + other.where);
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

void tool::addInputShapes(const std::vector<NamedArray> &arrays,
                          CompileOptions &options) {
  for (const NamedArray &array : arrays)
    options.inputShapes[array.name] = array.data.type().shape;
}

//===----------------------------------------------------------------------===//
// Binding
//===----------------------------------------------------------------------===//

const NamedArray *tool::findArray(const std::vector<NamedArray> &arrays,
                                  const std::string &name,
                                  const std::string &prefix, size_t index) {
  for (const std::string &wanted : {name, prefix + std::to_string(index)})
    for (const NamedArray &array : arrays)
      if (array.name == wanted)
        return &array;
  return nullptr;
}

/// `data` as brain floats, or nullopt where a value would change.
static std::optional<Buffer> asBrainFloat(const Buffer &data,
                                          const TensorType &type) {
  Result<Buffer> narrow = Buffer::allocate(type);
  if (!narrow.ok())
    return std::nullopt;
  std::span<uint16_t> out = narrow->as<uint16_t>();
  if (data.type().element == ElementType::UI16) {
    std::memcpy(out.data(), data.data(), data.size());
    return std::move(*narrow);
  }
  std::span<const uint32_t> in = data.as<uint32_t>();
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] & 0xffff)
      return std::nullopt;
    out[i] = static_cast<uint16_t>(in[i] >> 16);
  }
  return std::move(*narrow);
}

static Status bindArray(const NamedArray &array, const ProgramValue &value,
                        Buffer &bound) {
  const TensorType &have = array.data.type();
  if (have == value.type) {
    bound = array.data;
    return {};
  }
  if (have.shape != value.type.shape)
    return Status(StatusCode::InvalidArgument, array.where,
                  "array '" + array.name + "' has shape " +
                      shapeToString(have.shape) + ", but the model wants " +
                      shapeToString(value.type.shape));
  bool carriesBrainFloat =
      have.element == ElementType::UI16 || have.element == ElementType::F32;
  if (value.type.element == ElementType::BF16 && carriesBrainFloat) {
    std::optional<Buffer> narrow = asBrainFloat(array.data, value.type);
    if (!narrow)
      return Status(StatusCode::InvalidArgument, array.where,
                    "array '" + array.name +
                        "' is f32 with values that bf16 does not hold; round "
                        "them to bf16");
    bound = std::move(*narrow);
    return {};
  }
  return Status(StatusCode::InvalidArgument, array.where,
                "array '" + array.name + "' is " +
                    std::string(elementTypeName(have.element)) +
                    ", but the model wants " +
                    std::string(elementTypeName(value.type.element)));
}

std::vector<Status> tool::bindArrays(const std::vector<NamedArray> &arrays,
                                     const std::vector<ProgramValue> &values,
                                     const std::string &prefix,
                                     std::vector<Buffer> &bound) {
  std::vector<Status> problems;
  bound.assign(values.size(), Buffer());
  for (size_t i = 0; i < values.size(); ++i) {
    const NamedArray *array = findArray(arrays, values[i].name, prefix, i);
    if (!array) {
      problems.emplace_back(
          StatusCode::InvalidArgument, "input '" + values[i].name + "'",
          "no array was given for it; add " + values[i].type.toString() +
              " under that name or as '" + prefix + std::to_string(i) + "'");
      continue;
    }
    if (Status status = bindArray(*array, values[i], bound[i]); !status.ok())
      problems.push_back(std::move(status));
  }
  return problems;
}

/// The name that an argument or result carries, else its position's.
static std::string valueName(mlir::Attribute attribute, const char *prefix,
                             unsigned index) {
  if (auto name = mlir::dyn_cast_if_present<mlir::StringAttr>(attribute);
      name && !name.empty())
    return name.getValue().str();
  return prefix + std::to_string(index);
}

std::vector<ProgramValue> tool::argumentsOf(mlir::func::FuncOp function) {
  std::vector<ProgramValue> values;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    values.push_back(
        {valueName(function.getArgAttr(i, MpcDialect::kNameAttr), "arg", i),
         runtimeType(mlir::cast<mlir::RankedTensorType>(
             function.getArgument(i).getType()))});
  return values;
}

std::vector<ProgramValue> tool::resultsOf(mlir::func::FuncOp function) {
  std::vector<ProgramValue> values;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    values.push_back(
        {valueName(function.getResultAttr(i, MpcDialect::kNameAttr), "out", i),
         runtimeType(mlir::cast<mlir::RankedTensorType>(
             function.getResultTypes()[i]))});
  return values;
}

//===----------------------------------------------------------------------===//
// Drawing
//===----------------------------------------------------------------------===//

/// Smallest extent that `value` indexes, through ops that only move or widen
/// it.
static int64_t indexedExtent(mlir::Value value,
                             llvm::SmallPtrSetImpl<mlir::Value> &seen) {
  int64_t extent = INT64_MAX;
  auto indexes = [&](mlir::Value data, int64_t axis) {
    extent = std::min(
        extent, mlir::cast<mlir::ShapedType>(data.getType()).getDimSize(axis));
  };
  llvm::SmallVector<mlir::Value> open = {value};
  while (!open.empty()) {
    mlir::Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    for (mlir::OpOperand &use : next.getUses()) {
      mlir::Operation *op = use.getOwner();
      bool isIndex = use.getOperandNumber() == 1;
      if (auto gather = mlir::dyn_cast<GatherOp>(op); gather && isIndex)
        indexes(gather.getInput(), gather.getAxis());
      else if (auto gather = mlir::dyn_cast<GatherElementsOp>(op);
               gather && isIndex)
        indexes(gather.getInput(), gather.getAxis());
      else if (auto scatter = mlir::dyn_cast<ScatterElementsOp>(op);
               scatter && isIndex)
        indexes(scatter.getInput(), scatter.getAxis());
      else if (mlir::isa<GatherNdOp, ScatterNdOp>(op) && isIndex) {
        auto data = mlir::cast<mlir::ShapedType>(op->getOperand(0).getType());
        for (int64_t axis = 0; axis < data.getRank(); ++axis)
          indexes(op->getOperand(0), axis);
      } else if (auto oneHot = mlir::dyn_cast<OneHotOp>(op);
                 oneHot && use.getOperandNumber() == 0)
        extent = std::min<int64_t>(extent, oneHot.getDepth());
      else if (mlir::isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp,
                         CastOp, ReverseOp>(op))
        open.push_back(op->getResult(0));
    }
  }
  return extent;
}

Result<std::vector<Buffer>> tool::drawInputs(mlir::func::FuncOp function,
                                             uint64_t seed) {
  std::mt19937_64 bits(seed);
  // The standard's distributions differ between libraries; these do not.
  auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
  auto normal = [&] {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  };
  std::vector<ProgramValue> values = argumentsOf(function);
  std::vector<Buffer> drawn;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    mlir::BlockArgument argument = function.getArgument(i);
    Result<Buffer> buffer = Buffer::allocate(values[i].type);
    if (!buffer.ok())
      return buffer.status();
    reference::Tensor tensor(
        mlir::cast<mlir::RankedTensorType>(argument.getType()));
    if (tensor.isFloat()) {
      for (double &element : tensor.floats())
        element = normal();
    } else {
      llvm::SmallPtrSet<mlir::Value, 16> seen;
      int64_t extent = indexedExtent(argument, seen);
      if (extent == INT64_MAX)
        extent = 2;
      if (values[i].type.element == ElementType::I1)
        extent = std::min<int64_t>(extent, 2);
      for (int64_t &element : tensor.ints())
        element = extent > 0 ? int64_t(bits() % uint64_t(extent)) : 0;
    }
    tensor.toBytes(buffer->data());
    drawn.push_back(std::move(*buffer));
  }
  return drawn;
}
