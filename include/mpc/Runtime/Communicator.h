//===- Communicator.h - the ranks that train together -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a program's collectives reach the other ranks. mpc writes no transport of
// its own: MPI is loaded at run time, and a host program may bring another one.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_RUNTIME_COMMUNICATOR_H
#define MPC_RUNTIME_COMMUNICATOR_H

#include "mpc/Runtime/Status.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// One rank's end of a group. All ranks make the same calls in the same order,
/// one at a time; calls may come from different threads, never at once. Each
/// blocks until this rank's part is done; memory that is sent and memory that
/// is received do not overlap. After a failure the group is of no use any more:
/// a rank that gives up says so by abort(), so that the others need not wait
/// until their patience ends.
class Communicator {
public:
  virtual ~Communicator();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// `receive` holds `bytes` of every rank, in their order.
  virtual Status allGather(const void *send, void *receive, size_t bytes) = 0;
  /// `send` holds `bytes` for every rank, `receive` takes as many from each.
  virtual Status allToAll(const void *send, void *receive, size_t bytes) = 0;
  /// Replaces `data` by that of rank `root`.
  virtual Status broadcast(void *data, size_t bytes, int root) = 0;

  /// Ends all ranks of the group, this process's too where the transport can do
  /// no less, after `why` was printed once with this rank's number.
  virtual void abort(const std::string &why) = 0;
  /// Says that this rank has done its part: from here on its process may exit
  /// with any status, where a status other than 0 ends all ranks else. All
  /// ranks say so.
  virtual void part() {}

  /// Says what the next calls are for, in the words of a failure: "message
  /// 'all_reduce_3' of step". Read by the calls alone.
  void describe(std::string task) { purpose = std::move(task); }

protected:
  std::string purpose;
};

struct CommunicatorOptions {
  /// How long one call waits for the other ranks before it gives them up, in
  /// seconds; 0: for ever. Longer than the slowest rank may lag behind.
  double patience = 120;
};

/// Joins the ranks that a launcher (mpirun, srun) started, by the machine's MPI
/// library (Open MPI, or one with MPICH's ABI). At most once per process; MPI
/// ends with the process, and where that exits with another status than 0, all
/// ranks end. A call that loses patience prints one sentence and ends all ranks
/// at once, since MPI goes on to use the memory that it was given. Where the
/// host program has begun MPI, it has to allow calls from any thread in turn
/// (MPI_THREAD_SERIALIZED), and it ends it. Unavailable where no library is
/// found or the one found is not the launcher's.
Result<std::shared_ptr<Communicator>>
joinMpi(const CommunicatorOptions &options = {});

/// Whether a launcher started this process as one of several ranks of MPI.
bool isStartedByMpi();

/// A rank whose messages another process does, at the other end of the stream
/// socket `descriptor`, which is taken over: one that has a transport in a
/// language of its own (RelayCommunicator.cpp has the format, mpc/train.py
/// PyTorch's). How long a call waits is that process's to say.
Result<std::shared_ptr<Communicator>> joinRelay(int descriptor, int rank,
                                                int size);

/// Notes on failures that all ranks of a group know of, so that each is told
/// once: by this rank, or by another one.
inline constexpr const char *kFailureToTell = "all ranks end, this one tells";
inline constexpr const char *kFailureTold = "all ranks end, another one tells";

/// On every rank a failure, with one of these notes, where one has a failure of
/// its `own`: that, or that of the first rank that has one. Of equal ones the
/// first rank's is to be told.
Status shareFailure(Communicator &group, const Status &own);

/// The texts of all ranks, in their order, for each of them.
Result<std::vector<std::string>> gatherTexts(Communicator &group,
                                             const std::string &text);

/// Ends of a group inside this process, one for a thread each: for tests, and
/// for hosts that hold several devices. A rank whose end is destroyed has left;
/// the others' calls fail.
std::vector<std::shared_ptr<Communicator>>
connectThreads(int ranks, const CommunicatorOptions &options = {});

} // namespace mpc

#endif // MPC_RUNTIME_COMMUNICATOR_H
