//===- Policy.h - precision policies ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy specifies the type in which each kind of op computes. Policies are
// data: the built-in ones are the files of lib/Policy/data, a user's is a JSON
// file of the same form (docs/Reference/policy.schema.json). Independent of
// MLIR: types are names, ops are (kind, layer, names).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_POLICY_POLICY_H
#define MPC_POLICY_POLICY_H

#include "mpc/Policy/OperandFormat.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace re2 {
class RE2;
}

namespace mpc {

/// Types that a policy can name.
enum class PolicyType {
  Float32,
  Float16,
  BFloat16,
  Float64,
  TensorFloat32, ///< f32 contractions that round their operands to tf32
  BFloat16x2,    ///< f32 contractions with operands split into two bf16
  BFloat16x3,    ///< f32 contractions with operands split into three bf16
  Float8E4M3FN,
  Float8E5M2,
};

/// "float32", "float16", "bfloat16", "float64", "tf32", "bf16x2", "bf16x3",
/// "float8_e4m3fn", "float8_e5m2".
llvm::StringRef stringify(PolicyType type);
/// Parses a type's name; also accepts f32, f16, bf16, half, fp16 ...
std::optional<PolicyType> parsePolicyType(llvm::StringRef name);
/// Every type, in the order of the enum.
llvm::ArrayRef<PolicyType> allPolicyTypes();

/// Returns true if `type` is a way to multiply f32 values, not a storage type.
bool isComputeMode(PolicyType type);
/// Returns true if `type` is an 8-bit float.
bool isFloat8(PolicyType type);
/// Size of a stored value, in bits; that of float32 for a compute mode.
unsigned storageBits(PolicyType type);

/// Class of an op kind in a policy's lists.
enum class PrecisionClass {
  Low,        ///< compute in the policy's compute type
  High,       ///< compute in float32
  Follow,     ///< narrow if its inputs are and nothing forbids it
  Clear,      ///< no numeric effect, takes any type
  Widest,     ///< operands are promoted to the widest of their types
  HighResult, ///< only the result type is set to float32
  Ban,        ///< an error
};

/// "low", "high", "follow", "clear", "widest", "high_result", "ban".
llvm::StringRef stringify(PrecisionClass cls);
/// Parses a class; also accepts TensorFlow's names (allow, deny, infer) and
/// torch's (lower_precision_fp, fp32, promote, fp32_set_opt_dtype,
/// fp32_append_dtype, banned).
std::optional<PrecisionClass> parsePrecisionClass(llvm::StringRef name);

/// Algorithm that derives the types of a graph from a policy's lists.
enum class PolicyAlgorithm {
  MinimumCut,         ///< mpc's own: free values by a minimum cut
  TorchAutocast,      ///< per op by its operands' types, as torch.autocast
  TensorFlowPainting, ///< color propagation, as TensorFlow's grappler pass
  KerasLayers,        ///< per layer, as Keras' dtype policies
};

/// "minimum_cut", "torch_autocast", "tensorflow_painting", "keras_layers".
llvm::StringRef stringify(PolicyAlgorithm algorithm);
/// Parses an algorithm's name.
std::optional<PolicyAlgorithm> parsePolicyAlgorithm(llvm::StringRef name);

/// Storage types of weights and caches. Float8 is E4M3 without infinities.
enum class WeightType { Float32, Float16, BFloat16, Int8, Int4, Float8, Int16 };

/// "float32", "float16", "bfloat16", "int16", "int8", "int4", "float8_e4m3fn".
llvm::StringRef stringify(WeightType type);
/// Parses a weight type's name; also accepts the short names of floats.
std::optional<WeightType> parseWeightType(llvm::StringRef name);

/// Storage of constant weights of contractions. Integers represent `scale *
/// (integer - zero)`, 8-bit floats `scale * float`.
struct WeightFormat {
  WeightType type = WeightType::Float32;
  /// Group size of int4: positions along the contracted extent that share a
  /// scale. Others have one scale per column of the GEMM, per output channel.
  int64_t group = 32;
  /// Whether int4 scales have a zero point; otherwise integers are signed.
  bool zeroPoint = false;
  /// Whether the scale minimizes the squared error of the weights, weighted by
  /// the mean square of the activation if known (Policy::momentsOf); otherwise
  /// it is the smallest one that clips none.
  bool clip = true;

  bool isNarrow() const { return type != WeightType::Float32; }
  bool isInteger() const {
    return type == WeightType::Int16 || type == WeightType::Int8 ||
           type == WeightType::Int4;
  }
  /// Returns true if numbers share scales.
  bool isScaled() const { return isInteger() || type == WeightType::Float8; }
  /// Short description: "int4, groups of 32, zero points".
  std::string describe() const;
};

/// One `KEY=TYPE` override.
struct PolicyOverride {
  enum class Key { Kind, Layer, Name };
  /// Where it was given; later sources take precedence over earlier ones.
  enum class Source { File, CommandLine };

  Key key = Key::Kind;
  Source source = Source::File;
  /// Whether it applies to the operands of ops, which stay in float32, and not
  /// to the results.
  bool isAboutInputs = false;
  /// Whether it applies only to ops of a backward pass.
  bool isAboutBackward = false;
  PolicyType type = PolicyType::Float32;
  std::string pattern;
  /// As the user wrote it: `layer:encoder/.*=float32`.
  std::string text;
  /// Compiled form of a layer's pattern.
  std::shared_ptr<re2::RE2> regex;

  /// Returns true if this override matches an op, even if another applies.
  bool fits(llvm::StringRef kind, llvm::StringRef layer,
            llvm::ArrayRef<llvm::StringRef> names,
            bool isBackward = false) const;
};

/// Measured magnitude of a value over samples.
struct MeasuredRange {
  /// Largest magnitude.
  double largest = 0;
  /// The file that contained it; may be empty.
  std::string sample;
};

class Policy;

/// One entry of a policy's map from layers to policies.
struct LayerPolicy {
  /// A layer path or a regular expression for whole paths.
  std::string pattern;
  /// Compiled form of the pattern. A pattern that does not compile is still an
  /// exact key, as in Keras; looking up another layer is then an error.
  std::shared_ptr<re2::RE2> regex;
  std::shared_ptr<const Policy> policy;
};

/// A precision policy. A value; copies are independent.
class Policy {
public:
  /// Parses a policy from JSON text. `where` names the text in messages; errors
  /// start with it and the line (syntax) or the field's path (semantics).
  static llvm::Expected<Policy> parse(llvm::StringRef json,
                                      llvm::StringRef where);

  /// Loads a built-in policy by name, or a file if the name ends in `.json`.
  static llvm::Expected<Policy> load(llvm::StringRef nameOrPath);

  /// Names of the built-in policies, sorted.
  static std::vector<llvm::StringRef> builtinNames();

  /// Returns the policy of a Keras dtype policy's name: float32, float16,
  /// bfloat16 and float64 compute and keep variables in that type,
  /// mixed_float16 and mixed_bfloat16 keep variables in float32. The result has
  /// the algorithm KerasLayers.
  static llvm::Expected<Policy> loadKeras(llvm::StringRef name);

  /// Fields of a policy file, in the order of the documentation.
  static llvm::ArrayRef<llvm::StringRef> fieldNames();

  /// Adds an override `op:KIND=TYPE`, `layer:PATH-OR-REGEX=TYPE` or
  /// `name:NAME=TYPE`, or one of inputs: `inputs:NAME=float32`,
  /// `inputs:op:KIND=float32`, `inputs:layer:PATH-OR-REGEX=float32`. With the
  /// prefix `backward:` each applies only to a backward pass, and `name:` is
  /// optional.
  llvm::Error addOverride(
      llvm::StringRef text,
      PolicyOverride::Source source = PolicyOverride::Source::CommandLine);

  /// Returns the override that applies to an op, or null. The command line
  /// precedes the file; within one source a name precedes an exact layer, a
  /// layer regex and a kind, and of two with equal keys the one for the
  /// backward pass applies there. Errors: two regexes of one source that match
  /// a layer which that source does not name exactly, and two names that
  /// disagree.
  llvm::Expected<const PolicyOverride *>
  findOverride(llvm::StringRef kind, llvm::StringRef layer,
               llvm::ArrayRef<llvm::StringRef> names,
               bool isBackward = false) const;

  /// Returns the override that keeps the operands of an op in float32, or null.
  /// Independent of an override of the op itself.
  const PolicyOverride *findInputs(llvm::StringRef kind, llvm::StringRef layer,
                                   llvm::ArrayRef<llvm::StringRef> names,
                                   bool isBackward = false) const;

  /// Returns the largest range of an op, or an input, of one of these names;
  /// null if there is none.
  const MeasuredRange *rangeOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Returns the mean squares, over samples, of the activations that an op of
  /// one of these names multiplies with its weights, by position of the
  /// contracted extent or input channel; empty if there are none.
  llvm::ArrayRef<float> momentsOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Returns the compute type of an op of one of these names if its kind is in
  /// the class low; nullopt if the policy does not specify it. If names
  /// disagree, the widest type. In a backward pass names with the prefix
  /// kBackward take precedence.
  std::optional<PolicyType> productOf(llvm::ArrayRef<llvm::StringRef> names,
                                      bool isBackward = false) const;

  /// Returns the storage of the weights of an op of one of these names; null if
  /// the policy does not specify it for the op. If names disagree, the widest
  /// type.
  const WeightFormat *weightsOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Returns whether the results of an op of one of these names are stored in
  /// 16 bits between kernels; nullopt if the policy does not specify it. If
  /// names disagree, f32.
  std::optional<bool> storesNarrow(llvm::ArrayRef<llvm::StringRef> names,
                                   bool isBackward = false) const;

  /// Returns true if any entry applies only to a backward pass.
  bool hasBackwardEntries() const;
  static constexpr llvm::StringLiteral kBackward = "backward:";

  /// Maps a layer path, or a regular expression for whole paths, to the policy
  /// `name`: one of Keras' if this policy types by layers, else a built-in one.
  /// A duplicate pattern is an error.
  llvm::Error addLayerPolicy(llvm::StringRef pattern, llvm::StringRef name,
                             bool autocast = true);

  /// Returns the policy of a layer path: an exact entry of the map, else the
  /// one regular expression that matches the whole path, else this policy. Two
  /// matching regular expressions are an error.
  llvm::Expected<const Policy *> policyOfLayer(llvm::StringRef layer) const;

  /// Returns the class of a kind: the policy's own list, else that of the
  /// imitated system's op, else the default.
  PrecisionClass classOf(llvm::StringRef kind) const;

  /// Returns the imitated system's list with `systemOp`; nullopt if none.
  std::optional<PrecisionClass> classOfSystemOp(llvm::StringRef systemOp) const;
  /// Returns the imitated system's op for an mpc op kind; empty if none.
  llvm::StringRef systemOpOf(llvm::StringRef kind) const;
  /// The imitated framework's op lists (such as PyTorch's autocast lists) by
  /// name, for comparison with its recorded behaviour.
  const std::map<std::string, std::vector<std::string>> &
  getSystemLists() const {
    return systemLists;
  }
  /// mpc op kind -> the imitated system's op.
  const std::map<std::string, std::string> &getSystemKinds() const {
    return systemKinds;
  }

  /// Returns a hash of everything that affects types: two policies with one
  /// digest type every graph alike. Excludes name, description and the order of
  /// overrides and layers.
  std::string digest() const;

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getDescription() const { return description; }
  PolicyAlgorithm getAlgorithm() const { return algorithm; }
  /// Compute type of `low` ops.
  PolicyType getCompute() const { return compute; }
  /// Storage type of values between kernels.
  PolicyType getStore() const { return store; }
  /// Accumulator type of `low` contractions, which is their result's type.
  PolicyType getAccumulate() const { return accumulate; }
  /// Storage type of parameters; a type narrower than float32 rounds them
  /// before their first use.
  PolicyType getVariable() const { return variable; }
  /// Type to which float outputs and losses are rounded. A function's signature
  /// keeps its types: a narrow output is widened again.
  PolicyType getOutput() const { return output; }
  /// Default storage of constant weights of contractions.
  const WeightFormat &getWeights() const { return weights; }
  /// Storage of the weights of single ops, by name.
  const std::map<std::string, WeightFormat> &getNamedWeights() const {
    return namedWeights;
  }
  /// Storage type of a decoder's KV cache; nullopt: attention's compute type.
  /// Never Int16 or Int4.
  std::optional<WeightType> getCache() const { return cache; }
  /// Type in which data-parallel ranks exchange gradients; nullopt: the storage
  /// type of each.
  std::optional<PolicyType> getGradientWire() const { return gradientWire; }
  /// Whether results do not depend on the machine, the number of threads and
  /// the other rows of a batch (docs/Explanation/SummationOrder.md).
  bool isReproducible() const { return reproducible; }
  /// Returns true if this policy or a layer's stores any weights narrow.
  bool narrowsWeights() const;
  /// Quantization of the operands of contractions.
  const OperandFormat &getOperands() const { return operands; }
  /// Returns true if this policy or a layer's quantizes operands.
  bool quantizesOperands() const;
  /// Keras: whether a layer casts its inputs.
  bool getAutocast() const { return autocast; }
  /// Class of a kind in no list.
  PrecisionClass getDefaultClass() const { return defaultClass; }
  /// Every kind in a list, with its class.
  const std::map<std::string, PrecisionClass> &getClasses() const {
    return classes;
  }
  llvm::ArrayRef<PolicyOverride> getOverrides() const { return overrides; }
  llvm::ArrayRef<LayerPolicy> getLayers() const { return layers; }
  /// Adds a measured range for a name; the larger of two ranges is kept.
  void addRange(llvm::StringRef name, MeasuredRange range);
  /// Sets the result of momentsOf() for a name.
  void setMoments(llvm::StringRef name, std::vector<float> squares) {
    moments[name.str()] = std::move(squares);
  }
  void setProduct(llvm::StringRef name, PolicyType type) {
    products[name.str()] = type;
  }
  void setValue(llvm::StringRef name, bool narrow) {
    values[name.str()] = narrow;
  }
  /// Names of ops of class low, and their compute types.
  const std::map<std::string, PolicyType> &getProducts() const {
    return products;
  }
  /// Names of ops, and whether their results are stored in 16 bits.
  const std::map<std::string, bool> &getValues() const { return values; }
  /// Measured ranges, by name.
  const std::map<std::string, MeasuredRange> &getRanges() const {
    return ranges;
  }
  /// Hash of the model of these names and ranges (graphDigest); may be empty.
  llvm::StringRef getModel() const { return model; }

private:
  friend class PolicyReader;

  /// Loads a built-in policy by name.
  static llvm::Expected<Policy> loadBuiltin(llvm::StringRef name);

  std::string name, description;
  PolicyType compute = PolicyType::Float32, store = PolicyType::Float32,
             accumulate = PolicyType::Float32, variable = PolicyType::Float32,
             output = PolicyType::Float32;
  WeightFormat weights;
  OperandFormat operands;
  std::optional<WeightType> cache;
  std::optional<PolicyType> gradientWire;
  PolicyAlgorithm algorithm = PolicyAlgorithm::MinimumCut;
  bool autocast = true;
  PrecisionClass defaultClass = PrecisionClass::High;
  std::map<std::string, PrecisionClass> classes;
  std::vector<PolicyOverride> overrides;
  std::vector<LayerPolicy> layers;
  std::map<std::string, PolicyType> products;
  std::map<std::string, bool> values;
  std::map<std::string, MeasuredRange> ranges;
  std::map<std::string, std::vector<float>> moments;
  std::string model;
  std::map<std::string, std::vector<std::string>> systemLists;
  std::map<std::string, PrecisionClass> systemClasses;
  std::map<std::string, std::string> systemKinds;
  std::map<std::string, WeightFormat> namedWeights;
  bool reproducible = false;
};

} // namespace mpc

#endif // MPC_POLICY_POLICY_H
