//===- Schema.h - schema of .mpcx files -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Serialization of the runtime's structs. As in Boost.Serialization, one list
// of members serves both directions: an archive is a Writer
// (EncodeContainer.cpp) or a Reader (DecodeContainer.cpp).
//
// Numbers are little-endian, enumerators and bools one byte. A string, list or
// map starts with its length (u32), an optional with a bool. Constants and code
// are sections, referred to by index (u32). A change needs a new
// kFormatVersion.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CONTAINER_SCHEMA_H
#define MPC_LIB_RUNTIME_CONTAINER_SCHEMA_H

#include "Container.h"

#include <concepts>
#include <type_traits>

namespace mpc::container {

/// The last value of each type that is stored in one byte.
constexpr bool lastOf(bool) { return true; }
constexpr auto lastOf(ElementType) { return ElementType::F8E5M2; }
constexpr auto lastOf(BufferRef::Kind) { return BufferRef::Kind::Checks; }
constexpr auto lastOf(RunCheck::Kind) { return RunCheck::Kind::FiniteResult; }
constexpr auto lastOf(GemmProblem::Activation) {
  return GemmProblem::Activation::GeluTanhGradient;
}
constexpr auto lastOf(GemmProblem::Compute) {
  return GemmProblem::Compute::Bf16x9;
}
constexpr auto lastOf(GemmProblem::BiasGradient) {
  return GemmProblem::BiasGradient::Result;
}
constexpr auto lastOf(Collective::Kind) { return Collective::Kind::Broadcast; }
constexpr auto lastOf(Collective::Reduction) {
  return Collective::Reduction::Max;
}

/// A struct, const when it is written.
template <typename T, typename Struct>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Struct>;

/// Serializes all members of a struct. A structured binding names every member,
/// so a list that lacks one does not compile.
#define MPC_SERIALIZE(Struct, ...)                                             \
  template <typename Archive, MaybeConst<Struct> Object>                       \
  void serialize(Archive &archive, Object &object) {                           \
    auto &[__VA_ARGS__] = object;                                              \
    archive(__VA_ARGS__);                                                      \
  }

MPC_SERIALIZE(TensorType, element, shape)
MPC_SERIALIZE(BufferRef, kind, index, offset, bytes, written)
MPC_SERIALIZE(LaunchGrid, blocks, threads, sharedBytes, cooperative)
MPC_SERIALIZE(GemmProblem, m, n, k, batch, operandA, operandB, result,
              transposeA, transposeB, sharedA, sharedB, activation, bias,
              residual, auxiliary, biasGradient, compute, scales, resultScale,
              amax)
MPC_SERIALIZE(Collective, kind, reduction, element, accumulate, ranks, root)
MPC_SERIALIZE(RunCheck, kind, op, number, argument, exempt)
MPC_SERIALIZE(TypeShare, type, count, weight)
MPC_SERIALIZE(VariableType, name, role, type, stored)
MPC_SERIALIZE(LayerTypes, path, policy, compute, gradient, storage, variables)
MPC_SERIALIZE(StoredCuda::Kernel, name, source)
MPC_SERIALIZE(StoredCuda::Binary, architecture, kernels, cubin)
MPC_SERIALIZE(StoredCuda, prelude, kernels, binaries)
MPC_SERIALIZE(StoredSpecialisation, dims, longestReduction, narrowest,
              longestChain, arguments, results, programs)
MPC_SERIALIZE(Contents, name, model, policy, compiler, specialisations)

#undef MPC_SERIALIZE

// Structs with members that are not stored, or whose size another member gives.

template <typename Archive, MaybeConst<Launch> Object>
void serialize(Archive &archive, Object &object) {
  auto &[kernel, kind, ops, function, buffers, items, grain, laterItems,
         scratchBytes, sharedBytes, grid, gemm, collective, flops, bytes] =
      object;
  archive(kernel, kind, ops, buffers, items, grain, laterItems, scratchBytes,
          sharedBytes, grid, gemm, collective, flops, bytes);
}

template <typename Archive, MaybeConst<ProgramConstant> Object>
void serialize(Archive &archive, Object &object) {
  auto &[name, type, data, bytes, key] = object;
  archive(name, type, bytes);
  archive.constant(key, data, bytes);
}

template <typename Archive, MaybeConst<ProgramValue> Object>
void serialize(Archive &archive, Object &object) {
  auto &[name, type, role, integerBound, field, alias, initial, labels,
         shardOf] = object;
  bool hasInitial = initial != nullptr;
  archive(name, type, role, integerBound, field, alias, labels, shardOf,
          hasInitial);
  if (hasInitial)
    archive.section(initial, object.initialType().byteCount().value_or(-1));
}

/// The name, arguments and results are those of Contents and
/// StoredSpecialisation.
template <typename Archive, MaybeConst<StoredProgram> Object>
void serialize(Archive &archive, Object &object) {
  auto &[program, code, cuda] = object;
  auto &[name, target, arguments, results, constants, arenaBytes, launches,
         layers, codeOwner, cudaCode, checks] = program;
  archive(target, constants, arenaBytes, launches, layers, checks, code, cuda);
}

} // namespace mpc::container

#endif // MPC_LIB_RUNTIME_CONTAINER_SCHEMA_H
