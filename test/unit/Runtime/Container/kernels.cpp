//===- kernels.cpp - code for the tests of files --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shared object of two kernels as compiled code has them.
//
//===----------------------------------------------------------------------===//

#include <cstdint>

extern "C" void k_add(void *const *buffers, int64_t begin, int64_t end,
                      void *) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[2])[i] =
        static_cast<const float *>(buffers[0])[i] +
        static_cast<const float *>(buffers[1])[i];
}

extern "C" void k_double(void *const *buffers, int64_t begin, int64_t end,
                         void *) {
  for (int64_t i = begin; i < end; ++i)
    static_cast<float *>(buffers[1])[i] =
        2 * static_cast<const float *>(buffers[0])[i];
}
