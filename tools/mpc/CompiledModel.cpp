//===- CompiledModel.cpp - .mpcx files as models --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"

#include "InitialState.h"

#include "mpc/Runtime/Suggestions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <random>

using namespace mpc;
using namespace mpc::tool;

bool tool::isStoredModel(const std::string &path) {
  return path.ends_with(".mpcx");
}

Status tool::rejectForCompiledModel(const CommonOptions &options,
                                    const std::string &flag) {
  return Status(StatusCode::InvalidArgument, options.model,
                "is already compiled, so " + flag +
                    " has no effect; pass it to mpc compile");
}

/// Formats dimensions: "batch=8, seq=128".
static std::string describeDims(const std::map<std::string, int64_t> &dims) {
  std::string text;
  for (const auto &[name, extent] : dims)
    text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(extent);
  return text;
}

/// Returns the specialization with the dimensions of --dim.
static Result<ExecutableFile> chooseByDims(const ExecutableFile &file,
                                           const CommonOptions &options) {
  std::map<std::string, int64_t> wanted;
  for (const std::string &text : options.dims) {
    std::string name, value;
    splitPair(text, name, value);
    std::vector<int64_t> extents = parseExtents(value);
    if (!file.dims().contains(name) || extents.size() != 1)
      return rejectForCompiledModel(options, "--dim");
    wanted[name] = extents.front();
  }
  std::string held;
  for (const ExecutableFile &part : file.specialisations()) {
    if (std::ranges::includes(part.dims(), wanted))
      return part;
    held += (held.empty() ? "" : "; ") + describeDims(part.dims());
  }
  return Status(StatusCode::InvalidArgument, options.model,
                "was compiled for " + held + ", not for " +
                    describeDims(wanted) + "; also compile the model for that");
}

Result<ExecutableFile>
tool::openStoredModel(const CommonOptions &options,
                      const std::vector<NamedArray> &arrays) {
  const CommonOptions defaults;
  std::pair<bool, const char *> fixed[] = {
      {options.policy != defaults.policy, "--policy"},
      {!options.sets.empty(), "--set"},
      {options.batch.has_value(), "--batch"},
      {!options.target.empty(), "--target"},
      {options.rounding != defaults.rounding, "--rounding"},
      {options.reproducible, "--reproducible"},
      {options.castPlacement != defaults.castPlacement, "--cast-placement"},
      {options.gemm != defaults.gemm, "--gemm"},
      {!options.stepLossScale.empty(), "--step-loss-scale"},
      {!options.dumpDir.empty(), "--dump-dir"}};
  for (auto [given, flag] : fixed)
    if (given)
      return rejectForCompiledModel(options, flag);
  std::error_code unknown;
  uint64_t bytes = std::filesystem::file_size(options.model, unknown);
  if (!unknown && options.maxMemory > 0 && bytes > uint64_t(options.maxMemory))
    return Status(StatusCode::ResourceExhausted, options.model,
                  "has " + std::to_string(bytes) + " bytes, but at most " +
                      std::to_string(options.maxMemory) +
                      " are allowed; give a larger --max-memory");
  Result<ExecutableFile> file = ExecutableFile::open(options.model);
  if (!file.ok())
    return file.status();
  if (!options.dims.empty())
    return chooseByDims(*file, options);
  ExecutableFile::Shapes shapes;
  for (const std::string &text : options.shapes) {
    std::string name, value;
    splitPair(text, name, value);
    shapes[name] = parseShape(value);
    std::vector<std::string> known;
    for (const ProgramValue &argument : file->arguments())
      known.push_back(argument.name);
    if (std::find(known.begin(), known.end(), name) == known.end())
      return Status(StatusCode::InvalidArgument, "--shape " + name,
                    "the model has no input of that name" +
                        didYouMean(name, known));
  }
  if (shapes.empty() && file->specialisations().size() == 1)
    return file;
  std::span<const ProgramValue> values = file->arguments();
  for (size_t i = 0; i < values.size(); ++i)
    if (const NamedArray *array = findArray(arrays, values[i].name, "arg", i))
      shapes.try_emplace(values[i].name, array->data.type().shape);
  return file->forShapes(shapes);
}

Result<Executable> tool::loadStoredModel(const ExecutableFile &file,
                                         const CommonOptions &options,
                                         Device device) {
  return file.load(
      std::move(device),
      {.trusted = true, .isa = options.isa, .maxMemory = options.maxMemory});
}

std::string tool::levelOf(const Executable &executable) {
  return std::string(mpc::levelOf(executable.program().target));
}

//===----------------------------------------------------------------------===//
// Random values
//===----------------------------------------------------------------------===//

Result<std::vector<Buffer>>
tool::drawValues(std::span<const ProgramValue> values, uint64_t seed) {
  std::mt19937_64 bits(seed);
  // Own distributions, since those of the standard library differ between
  // implementations.
  auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
  auto normal = [&] {
    double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  };
  std::vector<Buffer> drawn;
  for (const ProgramValue &value : values) {
    // States are not random: second moments must not be negative.
    if (isSelfInitialized(value)) {
      drawn.emplace_back();
      continue;
    }
    Result<Buffer> buffer = Buffer::allocate(value.type);
    if (!buffer.ok())
      return buffer.status();
    auto fill = [&](auto sample, auto draw) {
      for (auto &element : buffer->as<decltype(sample)>())
        element = static_cast<decltype(sample)>(draw());
    };
    int64_t bound = value.integerBound > 0 ? value.integerBound : 2;
    if (value.type.element == ElementType::I1)
      bound = std::min<int64_t>(bound, 2);
    auto integer = [&] { return int64_t(bits() % uint64_t(bound)); };
    switch (value.type.element) {
    case ElementType::F64:
      fill(double(), normal);
      break;
    case ElementType::F32:
      fill(float(), normal);
      break;
    case ElementType::F16:
      fill(_Float16(), normal);
      break;
    case ElementType::BF16:
      fill(uint16_t(), [&] { return roundToOddBFloat16(normal()); });
      break;
    case ElementType::F8E4M3FN:
    case ElementType::F8E5M2:
      // Of all magnitudes below 2.
      fill(uint8_t(), [&] { return uint8_t(bits() & 0xbf); });
      break;
    default:
      switch (elementBytes(value.type.element)) {
      case 1:
        fill(uint8_t(), integer);
        break;
      case 2:
        fill(uint16_t(), integer);
        break;
      case 4:
        fill(uint32_t(), integer);
        break;
      default:
        fill(uint64_t(), integer);
        break;
      }
    }
    drawn.push_back(std::move(*buffer));
  }
  if (Status status = makeInitialState(values, drawn); !status.ok())
    return status;
  return drawn;
}
