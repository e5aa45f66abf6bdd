//===- LengthBuckets.cpp - padding of calls to shape buckets --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LengthBuckets.h"

#include "mpc/Analysis/BatchIndependence.h"

#include <algorithm>
#include <cstring>

using namespace mpc;
using namespace mpc::detail;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

/// Copies the first min(from, to) rows of each of `runs` groups, which have
/// `from` rows in the source and `to` rows of `rowBytes` in the target;
/// zero-fills the other rows of the target.
static void copyRows(const Buffer &source, Buffer &target, size_t runs,
                     size_t from, size_t to, size_t rowBytes) {
  const auto *in = static_cast<const std::byte *>(source.data());
  auto *out = static_cast<std::byte *>(target.data());
  size_t copied = std::min(from, to) * rowBytes, left = to * rowBytes - copied;
  for (size_t i = 0; i < runs; ++i) {
    if (copied > 0)
      std::memcpy(out, in, copied);
    if (left > 0)
      std::memset(out + copied, 0, left);
    in += from * rowBytes;
    out += to * rowBytes;
  }
}

/// Returns a copy of `buffer` whose dimension `rows.dim` has `to` rows instead
/// of `from`.
static Result<Buffer> withRows(const Buffer &buffer, const BufferRows &rows,
                               int64_t from, int64_t to) {
  mpc::TensorType type = buffer.type();
  int64_t &extent = type.shape[rows.dim];
  int64_t runs = extent / (from * rows.width), inner = rows.width;
  extent = runs * to * rows.width;
  for (size_t i = 0; i < rows.dim; ++i)
    runs *= type.shape[i];
  for (size_t i = rows.dim + 1; i < type.shape.size(); ++i)
    inner *= type.shape[i];
  Result<Buffer> made = Buffer::allocate(type);
  if (made.ok() && made->size() > 0)
    copyRows(buffer, *made, size_t(runs), size_t(from), size_t(to),
             size_t(inner) * size_t(elementBytes(type.element)));
  return made;
}

Result<NamedBuffers> BucketPlan::pad(const NamedBuffers &arguments,
                                     const std::string &model) const {
  NamedBuffers padded = arguments;
  for (const auto &[name, steps] : inputs) {
    Buffer &buffer = padded.at(name);
    if (buffer.onDevice())
      return Status(StatusCode::InvalidArgument, model,
                    "input '" + name +
                        "' is on a device, but inputs that buckets pad must be "
                        "in host memory");
    for (const BufferRows &rows : steps) {
      Result<Buffer> made = withRows(buffer, rows, rows.few, rows.many);
      if (!made.ok())
        return made.status();
      buffer = std::move(*made);
    }
  }
  return padded;
}

Result<NamedBuffers> BucketPlan::cut(NamedBuffers results) const {
  for (const auto &[name, steps] : outputs) {
    Buffer &buffer = results.at(name);
    for (auto rows = steps.rbegin(); rows != steps.rend(); ++rows) {
      Result<Buffer> made = withRows(buffer, *rows, rows->many, rows->few);
      if (!made.ok())
        return made.status();
      buffer = std::move(*made);
    }
  }
  return results;
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

Status Buckets::checkOptions() const {
  for (const auto &[dimension, extents] : options.buckets) {
    bool rise =
        !extents.empty() && extents.front() > 0 &&
        std::is_sorted(extents.begin(), extents.end(),
                       std::less_equal<int64_t>()) &&
        std::adjacent_find(extents.begin(), extents.end()) == extents.end();
    if (!rise)
      return Status(StatusCode::InvalidArgument, source.name(),
                    "the buckets of dimension '" + dimension +
                        "' must be positive and increasing");
  }
  return {};
}

/// A dimension that a call pads from `few` to `many`.
namespace {
struct PaddedDimension {
  std::string name;
  int64_t few = 0, many = 0;
};
} // namespace

/// Maximum number of cached plans.
static constexpr size_t kMostPlans = 4096;

static std::string outputName(mlir::ModuleOp module, unsigned index) {
  return Compiler::entry(module)
      .getResultAttrOfType<mlir::StringAttr>(index, MpcDialect::kNameAttr)
      .str();
}

Result<BucketPlan> Buckets::make(const NamedBuffers &arguments,
                                 bool &readsValues) const {
  if (Status status = checkOptions(); !status.ok())
    return status;
  CompileOptions choices = options;
  // The compile itself reports diagnostics; planning only returns its status.
  choices.onDiagnostic = nullptr;
  choices.onStage = nullptr;
  choices.dumpDir.clear();
  // The import does not depend on the target.
  choices.target = "cpu:avx2";
  for (const auto &[name, buffer] : arguments) {
    choices.inputShapes[name] = buffer.type().shape;
    if (!buffer.onDevice())
      choices.inputValues[name] = buffer;
  }
  Result<std::unique_ptr<Compiler>> made = Compiler::create(choices);
  if (!made.ok())
    return made.status();
  Compiler &compiler = **made;
  Result<Compiler::Module> few = compiler.import(source);
  if (!few.ok())
    return few.status();
  readsValues = !compiler.fixedInputs().empty();

  // Collect the padded dimensions from the extents of the inputs.
  const Compiler::InputSymbols &symbols = compiler.inputSymbols();
  std::map<std::string, int64_t> extents;
  for (const auto &[input, names] : symbols)
    for (size_t dim = 0; dim < names.size(); ++dim)
      if (auto given = arguments.find(input);
          given != arguments.end() && !names[dim].empty())
        extents[names[dim]] = given->second.type().shape[dim];
  std::vector<PaddedDimension> padded;
  for (const auto &[dimension, buckets] : options.buckets) {
    auto extent = extents.find(dimension);
    if (extent == extents.end())
      return Status(StatusCode::InvalidArgument, source.name(),
                    "no input has a symbolic dimension named '" + dimension +
                        "', which has buckets");
    auto bucket =
        std::lower_bound(buckets.begin(), buckets.end(), extent->second);
    if (extent->second > 0 && bucket != buckets.end() &&
        *bucket != extent->second)
      padded.push_back({dimension, extent->second, *bucket});
  }

  BucketPlan plan;
  for (const PaddedDimension &dimension : padded) {
    for (const auto &[input, names] : symbols)
      for (unsigned dim = 0; dim < names.size(); ++dim) {
        if (names[dim] != dimension.name || !arguments.contains(input))
          continue;
        if (llvm::is_contained(compiler.fixedInputs(), input))
          return Status(StatusCode::InvalidArgument, source.name(),
                        "input '" + input + "' has dimension '" +
                            dimension.name +
                            "', which has buckets, but its values determine "
                            "shapes, so it cannot be padded");
        choices.inputShapes[input][dim] = dimension.many;
        plan.inputs[input].push_back({dim, 1, dimension.few, dimension.many});
      }
    compiler.setInputShapes(choices.inputShapes);
    Result<Compiler::Module> many = compiler.import(source);
    if (!many.ok())
      return many.status();
    size_t firstMessage = compiler.diagnostics().size();
    BatchIndependence rows =
        checkBatchIndependence(Compiler::entry(**few), Compiler::entry(**many),
                               dimension.few, dimension.many, dimension.name);
    if (rows.outcome == BatchIndependence::Outcome::Mixed)
      return compiler.failure(firstMessage);
    // Exporters special-case some extents: compile those exactly.
    if (rows.outcome == BatchIndependence::Outcome::OtherProgram)
      return BucketPlan();
    for (auto [i, place] : llvm::enumerate(rows.results))
      if (place)
        plan.outputs[outputName(**many, i)].push_back(
            {place->dim, place->width, dimension.few, dimension.many});
    few = std::move(many);
  }
  return plan;
}

Result<BucketPlan> Buckets::plan(const std::string &key,
                                 const NamedBuffers &arguments) {
  // Holding the lock while planning: concurrent calls mostly have the same
  // shapes.
  std::scoped_lock lock(mutex);
  if (auto known = plans.find(key); known != plans.end())
    return known->second;
  bool readsValues = false;
  Result<BucketPlan> made = make(arguments, readsValues);
  // A plan that depends on input values is not cached.
  if (plans.size() == kMostPlans)
    plans.clear();
  if (made.ok() && !readsValues)
    plans.emplace(key, made);
  return made;
}
