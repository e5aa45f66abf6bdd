//===- Collective.cpp - collective operations among ranks -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Runtime/Collective.h"

using namespace mpc;

/// Sanity limit on the number of ranks in a file.
static constexpr int64_t kMostRanks = int64_t(1) << 20;

static const char *nameOf(Collective::Kind kind) {
  switch (kind) {
  case Collective::Kind::AllReduce:
    return "all_reduce";
  case Collective::Kind::ReduceScatter:
    return "reduce_scatter";
  case Collective::Kind::AllGather:
    return "all_gather";
  case Collective::Kind::Broadcast:
    return "broadcast";
  }
  return "unknown";
}

static const char *nameOf(Collective::Reduction reduction) {
  switch (reduction) {
  case Collective::Reduction::Sum:
    return "sum";
  case Collective::Reduction::Mean:
    return "mean";
  case Collective::Reduction::Min:
    return "min";
  case Collective::Reduction::Max:
    return "max";
  }
  return "unknown";
}

std::optional<int64_t> Collective::outputElements(int64_t elements) const {
  int64_t product = 0;
  switch (kind) {
  case Kind::ReduceScatter:
    return elements / ranks + (elements % ranks != 0);
  case Kind::AllGather:
    if (__builtin_mul_overflow(elements, ranks, &product))
      return std::nullopt;
    return product;
  case Kind::AllReduce:
  case Kind::Broadcast:
    break;
  }
  return elements;
}

/// Returns true if terms of `element` may be accumulated in `sum`.
static bool canAccumulate(ElementType element, ElementType sum) {
  switch (element) {
  case ElementType::F16:
  case ElementType::BF16:
    return sum == element || sum == ElementType::F32 || sum == ElementType::F64;
  case ElementType::F32:
    return sum == ElementType::F32 || sum == ElementType::F64;
  case ElementType::F64:
    return sum == ElementType::F64;
  case ElementType::I32:
    return sum == ElementType::I32 || sum == ElementType::I64;
  case ElementType::I64:
    return sum == ElementType::I64;
  default:
    return false;
  }
}

std::string Collective::obstacle() const {
  if (ranks < 1 || ranks > kMostRanks)
    return "has an invalid number of ranks";
  if (kind == Kind::Broadcast && (root < 0 || root >= ranks))
    return "comes from rank " + std::to_string(root) + ", which does not exist";
  if (!reduces())
    return "";
  if (!canAccumulate(element, accumulate))
    return "has no sums of " + std::string(elementTypeName(element)) + " in " +
           std::string(elementTypeName(accumulate));
  if (reduction == Reduction::Mean && !isFloat(element))
    return "has no mean of integers";
  return "";
}

std::string Collective::toString() const {
  std::string text = nameOf(kind);
  text += " of " + std::string(elementTypeName(element));
  if (reduces())
    text += std::string(" by ") + nameOf(reduction) + " in " +
            std::string(elementTypeName(accumulate));
  if (kind == Kind::Broadcast)
    text += " from rank " + std::to_string(root);
  return text + " over " + std::to_string(ranks) +
         (ranks == 1 ? " rank" : " ranks");
}
