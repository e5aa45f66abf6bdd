//===- PreludeMatricesTests.cpp - bits of matrix instructions -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix instructions of the host prelude against the model of tensor cores, on
// random tiles of all magnitudes, with subnormals, infinities and NaNs.
//
//===----------------------------------------------------------------------===//

#include "HostKernelTesting.h"
#include "TestKernels.h"

#include "mpc/Support/TensorCoreModel.h"

#include <llvm/ADT/APFloat.h>

using namespace mpc;

namespace {
/// A kernel of kMatrices.
struct TileKernel {
  const char *name;
  TensorCoreType a, b;
};
} // namespace

static const TileKernel kTileKernels[] = {
    {"mmaHalf", TensorCoreType::Float16, TensorCoreType::Float16},
    {"mmaBfloat16", TensorCoreType::BFloat16, TensorCoreType::BFloat16},
    {"mmaSingle", TensorCoreType::TensorFloat32, TensorCoreType::TensorFloat32},
    {"mmaE4m3", TensorCoreType::E4M3, TensorCoreType::E4M3},
    {"mmaE5m2", TensorCoreType::E5M2, TensorCoreType::E5M2},
    {"mmaMixed", TensorCoreType::E4M3, TensorCoreType::E5M2},
    {"mmaMixedLeft", TensorCoreType::E5M2, TensorCoreType::E4M3}};

static int elementBits(TensorCoreType type) {
  return type == TensorCoreType::TensorFloat32 ? 32
         : type >= TensorCoreType::E4M3        ? 8
                                               : 16;
}

static int exponentBits(TensorCoreType type) {
  return type == TensorCoreType::E4M3                                      ? 4
         : type == TensorCoreType::E5M2 || type == TensorCoreType::Float16 ? 5
                                                                           : 8;
}

/// Decodes a pattern with LLVM's conversions.
static TensorCoreFactor factorOf(uint32_t bits, TensorCoreType type) {
  const llvm::fltSemantics *semantics[] = {
      &llvm::APFloat::IEEEhalf(), &llvm::APFloat::BFloat(),
      &llvm::APFloat::IEEEsingle(), &llvm::APFloat::Float8E4M3FN(),
      &llvm::APFloat::Float8E5M2()};
  llvm::APFloat value(*semantics[int(type)],
                      llvm::APInt(unsigned(elementBits(type)), bits));
  bool lost;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven,
                &lost);
  return TensorCoreFactor::of(
      floatFromBits(uint32_t(value.bitcastToAPInt().getZExtValue())), type);
}

/// Compares `tiles` tiles of 16 x 8 P by 8 P x 8 elements, P to a register in
/// the lane layout of the PTX manual.
static void checkTiles(const HostModule &module, const TileKernel &kernel,
                       int capability, int tiles) {
  int bits = elementBits(kernel.a), perWord = 32 / bits, depth = 8 * perWord;
  std::mt19937 random{unsigned(capability)};
  std::vector<uint32_t> a(size_t(tiles) * 128), b(size_t(tiles) * 64);
  std::vector<float> d(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = tileWord(random(), int(i / 128), bits, exponentBits(kernel.a));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = tileWord(random(), int(i / 64), bits, exponentBits(kernel.b));
  for (size_t i = 0; i < d.size(); ++i)
    d[i] = floatFromBits(tileWord(random(), int(i / 128), 32, 8));
  std::vector<float> c = d;
  HostLaunch launch = grid(tiles, 32);
  launch.capability = capability;
  Status status =
      module.launch(kernel.name, launch,
                    {HostArgument::input("a", a), HostArgument::input("b", b),
                     HostArgument::inOut("d", d)});
  ASSERT_TRUE(status.ok()) << status.toString();

  auto arithmetic = TensorCoreArithmetic::of(TensorCoreInstruction::Mma,
                                             kernel.a, capability);
  uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  std::vector<TensorCoreFactor> rows(size_t(16 * depth)),
      columns(size_t(8 * depth));
  for (int tile = 0; tile < tiles; ++tile) {
    const uint32_t *left = &a[size_t(tile) * 128],
                   *right = &b[size_t(tile) * 64];
    for (int lane = 0; lane < 32; ++lane)
      for (int word = 0; word < 4; ++word)
        for (int i = 0; i < perWord; ++i) {
          int k = (lane % 4 + word / 2 * 4) * perWord + i,
              row = lane / 4 + word % 2 * 8;
          rows[size_t(row * depth + k)] =
              factorOf(left[lane * 4 + word] >> (bits * i) & mask, kernel.a);
          if (word < 2)
            columns[size_t(lane / 4 * depth + (lane % 4 + word * 4) * perWord +
                           i)] =
                factorOf(right[lane * 2 + word] >> (bits * i) & mask, kernel.b);
        }
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        size_t at = size_t(tile) * 128 + size_t(lane * 4 + i);
        float expected = arithmetic.multiplyAdd(
            &rows[size_t(row * depth)], &columns[size_t(column * depth)], depth,
            c[at]);
        ASSERT_EQ(floatBits(d[at]), floatBits(expected))
            << kernel.name << " on sm_" << capability << ", tile " << tile
            << ": " << d[at] << " instead of " << expected;
      }
  }
}

TEST(PreludeMatrices, MmaEqualsTheModel) {
  std::vector<std::string> names;
  for (const TileKernel &kernel : kTileKernels)
    names.push_back(kernel.name);
  HostModule module = compileKernels(kMatrices, names, /*checks=*/false);
  for (const TileKernel &kernel : kTileKernels)
    for (int capability : {75, 80, 89, 90, 100, 120})
      checkTiles(module, kernel, capability, 500);
}

TEST(PreludeMatrices, MmaWithChecks) {
  HostModule module = compileKernels(kMatrices, {"mmaBfloat16", "mmaE4m3"});
  checkTiles(module, kTileKernels[1], 80, 8);
  checkTiles(module, kTileKernels[3], 89, 8);
}
