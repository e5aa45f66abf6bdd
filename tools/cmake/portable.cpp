//===- portable.cpp - Compatibility with older C libraries ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Debian's static C++ library and LLVM use arc4random, which glibc has since
// 2.36. A program that defines it also runs with older versions.
//
//===----------------------------------------------------------------------===//

#include <cstdlib>
#include <sys/random.h>

extern "C" unsigned arc4random() noexcept {
  unsigned value = 0;
  if (getrandom(&value, sizeof(value), 0) != ssize_t(sizeof(value)))
    std::abort();
  return value;
}
