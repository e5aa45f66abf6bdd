//===- BoundProgram.cpp - compiled parts and their shared state -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgram.h"

#include "mpc/Support/StepNames.h"

#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace mpc;
using namespace mpc::training;

Result<SharedProgramState>
SharedProgramState::create(const Device &device, uint64_t seed,
                           const DataParallelGroup &ranks) {
  SharedProgramState state(device);
  state.seed = seed;
  state.ranks = ranks;
  if (device.hasOwnMemory()) {
    Result<Stream> stream = Stream::create(device);
    if (!stream.ok())
      return stream.status();
    state.queue = std::move(*stream);
  }
  return state;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Result<Buffer> SharedProgramState::allocate(const mpc::TensorType &type) const {
  return queue ? Buffer::allocateOn(*queue, type) : Buffer::allocate(type);
}

Result<Buffer> SharedProgramState::toHost(const Buffer &buffer) const {
  if (queue)
    return buffer.toHost(*queue);
  return Buffer::fromHost(
      buffer.type(),
      {static_cast<const std::byte *>(buffer.data()), buffer.size()});
}

/// Returns a distinct seed per rank: the `rank`-th output of splitmix64
/// (Steele, Lea and Flood, Fast splittable pseudorandom number generators,
/// 2014).
static int64_t seedOf(int64_t seed, int64_t rank) {
  if (rank == 0)
    return seed;
  uint64_t z = uint64_t(seed) + uint64_t(rank) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return int64_t(z ^ (z >> 31));
}

Result<Buffer> SharedProgramState::pieceOf(const ProgramValue &value,
                                           const void *bytes) const {
  Result<Buffer> piece = Buffer::allocate(value.type);
  if (!piece.ok())
    return piece;
  const auto all = size_t(*value.initialType().byteCount());
  size_t begin = std::min(size_t(ranks.rank()) * piece->size(), all);
  if (size_t length = std::min(piece->size(), all - begin))
    std::memcpy(piece->data(), static_cast<const char *>(bytes) + begin,
                length);
  return piece;
}

Result<Buffer> SharedProgramState::whole(const Entry &entry) const {
  Result<Buffer> own = toHost(entry.buffer);
  if (!own.ok() || !entry.value.shardOf)
    return own;
  Result<Buffer> whole = Buffer::allocate(entry.value.initialType());
  if (!whole.ok())
    return whole;
  std::vector<char> all(own->size() * size_t(ranks.size()));
  ranks.communicator()->describe("the whole of '" + entry.value.name + "'");
  if (Status status =
          ranks.communicator()->allGather(own->data(), all.data(), own->size());
      !status.ok())
    return status;
  if (whole->size() > 0)
    std::memcpy(whole->data(), all.data(), whole->size());
  return whole;
}

Status SharedProgramState::restore(const Entry &entry, const Buffer &bytes) {
  int64_t rank = ranks.rank();
  if (entry.value.shardOf) {
    Result<Buffer> piece = pieceOf(entry.value, bytes.data());
    return piece.ok() ? assign(entry, *piece) : piece.status();
  }
  if (rank == 0 || entry.value.role != "rng_state" ||
      entry.value.type.element != ElementType::I64 || bytes.size() == 0)
    return assign(entry, bytes);
  Result<Buffer> own = toHost(bytes);
  if (!own.ok())
    return own.status();
  own->as<int64_t>()[0] = seedOf(own->as<int64_t>()[0], rank);
  return assign(entry, *own);
}

Status SharedProgramState::assign(const Entry &entry, const Buffer &bytes) {
  Buffer target = entry.buffer;
  if (!queue) {
    if (target.size() > 0)
      std::memcpy(target.data(), bytes.data(), target.size());
    return {};
  }
  if (Status status = target.copyFrom(bytes, *queue); !status.ok())
    return status;
  return queue->synchronize();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

const SharedProgramState::Entry *
SharedProgramState::find(const std::string &name) const {
  auto found = byName.find(name);
  return found == byName.end() ? nullptr : &list[found->second];
}

Result<Buffer>
SharedProgramState::initialValue(const ProgramValue &value) const {
  if (value.shardOf && value.initial)
    return pieceOf(value, value.initial.get());
  Result<Buffer> buffer = Buffer::allocate(value.type);
  if (!buffer.ok())
    return buffer;
  if (value.initial && buffer->size() > 0)
    std::memcpy(buffer->data(), value.initial.get(), buffer->size());
  // The generator's state is the seed, then the step number.
  if (value.role == "rng_state" && value.type.element == ElementType::I64 &&
      buffer->size() > 0)
    buffer->as<int64_t>()[0] = seedOf(int64_t(seed), ranks.rank());
  return buffer;
}

Result<Buffer> SharedProgramState::bindArgument(const ProgramValue &value,
                                                bool keeps) {
  if (const Entry *known = find(value.name)) {
    if (known->value.type == value.type)
      return known->buffer;
    return Status(StatusCode::Internal, "state '" + value.name + "'",
                  "is " + known->value.type.toString() +
                      " in one program of the training and " +
                      value.type.toString() + " in another");
  }
  Result<Buffer> first = initialValue(value);
  if (!first.ok())
    return first;
  Buffer buffer = *first;
  if (queue) {
    Result<Buffer> made = allocate(value.type);
    if (!made.ok())
      return made;
    buffer = *made;
  }
  byName[value.name] = list.size();
  list.push_back({value, buffer, keeps});
  if (queue)
    if (Status status = assign(list.back(), *first); !status.ok())
      return status;
  return buffer;
}

Result<Buffer> SharedProgramState::bindResult(const ProgramValue &value) {
  // The update reads one set of gradients, of batches of all sizes.
  if (std::string_view(value.name).ends_with(kGradientSuffix))
    if (const Entry *known = find(value.name);
        known && known->value.type == value.type)
      return known->buffer;
  Result<Buffer> buffer = allocate(value.type);
  if (!buffer.ok())
    return buffer;
  byName[value.name] = list.size();
  list.push_back({value, *buffer, /*kept=*/false});
  return buffer;
}

Status SharedProgramState::recomputeNarrowCopies(const std::string *only) {
  for (const Entry &entry : list) {
    const std::string &name = entry.value.name;
    if (entry.value.role != "parameter_copy" || (only && name != *only))
      continue;
    bool same = std::string_view(name).ends_with(kWholeSuffix);
    std::string master(name, 0, name.rfind(same ? kWholeSuffix : kCopySuffix));
    const Entry *source = find(master);
    ElementType element = entry.value.type.element;
    bool half = element == ElementType::F16;
    mpc::TensorType wanted =
        source ? source->value.initialType() : mpc::TensorType();
    if (!source || wanted.shape != entry.value.type.shape ||
        (same ? wanted.element != element
              : wanted.element != ElementType::F32 ||
                    !(half || element == ElementType::BF16)))
      return Status(StatusCode::Internal, "state '" + name + "'",
                    "has no parameter of its shape to copy");
    Result<Buffer> from = whole(*source);
    if (!from.ok())
      return from.status();
    if (same) {
      if (Status status = assign(entry, *from); !status.ok())
        return status;
      continue;
    }
    Result<Buffer> to = Buffer::allocate(entry.value.type);
    if (!to.ok())
      return to.status();
    std::span<const float> values = from->as<float>();
    std::span<uint16_t> bits = to->as<uint16_t>();
    const llvm::fltSemantics &format =
        half ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
    for (size_t i = 0; i < bits.size(); ++i) {
      llvm::APFloat value(values[i]);
      bool lost;
      (void)value.convert(format, llvm::APFloat::rmNearestTiesToEven, &lost);
      bits[i] = uint16_t(value.bitcastToAPInt().getZExtValue());
    }
    if (Status status = assign(entry, *to); !status.ok())
      return status;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

Result<BoundProgram> BoundProgram::create(const Executable &executable,
                                          SharedProgramState &state,
                                          bool keeps) {
  BoundProgram bound(executable);
  const Program &program = executable.program();
  std::vector<size_t> labels;
  for (size_t i = 0; i < program.arguments.size(); ++i) {
    const ProgramValue &value = program.arguments[i];
    // Gradients are passed from another part, not with the batch.
    bool gradient = std::string_view(value.name).ends_with(kGradientSuffix);
    bool input = value.role == "input" && !(gradient && state.find(value.name));
    if (input || value.role == "label") {
      (input ? bound.batchArguments : labels).push_back(i);
      Result<Buffer> buffer = state.allocate(value.type);
      if (!buffer.ok())
        return buffer.status();
      bound.arguments.push_back(*buffer);
      continue;
    }
    Result<Buffer> buffer = state.bindArgument(value, keeps);
    if (!buffer.ok())
      return buffer.status();
    bound.arguments.push_back(*buffer);
  }
  bound.batchArguments.insert(bound.batchArguments.end(), labels.begin(),
                              labels.end());
  for (size_t i : bound.batchArguments)
    bound.batch.push_back(program.arguments[i]);
  for (const ProgramValue &value : program.results) {
    if (value.alias >= 0) {
      bound.replaced.insert(program.arguments[size_t(value.alias)].name);
      bound.results.push_back(bound.arguments[size_t(value.alias)]);
      continue;
    }
    Result<Buffer> buffer = state.bindResult(value);
    if (!buffer.ok())
      return buffer.status();
    bound.results.push_back(*buffer);
  }
  return bound;
}

int BoundProgram::resultOf(const std::string &role,
                           const std::string &name) const {
  const std::vector<ProgramValue> &values = program().results;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].role == role && (name.empty() || values[i].name == name))
      return int(i);
  return -1;
}

Status BoundProgram::check(std::span<const Buffer> buffers) const {
  if (buffers.size() != batch.size())
    return Status(StatusCode::InvalidArgument, "batch",
                  "takes " + std::to_string(batch.size()) +
                      " arrays (inputs, then labels), but " +
                      std::to_string(buffers.size()) + " were given");
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::string where = "batch, '" + batch[i].name + "'";
    if (!buffers[i])
      return Status(StatusCode::InvalidArgument, where, "was not given");
    if (buffers[i].onDevice() && !executable.device().hasOwnMemory())
      return Status(StatusCode::InvalidArgument, where,
                    "must be in host memory");
    if (!(buffers[i].type() == batch[i].type))
      return Status(StatusCode::InvalidArgument, where,
                    "is " + buffers[i].type().toString() +
                        ", but the model takes " + batch[i].type.toString());
  }
  return {};
}

Status BoundProgram::run(std::span<const Buffer> buffers,
                         const SharedProgramState &state) {
  if (Status status = check(buffers); !status.ok())
    return status;
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer &argument = arguments[batchArguments[i]];
    if (!state.stream())
      argument = buffers[i];
    else if (Status status = argument.copyFrom(buffers[i], *state.stream());
             !status.ok())
      return status;
  }
  if (state.stream())
    return executable.runAsync(arguments, results, *state.stream());
  RunOptions options;
  options.communicator = communicator;
  options.trace = std::exchange(trace, nullptr);
  return executable.runInto(arguments, results, options);
}
