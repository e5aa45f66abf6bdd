//===- Network.h - cost model of collectives --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_NETWORK_H
#define MPC_ANALYSIS_NETWORK_H

#include "mpc/Analysis/GradientBucketing.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace mpc {

/// Collective operations.
enum class MessageKind { AllReduce, ReduceScatter, AllGather, Broadcast };

/// Time, algorithm and traffic of a collective.
struct MessageCost {
  double seconds = 0;
  /// Bytes sent per rank, averaged over ranks.
  double sentBytes = 0;
  /// "ring", "tree", or the algorithm of each level if they differ: "ring, tree
  /// inside".
  std::string algorithm;
};

/// One level of the network. Connects groups of `ranks` ranks; the next level
/// connects such groups.
struct NetworkLevel {
  std::string name;
  /// Maximum number of ranks; 0: any number.
  int64_t ranks = 0;
  /// Latency per message step in seconds, bandwidth per link and direction.
  double latencySeconds = 0, bytesPerSecond = 0;
  /// Number of ranks that share one link.
  int64_t share = 1;
};

/// Hierarchical alpha-beta model (Hockney, 1994), nearest links first: a step
/// takes latency + bytes / bandwidth. A collective uses the fastest of:
/// - a ring through all ranks (Thakur, Rabenseifner and Gropp, "Optimization of
///   Collective Communication Operations in MPICH", 2005);
/// - two binary trees of half of the bytes each (Sanders, Speck and Traeff,
///   "Two-Tree Algorithms for Full Bandwidth Broadcast, Reduction and Scan",
///   2009), or, for reduce-scatter and all-gather, halving and doubling
///   (Thakur, Rabenseifner and Gropp);
/// - level by level: reduce-scatter inside a group, collective among groups,
///   all-gather inside. A partial group counts as a full one.
class Network {
public:
  /// Parses "nvlink+ib400": names of levels, each with optional fields
  /// ("ib100,share=8"): ranks, share, latency in seconds, bandwidth in bytes
  /// per second; "link" has only its fields. `computeCapability` of a GPU (90
  /// for 9.0) selects the generation of "nvlink"; 0: that of 9.0.
  static llvm::Expected<Network> parse(llvm::StringRef text,
                                       int computeCapability = 0);

  /// A network with measured all-reduce models by number of ranks. Other
  /// collectives are derived from them.
  static Network measured(std::string name,
                          std::map<int64_t, NetworkModel> models);

  /// Names that parse() accepts.
  static std::string describeNames();

  const std::string &name() const { return spelling; }
  llvm::ArrayRef<NetworkLevel> levels() const { return links; }

  /// Returns why `ranks` ranks cannot be connected; empty if they can.
  std::string whyNot(int64_t ranks) const;

  /// Returns the cost for a number of ranks that whyNot() accepts. `bytes` is
  /// the size of the whole tensor that is reduced, scattered, gathered or sent.
  MessageCost cost(MessageKind kind, int64_t bytes, int64_t ranks) const;

  /// Linear model of an all-reduce, by which Distribute chooses buckets.
  NetworkModel model(int64_t ranks) const;

private:
  MessageCost levelled(MessageKind kind, double bytes, int64_t ranks,
                       size_t level) const;
  MessageCost flat(MessageKind kind, double bytes, int64_t ranks) const;

  std::string spelling;
  llvm::SmallVector<NetworkLevel> links;
  std::map<int64_t, NetworkModel> models;
};

} // namespace mpc

#endif // MPC_ANALYSIS_NETWORK_H
