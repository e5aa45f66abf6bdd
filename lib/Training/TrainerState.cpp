//===- TrainerState.cpp - training state as tensors -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainerImpl.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::training;

/// Copies the entries whose role satisfies `isWanted`.
template <typename Predicate>
static Result<std::vector<NamedTensor>> collect(const SharedProgramState &state,
                                                Predicate isWanted) {
  std::vector<NamedTensor> tensors;
  for (const SharedProgramState::Entry &entry : state.entries()) {
    if (!entry.kept || !isWanted(entry.value.role))
      continue;
    Result<Buffer> host = state.whole(entry);
    if (!host.ok())
      return host.status();
    tensors.push_back({entry.value.name, std::move(*host)});
  }
  return tensors;
}

Result<std::vector<NamedTensor>> Trainer::state() const {
  return collect(impl->state, [](const std::string &role) {
    return role != "parameter_copy";
  });
}

Result<std::vector<NamedTensor>> Trainer::weights() const {
  return collect(impl->state, [](const std::string &role) {
    return role == "parameter" || role == "statistics";
  });
}

uint64_t Trainer::Impl::stateBytes() const {
  uint64_t bytes = 0;
  for (const SharedProgramState::Entry &entry : state.entries())
    if (entry.kept && entry.value.role != "parameter_copy")
      bytes += uint64_t(*entry.value.initialType().byteCount());
  return bytes;
}

Result<Trainer::Impl::OwnedTrainerState> Trainer::Impl::ownState() const {
  OwnedTrainerState own;
  for (const SharedProgramState::Entry &entry : state.entries()) {
    if (!entry.kept || entry.value.role == "parameter_copy")
      continue;
    Result<Buffer> host = state.toHost(entry.buffer);
    if (!host.ok())
      return host.status();
    const auto &shape = entry.value.shardOf;
    if (shape) {
      own.shapes[entry.value.name] = *shape;
      // Zero the padding elements, in which updates leave arbitrary values
      // (0/0).
      const auto all = size_t(*entry.value.initialType().byteCount());
      size_t begin = std::min(size_t(ranks.rank()) * host->size(), all);
      size_t used = std::min(host->size(), all - begin);
      std::fill_n(static_cast<char *>(host->data()) + used, host->size() - used,
                  0);
    }
    (shape ? own.pieces : own.tensors)
        .push_back({entry.value.name, std::move(*host)});
  }
  return own;
}

Status Trainer::setState(std::span<const NamedTensor> tensors) {
  std::map<std::string, const NamedTensor *> given;
  for (const NamedTensor &tensor : tensors)
    given[tensor.name] = &tensor;
  auto bad = [](const std::string &name, const std::string &text) {
    return Status(StatusCode::InvalidArgument, "state '" + name + "'", text);
  };
  // Check everything before changing anything.
  size_t wanted = 0;
  for (const SharedProgramState::Entry &entry : impl->state.entries()) {
    if (!entry.kept || entry.value.role == "parameter_copy")
      continue;
    ++wanted;
    auto found = given.find(entry.value.name);
    if (found == given.end())
      return bad(entry.value.name, "is missing; the resumed run had another "
                                   "model, optimizer or loss scale");
    const Buffer &data = found->second->data;
    TensorType type = entry.value.initialType();
    if (!data || data.onDevice() || !(data.type() == type))
      return bad(entry.value.name,
                 "is " + (data ? data.type().toString() : "null") +
                     ", but this training has " + type.toString());
  }
  if (wanted != given.size())
    for (const auto &[name, tensor] : given) {
      const SharedProgramState::Entry *entry = impl->state.find(name);
      if (!entry || !entry->kept)
        return bad(name, "is not a state of this training; the resumed run had "
                         "another model, optimizer or loss scale");
    }
  for (const SharedProgramState::Entry &entry : impl->state.entries()) {
    auto found = given.find(entry.value.name);
    if (!entry.kept || found == given.end())
      continue;
    if (Status status = impl->state.restore(entry, found->second->data);
        !status.ok())
      return status;
  }
  return impl->recomputeNarrowCopies();
}
