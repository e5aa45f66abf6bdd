//===- Network.cpp - cost model of collectives ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mpc/Analysis/Network.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Named links
//===----------------------------------------------------------------------===//

// Latencies are those of NCCL's model for rings of its protocol "Simple"
// (NVIDIA/nccl, src/graph/tuning.cc), as is the start-up time of a message.
// Bandwidths are from data sheets (NVLink 25 GB/s per link and direction: 6
// links on V100, 12 on A100, 18 on H100, 18 of twice the rate on B200; PCIe
// x16; InfiniBand by its name), times the efficiency of rings: NCCL's model has
// 235 of A100's 300 GB/s, and 120 of 128 bytes of a line are data. Sockets over
// Ethernet: an estimate.
static constexpr double kStartSeconds = 8.4e-6;
static constexpr double kNvlinkSeconds = 3.4e-6, kPcieSeconds = 5.7e-6,
                        kInfinibandSeconds = 9.6e-6, kEthernetSeconds = 3e-5;
static constexpr double kNearPart = 0.78, kFarPart = 0.92;
static constexpr int64_t kNodeRanks = 8;

static NetworkLevel near(StringRef name, double latency, double rate) {
  return {name.str(), kNodeRanks, latency, kNearPart * rate};
}
static NetworkLevel far(StringRef name, double latency, double gigabits) {
  return {name.str(), 0, latency, kFarPart * gigabits * 1e9 / 8};
}

static SmallVector<NetworkLevel> namedLevels() {
  return {near("nvlink2", kNvlinkSeconds, 150e9),
          near("nvlink3", kNvlinkSeconds, 300e9),
          near("nvlink4", kNvlinkSeconds, 450e9),
          near("nvlink5", kNvlinkSeconds, 900e9),
          near("pcie3", kPcieSeconds, 15.75e9),
          near("pcie4", kPcieSeconds, 31.5e9),
          near("pcie5", kPcieSeconds, 63e9),
          far("ib100", kInfinibandSeconds, 100),
          far("ib200", kInfinibandSeconds, 200),
          far("ib400", kInfinibandSeconds, 400),
          far("ib800", kInfinibandSeconds, 800),
          far("eth10", kEthernetSeconds, 10),
          far("eth25", kEthernetSeconds, 25),
          far("eth100", kEthernetSeconds, 100)};
}

std::string Network::describeNames() {
  std::string names = "nvlink";
  for (const NetworkLevel &level : namedLevels())
    names += ", " + level.name;
  return names + ", link,latency=SECONDS,bandwidth=BYTES";
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

static Error bad(const Twine &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

static StringRef nvlinkOf(int capability) {
  if (capability == 0 || capability / 10 == 9)
    return "nvlink4";
  if (capability >= 100)
    return "nvlink5";
  return capability >= 80 ? "nvlink3" : "nvlink2";
}

static Error setField(NetworkLevel &level, StringRef field) {
  auto [key, value] = field.split('=');
  constexpr int64_t kMostRanks = int64_t(1) << 20;
  // Sums of larger values are not finite.
  constexpr double kMostSeconds = 3600, kMostRate = 1e18;
  int64_t count = 0;
  double number = 0;
  if (key == "ranks" || key == "share") {
    if (value.getAsInteger(10, count) || count < 1 || count > kMostRanks)
      return bad("'" + value + "' is not a number of ranks from 1 to 1048576");
    (key == "ranks" ? level.ranks : level.share) = count;
    return Error::success();
  }
  if (key != "latency" && key != "bandwidth")
    return bad("'" + key + "' is not a field of " + level.name +
               "; it has bandwidth, latency, ranks, share");
  const bool isRate = key == "bandwidth";
  if (value.getAsDouble(number) || !std::isfinite(number) ||
      number < (isRate ? 1 : 0) || number > (isRate ? kMostRate : kMostSeconds))
    return bad("'" + value + "' is not a " +
               (isRate ? Twine("bandwidth in bytes per second, 1 to 1e18")
                       : Twine("latency in seconds, 0 to 3600")));
  (isRate ? level.bytesPerSecond : level.latencySeconds) = number;
  return Error::success();
}

static Expected<NetworkLevel> parseLevel(StringRef text, int capability) {
  SmallVector<StringRef> fields;
  text.split(fields, ',');
  NetworkLevel level;
  StringRef name = fields.front();
  if (name == "nvlink")
    name = nvlinkOf(capability);
  SmallVector<NetworkLevel> known = namedLevels();
  auto *found =
      llvm::find_if(known, [&](auto &entry) { return entry.name == name; });
  if (found != known.end())
    level = *found;
  else if (name == "link")
    level.name = "link";
  else
    return bad("'" + name + "' is not one of " + Network::describeNames());
  for (StringRef field : ArrayRef(fields).drop_front())
    if (Error error = setField(level, field))
      return std::move(error);
  if (level.bytesPerSecond <= 0)
    return bad("'link' needs bandwidth=BYTES per second");
  return level;
}

Expected<Network> Network::parse(StringRef text, int computeCapability) {
  Network network;
  network.spelling = text.str();
  // A '+' may also be part of a number: "1e+9".
  SmallVector<std::string> parts;
  for (StringRef part : split(text, '+')) {
    bool isExponent = !parts.empty() &&
                      StringRef(parts.back()).ends_with("e") && !part.empty() &&
                      llvm::isDigit(part.front());
    if (isExponent)
      parts.back() += "+" + part.str();
    else
      parts.push_back(part.str());
  }
  for (const std::string &part : parts) {
    Expected<NetworkLevel> level = parseLevel(part, computeCapability);
    if (!level)
      return level.takeError();
    network.links.push_back(std::move(*level));
  }
  for (const NetworkLevel &level : ArrayRef(network.links).drop_back())
    if (level.ranks == 0)
      return bad("'" + level.name + "' connects any number of ranks, so " +
                 "no link can follow it; list the innermost links first, or "
                 "give it ranks=N");
  return network;
}

Network Network::measured(std::string name,
                          std::map<int64_t, NetworkModel> models) {
  Network network;
  network.spelling = std::move(name);
  network.models = std::move(models);
  return network;
}

std::string Network::whyNot(int64_t ranks) const {
  if (!models.empty())
    return ranks == 1 || models.count(ranks)
               ? ""
               : "was not measured for " + std::to_string(ranks) + " ranks";
  int64_t most = 1;
  for (const NetworkLevel &level : links) {
    if (level.ranks == 0)
      return "";
    if (most > INT64_MAX / level.ranks)
      return "";
    most *= level.ranks;
  }
  if (ranks <= most)
    return "";
  return "connects " + std::to_string(most) + " ranks, not " +
         std::to_string(ranks) + "; add outer links, such as " + spelling +
         "+ib400";
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {

/// A group of equal endpoints.
struct Ends {
  int64_t count;
  double latency, bandwidth;
};

} // namespace

/// Time of a ring through all endpoints.
static double ringSeconds(MessageKind kind, double bytes, const Ends &ends) {
  const auto n = double(ends.count);
  const double pass =
      (n - 1) * ends.latency + (n - 1) / n * bytes / ends.bandwidth;
  switch (kind) {
  case MessageKind::AllReduce:
    return 2 * pass;
  case MessageKind::ReduceScatter:
  case MessageKind::AllGather:
    return pass;
  case MessageKind::Broadcast:
    break;
  }
  return (n - 1) * ends.latency + bytes / ends.bandwidth;
}

/// Time of a reduction up and a broadcast down a tree.
static double treeSeconds(MessageKind kind, double bytes, const Ends &ends) {
  const double depth = llvm::Log2_64_Ceil(uint64_t(ends.count));
  const auto n = double(ends.count);
  const double once = depth * ends.latency + bytes / ends.bandwidth;
  switch (kind) {
  case MessageKind::AllReduce:
    return 2 * once;
  case MessageKind::Broadcast:
    return once;
  case MessageKind::ReduceScatter:
  case MessageKind::AllGather:
    break;
  }
  return depth * ends.latency + (n - 1) / n * bytes / ends.bandwidth;
}

/// Bytes sent per rank with any algorithm: every chunk except its own, once or
/// twice.
static double sentBytes(MessageKind kind, double bytes, int64_t ranks) {
  const double passes = kind == MessageKind::AllReduce ? 2 : 1;
  return passes * bytes * double(ranks - 1) / double(ranks);
}

/// Collective inside one level.
static MessageCost among(MessageKind kind, double bytes, const Ends &ends) {
  if (ends.count == 1)
    return {};
  const double ring = ringSeconds(kind, bytes, ends),
               tree = treeSeconds(kind, bytes, ends);
  return {std::min(ring, tree), 0, tree < ring ? "tree" : "ring"};
}

MessageCost Network::levelled(MessageKind kind, double bytes, int64_t ranks,
                              size_t number) const {
  const NetworkLevel &level = links[number];
  const int64_t inside =
      level.ranks == 0 ? ranks : std::min(ranks, level.ranks);
  const auto groups = int64_t(llvm::divideCeil(ranks, inside));
  const Ends ends = {inside, level.latencySeconds,
                     level.bytesPerSecond / double(level.share)};
  if (groups == 1)
    return among(kind, bytes, ends);
  MessageCost total;
  auto add = [&](MessageKind part, double size) {
    MessageCost cost = among(part, size, ends);
    total.seconds += cost.seconds;
    return cost.algorithm;
  };
  // A broadcast passes the whole message on; others pass chunks.
  const bool inPieces = kind != MessageKind::Broadcast;
  std::string own;
  if (kind == MessageKind::AllReduce || kind == MessageKind::ReduceScatter)
    own = add(MessageKind::ReduceScatter, bytes);
  MessageCost behind = levelled(kind, inPieces ? bytes / double(inside) : bytes,
                                groups, number + 1);
  total.seconds += behind.seconds;
  if (kind == MessageKind::AllReduce || kind == MessageKind::AllGather)
    own = add(MessageKind::AllGather, bytes);
  if (kind == MessageKind::Broadcast)
    own = add(MessageKind::Broadcast, bytes);
  total.algorithm =
      behind.algorithm + (own.empty() ? "" : ", " + own + " inside");
  return total;
}

/// One ring or tree through all ranks. It enters and leaves a group once; all
/// links of a group carry their share of the bytes concurrently, like NCCL's
/// channels.
MessageCost Network::flat(MessageKind kind, double bytes, int64_t ranks) const {
  double rate = INFINITY, treeLatency = 0, ringLatency = 0;
  int64_t groups = ranks, joined = 1;
  for (const NetworkLevel &level : links) {
    if (groups == 1)
      break;
    const int64_t inside =
        level.ranks == 0 ? groups : std::min(groups, level.ranks);
    const auto next = int64_t(llvm::divideCeil(groups, inside));
    const double perRank = level.bytesPerSecond / double(level.share);
    rate = std::min(rate, std::max(perRank * double(joined),
                                   joined == 1 ? 0 : level.bytesPerSecond));
    ringLatency += double(groups - next) * level.latencySeconds;
    // As in NCCL's trees, each group is a chain, except the last one.
    treeLatency += level.latencySeconds *
                   (next == 1 ? double(llvm::Log2_64_Ceil(uint64_t(inside)))
                              : double(inside - 1));
    joined *= inside;
    groups = next;
  }
  const auto n = double(ranks);
  const bool twice = kind == MessageKind::AllReduce;
  const bool whole = twice || kind == MessageKind::Broadcast;
  const double passes = twice ? 2 : 1, part = (n - 1) / n;
  const double ring =
      passes * ringLatency +
      bytes / rate * (kind == MessageKind::Broadcast ? 1 : passes * part);
  const double tree =
      passes * (treeLatency + bytes / rate * (whole ? 1 : part));
  return {std::min(ring, tree), 0, tree < ring ? "tree" : "ring"};
}

MessageCost Network::cost(MessageKind kind, int64_t bytes,
                          int64_t ranks) const {
  if (ranks <= 1)
    return {0, 0, "none"};
  const auto size = double(std::max<int64_t>(bytes, 0));
  MessageCost best;
  if (!models.empty()) {
    best.seconds = models.at(ranks).secondsOf(int64_t(size));
    // Every other collective is one half of an all-reduce.
    if (kind != MessageKind::AllReduce)
      best.seconds /= 2;
    best.algorithm = "as measured";
  } else {
    best = flat(kind, size, ranks);
    if (links.size() > 1)
      if (MessageCost other = levelled(kind, size, ranks, 0);
          other.seconds < best.seconds)
        best = other;
    best.seconds += kStartSeconds;
  }
  best.sentBytes = sentBytes(kind, size, ranks);
  return best;
}

NetworkModel Network::model(int64_t ranks) const {
  if (ranks <= 1)
    return {0, 1e12};
  if (!models.empty())
    return models.at(ranks);
  constexpr int64_t kFew = 8, kMany = int64_t(64) << 20;
  const double least = cost(MessageKind::AllReduce, kFew, ranks).seconds,
               most = cost(MessageKind::AllReduce, kMany, ranks).seconds;
  return {least, double(kMany - kFew) / std::max(most - least, 1e-9)};
}
