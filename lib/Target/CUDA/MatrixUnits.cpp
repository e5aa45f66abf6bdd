//===- MatrixUnits.cpp - table of matrix units ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MatrixUnits.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::cuda;

static constexpr BlockTile kMmaTiles[] = {
    {256, 192, 4, 3}, {192, 192, 2, 4}, {128, 256, 2, 4}, {256, 128, 4, 2},
    {192, 128, 4, 2}, {128, 192, 2, 4}, {128, 128, 2, 2}, {256, 64, 4, 1},
    {128, 64, 2, 2},  {256, 32, 4, 1},  {128, 32, 4, 1},  {64, 128, 2, 2},
    {64, 64, 2, 2},   {64, 32, 2, 2},   {32, 64, 2, 2},   {32, 32, 2, 2},
    {16, 64, 1, 4},   {16, 32, 1, 4},   {64, 16, 4, 1},
};
/// An instruction has at most 256 columns.
static constexpr BlockTile kWgmmaTiles[] = {
    {256, 192, 16, 1}, {192, 256, 12, 1}, {128, 256, 8, 1}, {256, 128, 16, 1},
    {128, 192, 8, 1},  {192, 128, 12, 1}, {128, 128, 8, 1}, {64, 256, 4, 1},
    {256, 64, 16, 1},  {64, 128, 4, 1},   {128, 64, 8, 1},  {64, 64, 4, 1},
};
/// Warp tiles of at least 16 x 32, for any operand layout.
static constexpr BlockTile kFmaTiles[] = {
    {128, 128, 4, 2}, {128, 64, 4, 1}, {64, 128, 2, 2},
    {64, 64, 2, 2},   {32, 64, 1, 2},  {64, 32, 4, 1},
    {32, 32, 2, 1},   {16, 64, 1, 2},  {16, 32, 1, 1},
};

template <typename T> static Type typeOf(MLIRContext *context) {
  return T::get(context);
}

/// A row for mma.sync m16n8k`k`.
static constexpr MatrixUnit mmaSync(llvm::StringLiteral name, MathType type,
                                    Type (*elementType)(MLIRContext *),
                                    int64_t k, llvm::StringLiteral function,
                                    llvm::StringLiteral argument,
                                    llvm::StringLiteral pack) {
  // ldmatrix reads eight lines without bank conflicts if their pitch is an odd
  // multiple of 16 bytes. Fragments of tf32 are read element by element, by
  // four (k) times eight lanes.
  return {name,
          MatrixInstruction::Mma,
          type,
          elementType,
          16,
          8,
          k,
          4,
          2,
          function,
          argument,
          pack,
          &MultiprocessorModel::mmaFlops,
          kMmaTiles,
          /*paddingAcross=*/k == 8 ? 32 : 16,
          /*stages=*/4};
}

/// A row for wgmma m64k`k`.
static constexpr MatrixUnit wgmma(llvm::StringLiteral name, MathType type,
                                  Type (*elementType)(MLIRContext *), int64_t k,
                                  llvm::StringLiteral argument) {
  return {name,
          MatrixInstruction::Wgmma,
          type,
          elementType,
          16,
          8,
          k,
          0,
          0,
          "warpgroupMma",
          argument,
          "",
          &MultiprocessorModel::warpgroupFlops,
          kWgmmaTiles,
          /*paddingAcross=*/0,
          /*stages=*/6};
}

static constexpr MatrixUnit kUnits[] = {
    mmaSync("mma_f16", MathType::Float16, typeOf<Float16Type>, 16, "mma",
            "half", "packHalf"),
    mmaSync("mma_bf16", MathType::BFloat16, typeOf<BFloat16Type>, 16, "mma",
            "bfloat16", "packBfloat16"),
    mmaSync("mma_tf32", MathType::TensorFloat32, typeOf<FloatTF32Type>, 8,
            "mmaTf32", "", "toTf32"),
    mmaSync("mma_e4m3", MathType::Float8, typeOf<Float8E4M3FNType>, 32,
            "mmaFloat8", "e4m3", "packBytes"),
    mmaSync("mma_e5m2", MathType::Float8, typeOf<Float8E5M2Type>, 32,
            "mmaFloat8", "e5m2", "packBytes"),
    wgmma("wgmma_f16", MathType::Float16, typeOf<Float16Type>, 16, "half"),
    wgmma("wgmma_bf16", MathType::BFloat16, typeOf<BFloat16Type>, 16,
          "bfloat16"),
    wgmma("wgmma_e4m3", MathType::Float8, typeOf<Float8E4M3FNType>, 32, "e4m3"),
    wgmma("wgmma_e5m2", MathType::Float8, typeOf<Float8E5M2Type>, 32, "e5m2"),
    {"fma", MatrixInstruction::Fma, MathType::Float32, typeOf<Float32Type>,
     /*m=*/4, /*n=*/8, /*k=*/4, /*leftWords=*/4, /*rightWords=*/4, "fma", "",
     "", &MultiprocessorModel::floatFlops, kFmaTiles, /*paddingAcross=*/16,
     /*stages=*/4},
};

FragmentLayout MatrixUnit::left() const {
  int64_t each = perWord();
  return {{{4, 0}, {8, 1}, {each, 0}, {2, 8}, {2, 0}},
          {{4, each}, {8, 0}, {each, 1}, {2, 0}, {2, 4 * each}}};
}

FragmentLayout MatrixUnit::right() const {
  int64_t each = perWord();
  return {{{4, 0}, {8, 1}, {each, 0}, {2, 0}, {2, 8}},
          {{4, each}, {8, 0}, {each, 1}, {2, 4 * each}, {2, 0}}};
}

FragmentLayout MatrixUnit::sums() {
  return {{{4, 0}, {8, 1}, {2, 0}, {2, 8}}, {{4, 2}, {8, 0}, {2, 1}, {2, 0}}};
}

const MatrixUnit *cuda::findMatrixUnit(MatrixInstruction instruction,
                                       Type type) {
  const auto *found = llvm::find_if(kUnits, [&](const MatrixUnit &unit) {
    return unit.instruction == instruction &&
           unit.elementType(type.getContext()) == type;
  });
  return found == std::end(kUnits) ? nullptr : found;
}

const MatrixUnit *cuda::mmaUnit(Type element, ComputeMode compute,
                                const CudaTarget &target) {
  if (element.isF32() && compute == ComputeMode::tf32)
    element = FloatTF32Type::get(element.getContext());
  const MatrixUnit *unit = findMatrixUnit(MatrixInstruction::Mma, element);
  return unit && target.target().unit(unit->type) ? unit : nullptr;
}

const MatrixUnit &cuda::fmaUnit() { return std::end(kUnits)[-1]; }
