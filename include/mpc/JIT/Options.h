//===- Options.h - what a compile takes -------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_JIT_OPTIONS_H
#define MPC_JIT_OPTIONS_H

#include "mpc/Runtime/Buffer.h"
#include "mpc/Training/Options.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc {

/// A message about the model, the policy or the compile.
struct Diagnostic {
  enum class Severity { Error, Warning, Remark };
  Severity severity = Severity::Error;
  /// The stage that spoke: "import", "precision", ..., or "codegen".
  std::string stage;
  /// The place: file and node, or file, line and column; never empty.
  std::string where;
  /// The op's name where the place is an op, else empty.
  std::string op;
  /// One sentence.
  std::string text;
  /// "WHERE: text" of each note.
  std::vector<std::string> notes;
};

/// How much freedom rounding has.
enum class RoundingMode {
  /// Every cast is executed.
  Strict,
  /// A narrowing that is widened again inside one kernel may be dropped.
  Relaxed,
};

/// A cache of a decoder: a result that is an argument with the rows of one call
/// behind its own, along one axis. Compiled, the argument is a buffer with room
/// for both: its first dimension are the rows, then come the others in their
/// order, and the program writes its last rows. The result is in its place.
struct GrowingCache {
  std::string argument, result;
  int64_t axis = 0;
  /// Type of the buffer's elements; none: the narrower one of the model's and
  /// the policy's, Policy::getCache() or, where no override says otherwise, the
  /// type that it computes in.
  /// Numbers of 8 bits, i8 or f8E4M3FN, stand for themselves times the scale of
  /// their row: the last dimension of the buffer, which has at least three,
  /// shares one. The scales of "NAME" are a further argument and result,
  /// "NAME@scale", f32, with 1 for the last dimension; codes of f8E4M3FN are
  /// ui8 in the program.
  std::optional<ElementType> element = {};
  /// Whether each entry of the model's first dimension, the batch, has a buffer
  /// of its own, so that sequences may come and go: entry `i` is the argument
  /// and the result `nameAt(name, i)`.
  bool apart = false;

  static std::string nameAt(const std::string &name, int64_t entry) {
    return name + "@" + std::to_string(entry);
  }
};

/// A result of which only one of the `count` entries of dimension `axis` is
/// computed: the output that is called `result`, or the first one where none
/// is. Compiled, the program has a further argument of this name, i64 [1], that
/// says which. The dimension stays, with an extent of 1.
struct ChosenEntry {
  std::string result;
  int64_t axis = 0, count = 0;
  std::string argument;
};

/// Positions that a decoder derives from the number of rows in its caches.
/// Compiled, a program that has such positions takes them from a further
/// argument of this name, i64 [batch, tokens]. The batch must be 1 then.
struct CountedPositions {
  std::string argument;
  int64_t batch = 1;
  /// Tokens of a run, and rows of the caches before them.
  int64_t tokens = 0, past = 0;
  /// Shapes of the inputs for one row more; empty: positions stay constants.
  std::map<std::string, std::vector<int64_t>> longerShapes;
};

/// Choices of one compile. An aggregate: set what matters, the rest has
/// defaults. Plain values; a compile reads nothing else but the model's files.
struct CompileOptions {
  /// A built-in policy's name or a path that ends in ".json".
  std::string policy = "float32";
  /// Overrides in order: {"layer:encoder/.*", "float32"}.
  std::vector<std::pair<std::string, std::string>> sets;
  /// Extents of symbolic dimensions by name.
  std::map<std::string, int64_t> dims;
  /// For compileToFile(): several sets of such extents, each used beside
  /// `dims`; the file holds the model once for each. None: once, for `dims`.
  std::vector<std::map<std::string, int64_t>> specialisations;
  /// For Engine::open(): extents of symbolic dimensions that calls are padded
  /// to, rising. A call with fewer rows takes the program of the next extent
  /// that is listed; one with more, or with none listed, is compiled as it is.
  /// Refused where a row of a result depends on other rows.
  std::map<std::string, std::vector<int64_t>> buckets;
  /// Whole shapes of inputs by name; they bind the symbolic dimensions they
  /// meet.
  std::map<std::string, std::vector<int64_t>> inputShapes;
  /// Values of inputs by name, in host memory. An input whose value the import
  /// must know (a shape, axes, a number of elements to take) becomes a constant
  /// of the program and is none of its arguments. The other values are not
  /// read.
  std::map<std::string, Buffer> inputValues;
  /// Caches that are to grow in place: their old rows are not copied. Refused
  /// where a result is no such cache.
  std::vector<GrowingCache> caches;
  /// For decoders without an input for positions. Refused where the model reads
  /// the number of rows in another way than as positions or distances.
  std::optional<CountedPositions> positions;
  /// Results of which one entry is enough.
  std::vector<ChosenEntry> chosen;
  /// Extent of the batch dimension.
  std::optional<int64_t> batch;
  /// What to compile for: "cpu:avx512" or another level, which this machine may
  /// lack as long as nothing runs, or "cuda:sm_80". Empty or "cpu:native": the
  /// best level of this machine.
  std::string target;
  RoundingMode rounding = RoundingMode::Strict;
  /// Who computes matrix products on a GPU: "own" kernels, or "library", which
  /// is cuBLASLt where it has the epilogue. Code for a CPU is always our own.
  std::string gemm = "own";
  /// File of a table of schedules for the target, as `mpc tune-kernels` writes
  /// it; empty: the cost model alone chooses how kernels are cut.
  std::string schedules;
  /// How values that no rule fixes get their types: "mincut" or "propagate".
  std::string castPlacement = "mincut";
  /// Loss scale of a model that is a whole training step itself (loss, backward
  /// pass and update, as JAX traces it), with the meaning of
  /// TrainingOptions::lossScale; the state of the scale joins its arguments and
  /// results. Empty: "dynamic" for policies that compute in f16, else "none".
  std::string stepLossScale;
  /// Set: what is compiled is this part of a training step of the model.
  std::optional<TrainingOptions> training;
  /// Folder that receives the IR after every stage; empty writes nothing.
  std::string dumpDir;
  /// Whether what was compiled for a CPU before, by any process, is taken from
  /// the user's cache, and what is compiled now kept there. Never with dumpDir.
  bool useCache = true;
  /// Most bytes that the program may need: its constants, intermediate memory,
  /// arguments and results together. A model that needs more is refused before
  /// any of it is allocated; 0 means no limit but the machine's.
  int64_t maxMemory = 0;
  /// Threads that compile; 0 means all cores.
  int threads = 0;
  /// Called with a stage's name as it begins ("import", ..., "codegen").
  std::function<void(const std::string &)> onStage;
  /// Asked between stages and between pieces of code generation, there by
  /// several threads at once: true ends the compile, which then fails as
  /// Unavailable. Tens of milliseconds pass between two questions.
  std::function<bool()> shouldStop;
  /// Called for every message, on the compiling thread, in order.
  std::function<void(const Diagnostic &)> onDiagnostic;
};

} // namespace mpc

#endif // MPC_JIT_OPTIONS_H
