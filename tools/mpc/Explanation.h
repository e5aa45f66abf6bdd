//===- Explanation.h - what mpc explain reports -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain data, collected from the IR after several stages, then written as text
// or as JSON.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_EXPLANATION_H
#define MPC_TOOLS_MPC_EXPLANATION_H

#include "LaunchCost.h"
#include "Samples.h"

#include "mpc/Analysis/Why.h"
#include "mpc/JIT/Options.h"
#include "mpc/Runtime/Program.h"
#include "mpc/Target/TargetInfo.h"
#include "mpc/Tuning/Budget.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mpc::tool {

/// One op of the model and the decision about it.
struct ExplainedOp {
  std::string name, kind, layer, location;
  /// What it multiplies or evaluates in; "tf32" where that is no type.
  std::string compute;
  std::optional<std::string> accumulate;
  std::vector<std::string> operands, results;
  /// Of the first result.
  std::vector<int64_t> shape;
  /// The type in which memory holds each result: the far side of the cast that
  /// all its readers share.
  std::vector<std::string> storage;
  std::optional<std::string> rule, override, reason;
  /// Bytes that the decision saves each time the result passes memory.
  std::optional<int64_t> cost;
  std::optional<std::string> kernel;
  /// The number of the launch that computes it.
  std::optional<size_t> launch;
  /// With samples: what the roundings of its results and of what it reads
  /// bring of the predicted square of the outputs' error.
  std::optional<double> errorOfResults, errorOfOperands;
};

/// One value on its way: from an op, or an input of the model, to an op that
/// reads it, or to a result of the model. Weights are no edges.
struct ExplainedEdge {
  /// Numbers of ops; without one the name of the input or the result.
  std::variant<size_t, std::string> from, to;
  /// As it is read, behind casts.
  std::string type;
  std::vector<int64_t> shape;
};

/// One conversion that a kernel executes.
struct ExplainedCast {
  /// The value that is converted: an op's, an input's or a constant's name.
  std::string of;
  std::string from, to;
  std::vector<int64_t> shape;
  /// What it would read and write if it stood alone.
  int64_t bytes = 0;
  /// The launch it lives in and that launch's kernel.
  size_t launch = 0;
  std::string kernel;
  /// Whether the kernel does nothing but convert and rearrange.
  bool standsAlone = false;
  /// Whether the model itself has the cast.
  bool ofModel = false;
};

/// One constant that was rounded at compile time.
struct ExplainedConstant {
  std::string name, type;
  /// How a policy stores it as weights; empty where it does not.
  std::string weights;
  int64_t count = 0, overflowed = 0, flushed = 0;
  double maxError = 0, rmsError = 0;
};

/// A cache that a decoder keeps between runs.
struct ExplainedCache {
  std::string name, type;
  /// What a token adds to it.
  int64_t rowBytes = 0;
};

/// One contraction that was padded.
struct ExplainedPadding {
  std::string op;
  std::vector<int64_t> from, to;
  int64_t extraFlops = 0;
};

/// What the machine code of a launch says (--sass).
struct ExplainedSass {
  int64_t blocks = 0, threads = 0;
  int64_t registers = 0, spillBytes = 0;
  /// Shared memory of a block, and blocks that share a multiprocessor.
  int64_t sharedMemory = 0, residentBlocks = 0;
  /// Instructions of the main loop by unit, empty where there is no such loop,
  /// and how often a warp runs it.
  std::vector<std::pair<std::string, int64_t>> mainLoop;
  double runs = 0;
  /// Instructions outside of it, per element of the largest result.
  double outsidePerElement = 0;
  double l2Bytes = 0, sharedBytes = 0;
  std::string boundBy;
  double seconds = 0, floorSeconds = 0;

  double share() const { return seconds > 0 ? floorSeconds / seconds : 0; }
};

/// One launch.
struct ExplainedKernel {
  std::string name, kind;
  std::vector<std::string> ops;
  int64_t bytes = 0, flops = 0;
  /// Casts that it executes.
  int64_t casts = 0;
  /// By the target's ceilings, where they are known.
  std::optional<double> seconds;
  /// With --sass; a product that a library computes has none.
  std::optional<ExplainedSass> sass;
};

struct ExplainedWarning {
  std::string code, op, location, text;
  /// What a lint adds; empty where the message is a diagnostic.
  std::string value, fix;
};

/// What samples say of a plan's roundings.
struct ExplainedErrors {
  /// "rms", and the error in its unit.
  std::string measure;
  double predicted = 0;
  int64_t samples = 0;
  /// Shares of the square that inputs bring by being stored narrow.
  std::vector<std::pair<std::string, double>> inputs;
};

/// The account of one value as strings, so that it outlives the IR.
struct ExplainedWhy {
  struct Step {
    std::string text, op, location;
  };
  std::string name, type;
  std::vector<Step> steps;
  /// The change that was seen to change the type; `becomes` is empty where
  /// there is none.
  std::string flippedOp, drop, becomes;
  std::vector<std::string> add;
  std::string keeps;
  int64_t bytesSaved = 0, castBytes = 0;
};

/// Everything about one model under one policy.
struct Explanation {
  std::string model, policy, target;
  std::vector<ExplainedOp> ops;
  std::vector<ExplainedEdge> edges;
  /// mpc.cast ops after the precision stage, and what they would move alone.
  int64_t casts = 0, castBytes = 0;
  std::vector<ExplainedCast> castList;
  int64_t constantsPrecast = 0;
  std::vector<ExplainedConstant> constants;
  std::vector<ExplainedCache> caches;
  std::vector<ExplainedPadding> padding;
  std::vector<ExplainedKernel> kernels;
  /// Memory for values between kernels, and the most of it that holds values
  /// at one launch.
  int64_t arenaBytes = 0, arenaLiveBytes = 0;
  std::vector<ExplainedWarning> warnings;
  std::optional<ExplainedWhy> why;
  std::optional<ExplainedErrors> errors;
  /// What samples showed of values, by name: rangesToJson(), or of those that
  /// the policy knows `largest` and `largest_sample`. Null where there are
  /// none.
  Json ranges;
};

/// What explainModel() looks at.
struct ExplainRequest {
  std::string model;
  CompileOptions options;
  /// Name of a value to account for, and whether to read machine code.
  std::string why = {};
  bool sass = false;
};

/// The compile's answer to --cast-placement.
CastPlacement castPlacementOf(const CompileOptions &options);

/// Compiles a model up to its launches and collects what each stage decided.
/// Messages go to `reporter` by the options.
Result<Explanation> explainModel(const ExplainRequest &request,
                                 Reporter &reporter);

/// Adds what samples say of the roundings of `plan`, which is one of
/// `function`: the model of `explanation` after Simplify. `errors` are of that
/// function over `samples` samples; `weights` of the ops whose weights are
/// stored in another form than that which they multiply.
void explainErrors(
    mlir::func::FuncOp function, const PrecisionPlan &plan,
    const RoundingErrors &errors, Budget::Measure measure, int64_t samples,
    Explanation &explanation,
    const std::vector<std::pair<mlir::Operation *, double>> &weights = {});

/// The same from samples themselves under `policy`, the errors of whose plans
/// are found with draws by `seed`, and the ranges of values.
Status explainSamples(const SampledModel &model, const Policy &policy,
                      uint64_t seed, Explanation &explanation);

/// What a policy knows of ranges; null where it knows none.
Json rangesOf(const Policy &policy);

/// Number of narrow constants in `function`.
int64_t countNarrowConstants(mlir::func::FuncOp function);

/// Collects ops, edges, casts and rounded constants after the precision stage.
void explainPrecision(mlir::func::FuncOp function, Explanation &explanation);

/// Collects padded contractions; `function` is after the pad stage or later.
void explainPadding(mlir::func::FuncOp function, Explanation &explanation);

/// Collects launches and the casts inside them: `function` is after the fuse
/// stage, `program` what became of it for `target`, `multiplied` the types of
/// its contractions. Launches stand in the order of fusions, copies after them.
void explainKernels(mlir::func::FuncOp function, const Program &program,
                    const TargetInfo &target,
                    const llvm::StringMap<MathType> &multiplied,
                    Explanation &explanation);

/// Reads the machine code of every launch of `program`, which has CUDA C++, and
/// estimates what it takes; `planned` has its kernels. Needs NVRTC and
/// nvdisasm, no GPU. Fails in one sentence where one of them is missing.
Status explainSass(mlir::ModuleOp planned, const Program &program,
                   const TargetInfo &target, unsigned threads,
                   Explanation &explanation);

/// The account with names and places in place of ops.
ExplainedWhy explainAccount(const std::string &name, const WhyAccount &account);

/// The document of cli.md.
Json explanationToJson(const Explanation &explanation);

/// The report for people, at most 100 columns wide.
std::string explanationToText(const Explanation &explanation);

/// What explainSass() found, for people.
std::string sassToText(const Explanation &explanation);

/// The account of one value for people.
std::string whyToText(const Explanation &explanation);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_EXPLANATION_H
