//===- Communicator.h - communication among data-parallel ranks -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transport of a program's collectives. mpc implements no network transport:
// MPI is loaded at run time, and a host program may implement this interface.
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

/// One rank's endpoint of a group. All ranks make the same calls in the same
/// order, one at a time, possibly from different threads. Each call blocks
/// until this rank's part is done; send and receive memory do not overlap.
/// After a failure the group is unusable: a failing rank calls abort(), so that
/// the others do not wait for their timeout.
class Communicator {
public:
  virtual ~Communicator();

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Gathers `bytes` of every rank into `receive`, in rank order.
  virtual Status allGather(const void *send, void *receive, size_t bytes) = 0;
  /// Sends `bytes` to every rank and receives as many from each.
  virtual Status allToAll(const void *send, void *receive, size_t bytes) = 0;
  /// Replaces `data` by the data of rank `root`.
  virtual Status broadcast(void *data, size_t bytes, int root) = 0;

  /// Terminates all ranks of the group, including this process if the transport
  /// requires it, after printing `why` once with this rank's number.
  virtual void abort(const std::string &why) = 0;
  /// Leaves the group: from here on this process may exit with any status,
  /// whereas a nonzero status would otherwise terminate all ranks. Called by
  /// all ranks.
  virtual void part() {}

  /// Sets the purpose of the next calls for failure messages: "message
  /// 'all_reduce_3' of step". Not thread-safe with calls.
  void describe(std::string task) { purpose = std::move(task); }

protected:
  std::string purpose;
};

struct CommunicatorOptions {
  /// Timeout of one call waiting for other ranks, in seconds; 0: none. Must
  /// exceed the lag of the slowest rank.
  double patience = 120;
};

/// Joins the ranks started by a launcher (mpirun, srun), through the installed
/// MPI library (Open MPI, or one with MPICH's ABI). At most once per process;
/// MPI is finalized at process exit, and a nonzero exit status terminates all
/// ranks. A call that times out prints one sentence and terminates all ranks at
/// once, since MPI keeps using the memory of pending calls. If the host program
/// has initialized MPI, it must allow serialized calls from any thread
/// (MPI_THREAD_SERIALIZED), and it finalizes MPI. Unavailable if no library is
/// found or it is not the launcher's.
Result<std::shared_ptr<Communicator>>
joinMpi(const CommunicatorOptions &options = {});

/// Returns true if an MPI launcher started this process as one of several
/// ranks.
bool isStartedByMpi();

/// Creates a rank whose communication another process performs, at the other
/// end of the stream socket `descriptor`, whose ownership is taken: for
/// transports in other languages (format: RelayCommunicator.cpp; PyTorch's:
/// mpc/train.py). That process controls timeouts.
Result<std::shared_ptr<Communicator>> joinRelay(int descriptor, int rank,
                                                int size);

/// Notes on failures that all ranks know, so that exactly one reports each:
/// this rank, or another one.
inline constexpr const char *kFailureToTell =
    "all ranks stop; this rank reports the failure";
inline constexpr const char *kFailureTold =
    "all ranks stop; another rank reports the failure";

/// Agrees on a failure collectively: returns this rank's `own` failure if there
/// is one, else that of the lowest failing rank, with one of these notes;
/// success if no rank failed. Of equal failures only the lowest rank's is to be
/// reported.
Status shareFailure(Communicator &group, const Status &own);

/// All-gathers texts: returns those of all ranks, in rank order.
Result<std::vector<std::string>> gatherTexts(Communicator &group,
                                             const std::string &text);

/// Creates a group inside this process, one endpoint per thread: for tests, and
/// for hosts with several devices. A rank whose endpoint is destroyed has left;
/// the others' calls fail.
std::vector<std::shared_ptr<Communicator>>
connectThreads(int ranks, const CommunicatorOptions &options = {});

} // namespace mpc

#endif // MPC_RUNTIME_COMMUNICATOR_H
