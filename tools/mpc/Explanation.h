//===- Explanation.h - data of mpc explain ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain data, collected from the IR after several stages and formatted as text
// or JSON.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TOOLS_MPC_EXPLANATION_H
#define MPC_TOOLS_MPC_EXPLANATION_H

#include "LaunchCost.h"
#include "SampleInputs.h"

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

/// One op of the model and its precision decision.
struct ExplainedOp {
  std::string name, kind, layer, location;
  /// Compute type; "tf32" is a compute mode.
  std::string compute;
  std::optional<std::string> accumulate;
  std::vector<std::string> operands, results;
  /// Shape of the first result.
  std::vector<int64_t> shape;
  /// Storage type of each result in memory: the result type of a cast shared by
  /// all consumers.
  std::vector<std::string> storage;
  std::optional<std::string> rule, override, reason;
  /// Bytes that the decision saves per memory access of the result.
  std::optional<int64_t> cost;
  std::optional<std::string> kernel;
  /// Index of its launch.
  std::optional<size_t> launch;
  /// With samples: contributions of rounding its results and operands to the
  /// predicted squared error of the outputs.
  std::optional<double> errorOfResults, errorOfOperands;
};

/// A data-flow edge: from an op or an input of the model to an op or a result.
/// Weights are not edges.
struct ExplainedEdge {
  /// Indices of ops; otherwise the name of the input or result.
  std::variant<size_t, std::string> from, to;
  /// Type as read, after casts.
  std::string type;
  std::vector<int64_t> shape;
};

/// One conversion that a kernel executes.
struct ExplainedCast {
  /// Name of the converted value: of an op, input or constant.
  std::string of;
  std::string from, to;
  std::vector<int64_t> shape;
  /// Bytes that it would read and write as a separate kernel.
  int64_t bytes = 0;
  /// Index and kernel of its launch.
  size_t launch = 0;
  std::string kernel;
  /// True if the kernel only converts and rearranges.
  bool standsAlone = false;
  /// True if the model itself has the cast.
  bool ofModel = false;
};

/// One constant rounded at compile time.
struct ExplainedConstant {
  std::string name, type;
  /// Quantized storage format of weights; empty if not quantized.
  std::string weights;
  int64_t count = 0, overflowed = 0, flushed = 0;
  double maxError = 0, rmsError = 0;
};

/// A decoder's KV cache.
struct ExplainedCache {
  std::string name, type;
  /// Bytes per token.
  int64_t rowBytes = 0;
};

/// One padded contraction.
struct ExplainedPadding {
  std::string op;
  std::vector<int64_t> from, to;
  int64_t extraFlops = 0;
};

/// Analysis of a launch's machine code (--sass).
struct ExplainedSass {
  int64_t blocks = 0, threads = 0;
  int64_t registers = 0, spillBytes = 0;
  /// Shared memory per block in bytes, and resident blocks per multiprocessor.
  int64_t sharedMemory = 0, residentBlocks = 0;
  /// Instructions of the main loop by unit, empty without such a loop, and trip
  /// count per warp.
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
  /// Number of casts that it executes.
  int64_t casts = 0;
  /// Modeled time by the target's peak rates, if known.
  std::optional<double> seconds;
  /// With --sass; absent for library GEMMs.
  std::optional<ExplainedSass> sass;
};

struct ExplainedWarning {
  std::string code, op, location, text;
  /// Value and fix of a lint finding; empty for a diagnostic.
  std::string value, fix;
};

/// Quantization of one operand of a contraction over samples: scales, and
/// shares of its elements.
struct ExplainedOperand {
  std::string op;
  /// 0: left, 1: right.
  unsigned operand = 0;
  std::string format;
  double leastScale = 0, mostScale = 0;
  /// Beyond the largest number; other than zero, and rounded to zero.
  double saturated = 0, flushed = 0;
};

/// Error analysis of a plan's roundings from samples.
struct ExplainedErrors {
  /// Measure ("rms"), and the predicted error.
  std::string measure;
  double predicted = 0;
  int64_t samples = 0;
  /// Contributions of inputs stored in narrow types to the squared error.
  std::vector<std::pair<std::string, double>> inputs;
};

/// Explanation of one value's type as strings, independent of the IR.
struct ExplainedWhy {
  struct Step {
    std::string text, op, location;
  };
  std::string name, type;
  std::vector<Step> steps;
  /// The single change that changes the type; `becomes` is empty if there is
  /// none.
  std::string flippedOp, drop, becomes;
  std::vector<std::string> add;
  std::string keeps;
  int64_t bytesSaved = 0, castBytes = 0;
};

/// Complete report of one model under one policy.
struct Explanation {
  std::string model, policy, target;
  std::vector<ExplainedOp> ops;
  std::vector<ExplainedEdge> edges;
  /// mpc.cast ops after the precision stage, and bytes they would move as
  /// separate kernels.
  int64_t casts = 0, castBytes = 0;
  std::vector<ExplainedCast> castList;
  int64_t constantsPrecast = 0;
  std::vector<ExplainedConstant> constants;
  std::vector<ExplainedCache> caches;
  std::vector<ExplainedPadding> padding;
  std::vector<ExplainedKernel> kernels;
  /// Arena size, and maximum of live arena bytes over all launches.
  int64_t arenaBytes = 0, arenaLiveBytes = 0;
  std::vector<ExplainedWarning> warnings;
  std::optional<ExplainedWhy> why;
  std::optional<ExplainedErrors> errors;
  /// Quantized operands, with samples.
  std::vector<ExplainedOperand> operands;
  /// Observed ranges by name: rangesToJson(), or `largest` and `largest_sample`
  /// of those in the policy. Null if there are none.
  Json ranges;
};

/// Arguments of explainModel().
struct ExplainRequest {
  std::string model;
  CompileOptions options;
  /// Name of a value to explain, and whether to analyze machine code.
  std::string why = {};
  bool sass = false;
};

/// Converts --cast-placement of a compile.
CastPlacement castPlacementOf(const CompileOptions &options);

/// Compiles a model up to its launches and collects the decisions of each
/// stage. Diagnostics go to `reporter` through the options.
Result<Explanation> explainModel(const ExplainRequest &request,
                                 Reporter &reporter);

/// Adds the error analysis of the roundings of `plan`, for `function`: the
/// model of `explanation` after stage simplify. `errors` are from `samples`
/// samples of that function; `quantized` are errors of ops with quantized
/// weights or operands.
void explainErrors(mlir::func::FuncOp function, const PrecisionPlan &plan,
                   const RoundingErrorModel &errors, Budget::Measure measure,
                   int64_t samples, Explanation &explanation,
                   llvm::ArrayRef<QuantizedError> quantized = {});

/// The same from samples under `policy`, with random backward passes by `seed`,
/// the ranges of values, and how quantized operands use their formats.
Status explainSamples(const SampledModel &model, const Policy &policy,
                      uint64_t seed, Explanation &explanation);

/// Returns the ranges in a policy; null if there are none.
Json rangesOf(const Policy &policy);

/// Returns the number of constants in narrow types in `function`.
int64_t countNarrowConstants(mlir::func::FuncOp function);

/// Collects ops, edges, casts and rounded constants after the precision stage.
void explainPrecision(mlir::func::FuncOp function, Explanation &explanation);

/// Collects padded contractions; `function` is after stage pad or later.
void explainPadding(mlir::func::FuncOp function, Explanation &explanation);

/// Collects launches and their casts: `function` is after stage fuse, `program`
/// its program for `target`, `multiplied` the types of its contractions.
/// Launches are in the order of fusions, then copies.
void explainKernels(mlir::func::FuncOp function, const Program &program,
                    const TargetInfo &target,
                    const llvm::StringMap<MathType> &multiplied,
                    Explanation &explanation);

/// Analyzes the machine code of every launch of `program`, which has CUDA C++,
/// and models its time; `planned` has its kernels. Needs NVRTC and nvdisasm,
/// but no GPU. Fails with one sentence if one of them is missing.
Status explainSass(mlir::ModuleOp planned, const Program &program,
                   const TargetInfo &target, unsigned threads,
                   Explanation &explanation);

/// Converts an account to names and locations.
ExplainedWhy explainAccount(const std::string &name, const WhyAccount &account);

/// Returns the JSON document of cli.md.
Json explanationToJson(const Explanation &explanation);

/// Returns the text report, at most 100 columns wide.
std::string explanationToText(const Explanation &explanation);

/// Formats the results of explainSass().
std::string sassToText(const Explanation &explanation);

/// Formats the explanation of one value's type.
std::string whyToText(const Explanation &explanation);

} // namespace mpc::tool

#endif // MPC_TOOLS_MPC_EXPLANATION_H
