//===- Options.h - options of a compile -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_OPTIONS_H
#define MPC_JIT_OPTIONS_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Runtime/Caller.h"
#include "mpc/Training/Options.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// A diagnostic about the model, the policy or the compile.
struct Diagnostic {
  enum class Severity { Error, Warning, Remark };
  Severity severity = Severity::Error;
  /// Stage that reported it: "import", "precision", ..., or "codegen".
  std::string stage;
  /// Location: file and node, or file, line and column; never empty.
  std::string where;
  /// Name of the op, empty if the location is not an op.
  std::string op;
  /// Message, one sentence.
  std::string text;
  /// Notes, each "WHERE: text".
  std::vector<std::string> notes;
  /// For a warning about an override that is an error unless
  /// CompileOptions::isPartOfModel: the override, "KEY=TYPE"; else empty.
  std::string unusedOverride = {};
};

/// Which casts rounding may drop.
enum class RoundingMode {
  /// Every cast is executed.
  Strict,
  /// A narrowing cast that is undone by a widening cast in the same kernel may
  /// be dropped.
  Relaxed,
};

/// A KV cache that grows in place: a result that is an argument with the rows
/// of one call appended along one axis. The compiled argument is a buffer with
/// capacity for both; its first dimension is the rows, followed by the others
/// in their order. The program writes the last rows, and the result aliases the
/// buffer.
struct GrowingCache {
  std::string argument, result;
  int64_t axis = 0;
  /// Element type of the buffer; none: the narrower of the model's type and the
  /// policy's, which is Policy::getCache() or, unless overrides may differ, the
  /// compute type. 8-bit types, i8 or f8E4M3FN, make a quantized KV cache with
  /// one scale per row, shared by the last of at least three dimensions. The
  /// scales of "NAME" are an additional argument and result "NAME@scale", f32,
  /// with 1 for the last dimension; f8E4M3FN codes are ui8 in the program.
  std::optional<ElementType> element = {};
  /// True if each entry of the batch (the model's first dimension) has its own
  /// buffer, for continuous batching: entry `i` is the argument and the result
  /// `nameAt(name, i)`.
  bool apart = false;

  static std::string nameAt(const std::string &name, int64_t entry) {
    return name + "@" + std::to_string(entry);
  }
};

/// Computes only one of the `count` entries of dimension `axis` of a result:
/// the output `result`, or the first output if there is none of that name. The
/// program gets an additional argument `argument`, i64 [1], with the index. The
/// dimension stays, with an extent of 1.
struct ChosenEntry {
  std::string result;
  int64_t axis = 0, count = 0;
  std::string argument;
};

/// A decoder that runs `tokens` tokens after `past` cache rows, of which only
/// the last ones are filled. The compile fails unless the result is the same as
/// with the filled rows alone.
struct PaddedDecoder {
  /// Names of inputs. If the model has no input for positions and derives them
  /// from its number of cache rows, the program gets an additional argument,
  /// i64 [batch, tokens], and the batch must be 1.
  std::string mask, positions;
  bool hasPositions = false;
  int64_t batch = 1, tokens = 0, past = 0;
  /// True if the mask shows the padding tokens after the last token.
  bool showsPadding = false;
  /// Input shapes for each number of cache rows at which the program is
  /// compared with the model.
  std::map<int64_t, std::map<std::string, std::vector<int64_t>>> lengths;
};

/// Result of comparing a compiled program with the model's graph with types
/// (TranslationValidation.h).
struct Validation {
  /// Launches of the program, those whose equality is proved, and those that
  /// were only evaluated.
  size_t kernels = 0, proved = 0, tested = 0;
  /// The first difference: kernel and one sentence; empty if there is none.
  std::string kernel, difference;
  /// Duration of the comparison, in milliseconds.
  double milliseconds = 0;
};

/// Options of one compile. An aggregate of plain values with defaults; a
/// compile reads nothing else but the model's files.
struct CompileOptions {
  /// Name of a built-in policy, or a path that ends in ".json".
  std::string policy = "float32";
  /// Overrides in order: {"layer:encoder/.*", "float32"}.
  std::vector<std::pair<std::string, std::string>> sets;
  /// True if the model is a part of the one that the overrides are for: one
  /// that matches no op is a warning (Diagnostic::unusedOverride).
  bool isPartOfModel = false;
  /// Extents of symbolic dimensions by name.
  std::map<std::string, int64_t> dims;
  /// For compileToFile(): one additional set of extents per specialization,
  /// each combined with `dims`. Empty: one specialization, for `dims`.
  std::vector<std::map<std::string, int64_t>> specialisations;
  /// For Engine::open(): padding buckets of symbolic dimensions, ascending. A
  /// call is zero-padded to the next larger extent; a larger call, or a
  /// dimension without buckets, is compiled for its exact extent. Refused if a
  /// row of a result depends on other rows.
  std::map<std::string, std::vector<int64_t>> buckets;
  /// Complete shapes of inputs by name; they bind symbolic dimensions. A name
  /// that is not an input is an error unless `inputValues` has it too: files of
  /// arrays may hold others than inputs.
  std::map<std::string, std::vector<int64_t>> inputShapes;
  /// Values of inputs by name, in host memory. An input that determines shapes
  /// (a shape, axes, a number of elements to take) becomes a constant of the
  /// program and is no longer an argument. Other values are ignored.
  std::map<std::string, Buffer> inputValues;
  /// KV caches that grow in place, without copying old rows. Refused if a
  /// result is not such a cache.
  std::vector<GrowingCache> caches;
  /// Set for decoders whose caches have unfilled rows.
  std::optional<PaddedDecoder> padded;
  /// Results of which only one entry is computed.
  std::vector<ChosenEntry> chosen;
  /// Extent of the batch dimension.
  std::optional<int64_t> batch;
  /// Target: "cpu:avx512" or another level, which this machine need not support
  /// unless the program runs here, or "cuda:sm_80". Empty or "cpu:native": the
  /// best level of this machine.
  std::string target;
  RoundingMode rounding = RoundingMode::Strict;
  /// True for results that do not depend on the machine, as Policy's
  /// isReproducible(), which also selects them. Refused for GPUs.
  bool reproducible = false;
  /// GEMM implementation on a GPU: generated kernels ("own") or cuBLASLt where
  /// it supports the epilogue ("library"). CPU code is always generated.
  std::string gemm = "own";
  /// Schedule table for the target, written by `mpc tune-kernels`; empty:
  /// schedules come from the cost model.
  std::string schedules;
  /// Algorithm that assigns types to values without a rule: "mincut" or
  /// "propagate".
  std::string castPlacement = "mincut";
  /// Loss scale of a model that is itself a complete training step (loss,
  /// backward pass and update, as JAX traces it), as
  /// TrainingOptions::lossScale; the scale's state becomes an argument and
  /// result. Empty: "dynamic" for policies that compute in f16, else "none".
  std::string stepLossScale;
  /// Part of a training step to derive from the model and compile.
  std::optional<TrainingOptions> training;
  /// Folder that receives the IR after every stage; empty writes nothing.
  std::string dumpDir;
  /// True to read and write the user's on-disk compile cache for CPU targets.
  /// Ignored with dumpDir.
  bool useCache = true;
  /// True to identify every file to the compile cache by its bytes; false to
  /// identify files above 64 MiB by device, inode, size and timestamps.
  bool verifyFiles = false;
  /// Memory limit in bytes: constants, intermediates, arguments and results
  /// together. A larger model is refused before allocation; 0: this machine's
  /// memory.
  int64_t maxMemory = 0;
  /// Compile threads; 0: all cores.
  int threads = 0;
  /// The interface whose means messages name.
  Caller caller = Caller::Cpp;
  /// Called with the name of each stage ("import", ..., "codegen") when it
  /// starts.
  std::function<void(const std::string &)> onStage;
  /// Cancellation callback, polled between stages and between units of code
  /// generation, there by several threads at once: true cancels the compile,
  /// which fails as Unavailable. Polled every few tens of milliseconds.
  std::function<bool()> shouldStop;
  /// Called with the result of translation validation, which runs only if this
  /// is set: after stage plan, for each program, with the compile cache
  /// disabled. A difference is also an error of the compile, as Internal.
  std::function<void(const Validation &)> onValidation;
  /// Called for every diagnostic, on the compiling thread, in order.
  std::function<void(const Diagnostic &)> onDiagnostic;
};

} // namespace mpc

#endif // MPC_JIT_OPTIONS_H
