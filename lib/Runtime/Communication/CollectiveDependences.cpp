//===- CollectiveDependences.cpp - dependences of launches on collectives -===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveDependences.h"

#include "mpc/Runtime/Communicator.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

using namespace mpc;
using namespace mpc::detail;

namespace {

/// Byte ranges of one buffer in use by pending collectives: disjoint, each with
/// the number of collectives after which it is free.
class RangesInUse {
public:
  void use(int64_t begin, int64_t end, size_t number) {
    if (begin >= end)
      return;
    // A later collective finishes later: it replaces earlier ones.
    cut(begin);
    cut(end);
    ranges.erase(ranges.lower_bound(begin), ranges.lower_bound(end));
    ranges[begin] = {end, number};
  }

  /// Returns the largest number among overlapping ranges, and frees them.
  size_t takeFrom(int64_t begin, int64_t end) {
    size_t most = 0;
    if (begin >= end)
      return most;
    auto first = ranges.upper_bound(begin);
    if (first != ranges.begin() && std::prev(first)->second.end > begin)
      --first;
    auto last = first;
    for (; last != ranges.end() && last->first < end; ++last)
      most = std::max(most, last->second.number);
    ranges.erase(first, last);
    return most;
  }

private:
  struct Range {
    int64_t end;
    size_t number;
  };
  /// Splits the range that contains `at`.
  void cut(int64_t at) {
    auto next = ranges.lower_bound(at);
    if (next == ranges.begin())
      return;
    Range &range = std::prev(next)->second;
    if (range.end <= at)
      return;
    ranges.emplace_hint(next, at, range);
    range.end = at;
  }

  std::map<int64_t, Range> ranges; // by first byte
};

} // namespace

CollectiveDependences::CollectiveDependences(const Program &program) {
  // A result that aliases an argument is the argument.
  auto thingOf = [&](const BufferRef &ref) {
    if (ref.kind == BufferRef::Kind::Result)
      if (int64_t alias = program.results[size_t(ref.index)].alias; alias >= 0)
        return std::pair(BufferRef::Kind::Argument, alias);
    return std::pair(ref.kind, ref.index);
  };
  std::map<std::pair<BufferRef::Kind, int64_t>, RangesInUse> read, written;
  needed.reserve(program.launches.size() + 1);
  for (size_t i = 0; i < program.launches.size(); ++i) {
    const Launch &launch = program.launches[i];
    size_t &number = needed.emplace_back(0);
    if (launch.collective) {
      ranks = launch.collective->ranks;
      launches.push_back(i);
      for (const BufferRef &ref : launch.buffers)
        (ref.written ? written : read)[thingOf(ref)].use(
            ref.offset, ref.offset + ref.bytes, launches.size());
      continue;
    }
    if (launches.empty())
      continue;
    for (const BufferRef &ref : launch.buffers)
      for (auto *messages : {&written, &read})
        if (messages == &written || ref.written)
          if (auto found = messages->find(thingOf(ref));
              found != messages->end())
            number = std::max(number, found->second.takeFrom(
                                          ref.offset, ref.offset + ref.bytes));
  }
  needed.push_back(launches.size());
}

Status CollectiveDependences::check(const Program &program,
                                    const Communicator *communicator) const {
  if (launches.empty() || (ranks == 1 && !communicator))
    return {};
  std::string compiled =
      "was compiled for " + std::to_string(ranks) + " ranks, but ";
  if (!communicator)
    return Status(StatusCode::InvalidArgument, program.name,
                  compiled + "runs without a communicator, as 1 rank");
  if (communicator->size() != ranks)
    return Status(StatusCode::InvalidArgument, program.name,
                  compiled + "the communicator has " +
                      std::to_string(communicator->size()));
  return {};
}
