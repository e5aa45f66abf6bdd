//===- portable.cpp - Compatibility with older C libraries ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Debian's static C++ library and LLVM use arc4random, which glibc has since
// 2.36, and LLVM uses the hypot of glibc 2.35. A program that defines them also
// runs with older versions.
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

extern "C" double olderHypot(double x, double y);
__asm__(".symver olderHypot, hypot@GLIBC_2.2.5");
extern "C" double hypot(double x, double y) { return olderHypot(x, y); }
