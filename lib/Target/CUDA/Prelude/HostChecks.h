//===- HostChecks.h - memory access callbacks -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the callbacks that compilers emit for -fsanitize=thread and
// -fsanitize=bounds; no sanitizer runtime is linked.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TARGET_CUDA_PRELUDE_HOSTCHECKS_H
#define MPC_TARGET_CUDA_PRELUDE_HOSTCHECKS_H

#define MPC_CHECKED_ACCESS(name, bytes, kind)                                  \
  extern "C" MPC_UNCHECKED void __tsan_##name(void *at) {                      \
    mpc::host::runner->access(mpc::host::runner, at, bytes,                    \
                              mpc::host::Access::kind,                         \
                              __builtin_return_address(0));                    \
  }
MPC_CHECKED_ACCESS(read1, 1, Read)
MPC_CHECKED_ACCESS(read2, 2, Read)
MPC_CHECKED_ACCESS(read4, 4, Read)
MPC_CHECKED_ACCESS(read8, 8, Read)
MPC_CHECKED_ACCESS(read16, 16, Read)
MPC_CHECKED_ACCESS(unaligned_read2, 2, Read)
MPC_CHECKED_ACCESS(unaligned_read4, 4, Read)
MPC_CHECKED_ACCESS(unaligned_read8, 8, Read)
MPC_CHECKED_ACCESS(unaligned_read16, 16, Read)
MPC_CHECKED_ACCESS(write1, 1, Write)
MPC_CHECKED_ACCESS(write2, 2, Write)
MPC_CHECKED_ACCESS(write4, 4, Write)
MPC_CHECKED_ACCESS(write8, 8, Write)
MPC_CHECKED_ACCESS(write16, 16, Write)
MPC_CHECKED_ACCESS(unaligned_write2, 2, Write)
MPC_CHECKED_ACCESS(unaligned_write4, 4, Write)
MPC_CHECKED_ACCESS(unaligned_write8, 8, Write)
MPC_CHECKED_ACCESS(unaligned_write16, 16, Write)
#undef MPC_CHECKED_ACCESS

#define MPC_CHECKED_RANGE(name, kind)                                          \
  extern "C" MPC_UNCHECKED void __tsan_##name(void *at, unsigned long bytes) { \
    mpc::host::runner->access(mpc::host::runner, at, bytes,                    \
                              mpc::host::Access::kind,                         \
                              __builtin_return_address(0));                    \
  }
MPC_CHECKED_RANGE(read_range, Read)
MPC_CHECKED_RANGE(write_range, Write)
#undef MPC_CHECKED_RANGE

extern "C" {
MPC_UNCHECKED void __tsan_init() {}
MPC_UNCHECKED void __tsan_func_entry(void *) {}
MPC_UNCHECKED void __tsan_func_exit() {}

MPC_UNCHECKED void *__tsan_memcpy(void *to, const void *from,
                                  unsigned long bytes) {
  __tsan_read_range(const_cast<void *>(from), bytes);
  __tsan_write_range(to, bytes);
  return __builtin_memcpy(to, from, bytes);
}
MPC_UNCHECKED void *__tsan_memmove(void *to, const void *from,
                                   unsigned long bytes) {
  __tsan_read_range(const_cast<void *>(from), bytes);
  __tsan_write_range(to, bytes);
  return __builtin_memmove(to, from, bytes);
}
MPC_UNCHECKED void *__tsan_memset(void *to, int value, unsigned long bytes) {
  __tsan_write_range(to, bytes);
  return __builtin_memset(to, value, bytes);
}

/// The record starts with the source location.
MPC_UNCHECKED void __ubsan_handle_out_of_bounds_abort(void *record,
                                                      unsigned long) {
  struct Location {
    const char *file;
    unsigned line, column;
  };
  mpc::host::runner->fail(mpc::host::runner, "indexes past the end of an array",
                          static_cast<Location *>(record)->line);
}
}

#endif // MPC_TARGET_CUDA_PRELUDE_HOSTCHECKS_H
