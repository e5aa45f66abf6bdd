//===- HandOver.h - blocks that wait for others of their launch -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of two kernels in one launch the second reads what the first makes: its
// blocks begin beside those of the first and wait until all of these have
// counted themselves. None may keep off the device what it waits for, and
// nothing says in which order blocks begin, so a block's number is a ticket
// that it draws when it runs: the first ones make.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_TARGET_CUDA_HANDOVER_H
#define MPC_LIB_TARGET_CUDA_HANDOVER_H

#include "Schedules/Schedule.h"

namespace mpc {

class HandOver {
public:
  /// Of the scratch buffer: tickets, blocks that are done, and blocks that have
  /// ceased to wait. All are zero before a launch and behind it.
  static constexpr int64_t kBytes = 3 * sizeof(int32_t);

  HandOver(GpuBody &body, mlir::Value counters, int64_t makers, int64_t readers)
      : body(body), counters(counters), makers(makers), readers(readers) {}

  /// The block's number, where all its threads stand.
  mlir::Value drawTicket();
  /// Where all threads of a block that makes are done.
  void publish();
  /// Where those of one that reads begin.
  void await();

private:
  mlir::Value number(int64_t value);
  /// Atomically adds to a counter; what it was.
  mlir::Value count(int64_t number, int64_t counter);
  void onlyFirstThread(llvm::function_ref<void()> then);

  GpuBody &body;
  mlir::Value counters;
  int64_t makers, readers;
};

} // namespace mpc

#endif // MPC_LIB_TARGET_CUDA_HANDOVER_H
