//===- Network.h - what messages among ranks take ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_ANALYSIS_NETWORK_H
#define MPC_ANALYSIS_NETWORK_H

#include "mpc/Analysis/BucketPlan.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace mpc {

/// What ranks do together in a message.
enum class MessageKind { AllReduce, ReduceScatter, AllGather, Broadcast };

/// What a message takes, how, and what it puts on the wire.
struct MessageCost {
  double seconds = 0;
  /// Bytes that a rank sends, the mean over ranks.
  double sentBytes = 0;
  /// "ring", "tree", and what each level does where they differ: "ring, tree
  /// inside".
  std::string algorithm;
};

/// One kind of link. Groups of `ranks` are joined by it; the level behind it
/// joins such groups.
struct NetworkLevel {
  std::string name;
  /// The most ranks that it joins; 0: any number.
  int64_t ranks = 0;
  /// Of one step of a message, and of one link one way.
  double latencySeconds = 0, bytesPerSecond = 0;
  /// How many ranks send through one link.
  int64_t share = 1;
};

/// The links among ranks, the nearest first, by the model of Hockney (1994): a
/// step takes latency + bytes / bandwidth. A message is done in the fastest of
/// these ways:
/// - a ring through all ranks (Thakur, Rabenseifner and Gropp, "Optimization of
///   Collective Communication Operations in MPICH", 2005);
/// - two binary trees of half of the bytes each (Sanders, Speck and Traeff,
///   "Two-Tree Algorithms for Full Bandwidth Broadcast, Reduction and Scan",
///   2009), or, where pieces are scattered or gathered, halving and doubling
///   (Thakur, Rabenseifner and Gropp);
/// - level by level: pieces are reduced inside a group, then among groups, and
///   gathered inside again.
/// Ranks that fill no group count as if they did.
class Network {
public:
  /// "nvlink+ib400": names of levels, each with fields behind it
  /// ("ib100,share=8"): ranks, share, latency in seconds, bandwidth in bytes
  /// per second; "link" has what its fields say. `computeCapability` of a GPU
  /// (90 for 9.0) says which "nvlink" is meant; 0: that of 9.0.
  static llvm::Expected<Network> parse(llvm::StringRef text,
                                       int computeCapability = 0);

  /// One whose all-reduce was measured for numbers of ranks: what the bytes of
  /// a rank take. Other messages are parts of that.
  static Network measured(std::string name,
                          std::map<int64_t, NetworkModel> models);

  /// The names that parse() knows.
  static std::string describeNames();

  const std::string &name() const { return spelling; }
  llvm::ArrayRef<NetworkLevel> levels() const { return links; }

  /// Says why so many ranks are not joined; empty where they are.
  std::string whyNot(int64_t ranks) const;

  /// Of a message of whyNot()-free ranks. `bytes` are those of the whole tensor
  /// that is reduced, scattered, gathered or sent.
  MessageCost cost(MessageKind kind, int64_t bytes, int64_t ranks) const;

  /// What an all-reduce takes, as a line: what Distribute chooses buckets by.
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
