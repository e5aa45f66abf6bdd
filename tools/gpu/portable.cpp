//===- portable.cpp - for C libraries of other machines -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Debian's static C++ library asks the C library for a function that exists
// since 2.36. A program that has it itself runs with older ones too.
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
