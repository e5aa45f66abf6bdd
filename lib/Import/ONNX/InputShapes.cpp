//===- InputShapes.cpp - symbolic dimensions of graph inputs --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// mpc compiles static shapes: the caller binds every symbol of an input to an
// extent, and equal symbols have equal extents.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "NarrowStorageType.h"
#include "TensorReader.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx;

/// Returns the caller's shape of an input, by its name, else by position.
static const SmallVector<int64_t> *givenShape(const OnnxImportOptions &options,
                                              StringRef name, size_t position) {
  auto found = options.inputShapes.find(name);
  if (found == options.inputShapes.end())
    found = options.inputShapes.find("arg" + std::to_string(position));
  return found == options.inputShapes.end() ? nullptr : &found->second;
}

LogicalResult Importer::bindSymbol(const ValueInfo &input, StringRef symbol,
                                   int64_t extent) {
  auto [it, fresh] = symbols.try_emplace(symbol, extent);
  if (fresh || it->second == extent)
    return success();
  return emitError(modelLocation)
         << "input '" << input.name << "' gives the symbolic dimension '"
         << symbol << "' the extent " << extent << ", but it is " << it->second;
}

LogicalResult Importer::bindBatch(ArrayRef<const ValueInfo *> arguments) {
  if (!options.batch)
    return success();
  if (*options.batch < 1)
    return emitError(modelLocation)
           << "batch is " << *options.batch << ", expected at least 1";
  newBatch = *options.batch;
  oldBatch = newBatch;
  const ValueInfo *first = nullptr;
  for (const ValueInfo *input : arguments) {
    if (!input->dims || input->dims->empty())
      continue;
    const Dimension &leading = input->dims->front();
    if (!leading.extent) {
      if (!leading.symbol.empty() &&
          failed(bindSymbol(*input, leading.symbol, newBatch)))
        return failure();
      continue;
    }
    if (!first) {
      first = input;
      oldBatch = *leading.extent;
    } else if (*leading.extent != oldBatch) {
      return emitError(modelLocation)
             << "batch cannot be changed: the leading extents of inputs '"
             << first->name << "' and '" << input->name << "' are " << oldBatch
             << " and " << *leading.extent;
    }
  }
  return success();
}

LogicalResult Importer::bindShapes(ArrayRef<const ValueInfo *> arguments) {
  llvm::StringMap<const ValueInfo *> byName;
  llvm::StringMap<char> known;
  for (const ValueInfo &input : model.graph.inputs) {
    byName[input.name] = &input;
    if (input.dims)
      for (const Dimension &dimension : *input.dims)
        if (!dimension.extent && !dimension.symbol.empty())
          known[dimension.symbol] = 1;
  }
  if (options.inputSymbols)
    for (const ValueInfo *input : arguments) {
      SmallVector<std::string> &symbolsOf =
          (*options.inputSymbols)[input->name];
      if (input->dims)
        for (const Dimension &dimension : *input->dims)
          symbolsOf.push_back(dimension.extent ? "" : dimension.symbol);
    }
  for (const auto &entry : options.dims) {
    if (!known.contains(entry.first()))
      return emitError(modelLocation)
             << "no input has a symbolic dimension named '" << entry.first()
             << "'";
    if (entry.second < 0)
      return emitError(modelLocation) << "symbolic dimension '" << entry.first()
                                      << "' gets the extent " << entry.second;
    symbols[entry.first()] = entry.second;
  }
  for (const auto &entry : options.inputValues)
    if (!byName.contains(entry.first()))
      return emitError(modelLocation)
             << "the model has no input named '" << entry.first() << "'";
  if (failed(bindBatch(arguments)))
    return failure();
  for (auto [position, input] : llvm::enumerate(arguments)) {
    const SmallVector<int64_t> *given =
        givenShape(options, input->name, position);
    if (!given || !input->dims)
      continue;
    ArrayRef<int64_t> shape = *given;
    if (shape.size() != input->dims->size())
      return emitError(modelLocation)
             << "input '" << input->name << "' has " << input->dims->size()
             << " dimensions, but a shape of " << shape.size() << " is given";
    for (auto [i, extent] : llvm::enumerate(shape)) {
      const Dimension &dimension = (*input->dims)[i];
      bool rebound = i == 0 && oldBatch != newBatch;
      int64_t expected = rebound ? newBatch : dimension.extent.value_or(extent);
      if (expected != extent)
        return emitError(modelLocation)
               << "input '" << input->name << "' has extent " << expected
               << " in dimension " << i << ", but " << extent << " is given";
      if (!dimension.extent && !dimension.symbol.empty() &&
          failed(bindSymbol(*input, dimension.symbol, extent)))
        return failure();
    }
  }
  return success();
}

FailureOr<RankedTensorType> Importer::inputType(const ValueInfo &input,
                                                size_t position) {
  if (input.kind != "tensor")
    return emitError(modelLocation)
           << "input '" << input.name << "' is a value of kind " << input.kind
           << ", but only tensors are supported";
  Type element = storageTypeOf(input.dataType, context);
  if (!element)
    return emitError(modelLocation)
           << "input '" << input.name << "' has elements of "
           << dataTypeName(input.dataType) << ", which mpc does not read";
  const SmallVector<int64_t> *given = givenShape(options, input.name, position);
  SmallVector<int64_t> shape;
  if (!input.dims) {
    if (!given)
      return emitError(modelLocation)
             << "input '" << input.name
             << "' has no declared shape; give its whole shape";
    shape = *given;
  } else {
    for (auto [i, dimension] : llvm::enumerate(*input.dims)) {
      if (i == 0 && newBatch != oldBatch && dimension.extent) {
        shape.push_back(newBatch);
      } else if (dimension.extent) {
        shape.push_back(*dimension.extent);
      } else if (auto bound = symbols.find(dimension.symbol);
                 !dimension.symbol.empty() && bound != symbols.end()) {
        shape.push_back(bound->second);
      } else if (given) {
        shape.push_back((*given)[i]);
      } else if (i == 0 && newBatch != 0) {
        shape.push_back(newBatch);
      } else if (dimension.symbol.empty()) {
        return emitError(modelLocation)
               << "input '" << input.name << "' has no extent in dimension "
               << i << "; give its whole shape";
      } else {
        return emitError(modelLocation)
               << "input '" << input.name
               << "' has the unbound symbolic dimension '" << dimension.symbol
               << "'; give its extent, as in --dim " << dimension.symbol
               << "=1";
      }
    }
  }
  std::optional<int64_t> count = checkedCount(shape);
  int64_t bytes = 0;
  if (!count ||
      __builtin_mul_overflow(*count, bytesOf(input.dataType), &bytes) ||
      bytes > options.maxTensorBytes)
    return emitError(modelLocation)
           << "input '" << input.name << "' is too large: at most "
           << options.maxTensorBytes << " bytes are allowed";
  return RankedTensorType::get(shape, element);
}
