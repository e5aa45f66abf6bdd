//===- Policy.h - precision policies ----------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A policy says in which type each kind of op computes. Policies are data: the
// built-in ones are the files of lib/Policy/data, a user's is a JSON file of
// the same form (docs/policy.schema.json). Knows no MLIR: types are names, ops
// are (kind, layer, names).
//
//===----------------------------------------------------------------------===//

#ifndef MPC_POLICY_POLICY_H
#define MPC_POLICY_POLICY_H

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
  BFloat16x2,    ///< f32 contractions in two bf16 terms
  BFloat16x3,    ///< f32 contractions in three bf16 terms
  Float8E4M3FN,
  Float8E5M2,
};

/// "float32", "float16", "bfloat16", "float64", "tf32", "bf16x2", "bf16x3",
/// "float8_e4m3fn", "float8_e5m2".
llvm::StringRef stringify(PolicyType type);
/// Parses a type's name; f32, f16, bf16, half, fp16 ... are accepted as well.
std::optional<PolicyType> parsePolicyType(llvm::StringRef name);
/// Every type, in the order of the enum.
llvm::ArrayRef<PolicyType> allPolicyTypes();

/// Whether `type` is a way to multiply f32 values, not a type in memory.
bool isComputeMode(PolicyType type);
/// Whether `type` is one of the 8-bit floats.
bool isFloat8(PolicyType type);
/// Bits of one stored value; those of float32 for a compute mode.
unsigned storageBits(PolicyType type);

/// What a policy's lists say about a kind of op.
enum class PrecisionClass {
  Low,        ///< compute in the policy's compute type
  High,       ///< compute in float32
  Follow,     ///< narrow where its inputs are and nothing forbids
  Clear,      ///< no numeric effect, takes any type
  Widest,     ///< operands meet in the widest of their types
  HighResult, ///< only the result type is set to float32
  Ban,        ///< an error
};

/// "low", "high", "follow", "clear", "widest", "high_result", "ban".
llvm::StringRef stringify(PrecisionClass cls);
/// Parses a class; TensorFlow's (allow, deny, infer) and torch's
/// (lower_precision_fp, fp32, promote, fp32_set_opt_dtype, fp32_append_dtype,
/// banned) names are accepted as well.
std::optional<PrecisionClass> parsePrecisionClass(llvm::StringRef name);

/// How a policy's lists become the types of a graph.
enum class PolicyAlgorithm {
  MinimumCut,         ///< mpc's own: free values by a minimum cut
  TorchAutocast,      ///< per op by the types that arrive, as torch.autocast
  TensorFlowPainting, ///< colours that flow, as TensorFlow's grappler pass
  KerasLayers,        ///< per layer, as Keras' dtype policies
};

/// "minimum_cut", "torch_autocast", "tensorflow_painting", "keras_layers".
llvm::StringRef stringify(PolicyAlgorithm algorithm);
/// Parses an algorithm's name.
std::optional<PolicyAlgorithm> parsePolicyAlgorithm(llvm::StringRef name);

/// Types in which a policy stores weights and caches. Float8 is E4M3 without
/// infinities.
enum class WeightType { Float32, Float16, BFloat16, Int8, Int4, Float8, Int16 };

/// "float32", "float16", "bfloat16", "int16", "int8", "int4", "float8_e4m3fn".
llvm::StringRef stringify(WeightType type);
/// Parses a weight type's name; the short names of floats are accepted as well.
std::optional<WeightType> parseWeightType(llvm::StringRef name);

/// How a policy stores the constants that contractions multiply with. Integers
/// stand for `scale * (integer - zero)`, 8-bit floats for `scale * float`.
struct WeightFormat {
  WeightType type = WeightType::Float32;
  /// Of int4: neighbours along the contracted extent that share a scale.
  /// Others have one scale per column of the product, per output channel.
  int64_t group = 32;
  /// Of int4: whether each scale has a zero point; else integers are signed.
  bool zeroPoint = false;
  /// Whether a scale is the one with the least squared error of the weights,
  /// each weighed by what it is multiplied with where the policy knows that
  /// (Policy::momentsOf), and not the least one that holds the largest of them.
  bool clip = true;

  bool isNarrow() const { return type != WeightType::Float32; }
  bool isInteger() const {
    return type == WeightType::Int16 || type == WeightType::Int8 ||
           type == WeightType::Int4;
  }
  /// Whether numbers share scales.
  bool isScaled() const { return isInteger() || type == WeightType::Float8; }
  /// All of it in a few words: "int4, groups of 32, zero points".
  std::string describe() const;
};

/// One `KEY=TYPE` override.
struct PolicyOverride {
  enum class Key { Kind, Layer, Name };
  /// Where it was given; later sources beat earlier ones.
  enum class Source { File, CommandLine };

  Key key = Key::Kind;
  Source source = Source::File;
  /// Whether it speaks of what ops read, which stays in float32, and leaves
  /// what they make to others.
  bool isAboutInputs = false;
  /// Whether it speaks of ops of a backward pass alone.
  bool isAboutBackward = false;
  PolicyType type = PolicyType::Float32;
  std::string pattern;
  /// As the user wrote it: `layer:encoder/.*=float32`.
  std::string text;
  /// Compiled form of a layer's pattern.
  std::shared_ptr<re2::RE2> regex;

  /// Whether an op is one that this override speaks of, though a closer one may
  /// decide about it.
  bool fits(llvm::StringRef kind, llvm::StringRef layer,
            llvm::ArrayRef<llvm::StringRef> names,
            bool isBackward = false) const;
};

/// How large a value became over samples.
struct MeasuredRange {
  /// Of the magnitudes.
  double largest = 0;
  /// The file that held it; may be empty.
  std::string sample;
};

class Policy;

/// One entry of a policy's map from layers to policies.
struct LayerPolicy {
  /// A layer path or a regular expression for whole paths.
  std::string pattern;
  /// Compiled form of the pattern. One that does not compile is still an exact
  /// key, as in Keras; looking up another layer is then an error.
  std::shared_ptr<re2::RE2> regex;
  std::shared_ptr<const Policy> policy;
};

/// A precision policy. A value; copies are independent.
class Policy {
public:
  /// Reads a policy from JSON text. `where` names the text in messages; an
  /// error's message starts with it and the line (syntax) or the field's path
  /// (meaning).
  static llvm::Expected<Policy> parse(llvm::StringRef json,
                                      llvm::StringRef where);

  /// A built-in policy by name, or a file where the name ends in `.json`.
  static llvm::Expected<Policy> load(llvm::StringRef nameOrPath);

  /// Names of the built-in policies, sorted.
  static std::vector<llvm::StringRef> builtinNames();

  /// What Keras means by a dtype policy's name: float32, float16, bfloat16 and
  /// float64 compute and keep variables in that type, mixed_float16 and
  /// mixed_bfloat16 keep variables in float32. The result has the algorithm
  /// KerasLayers.
  static llvm::Expected<Policy> loadKeras(llvm::StringRef name);

  /// Fields of a policy file, in the order of the documentation.
  static llvm::ArrayRef<llvm::StringRef> fieldNames();

  /// Adds an override `op:KIND=TYPE`, `layer:PATH-OR-REGEX=TYPE` or
  /// `name:NAME=TYPE`, or one of inputs: `inputs:NAME=float32`,
  /// `inputs:op:KIND=float32`, `inputs:layer:PATH-OR-REGEX=float32`. Behind
  /// `backward:` each speaks of a backward pass alone, and a name may stand
  /// without `name:`.
  llvm::Error addOverride(
      llvm::StringRef text,
      PolicyOverride::Source source = PolicyOverride::Source::CommandLine);

  /// The override that decides about an op, or null. The command line beats the
  /// file; within one source a name beats an exact layer, beats a layer regex,
  /// beats a kind, and of two alike the one about the backward pass decides
  /// there. Two regexes of one source that match a layer which that
  /// source does not name exactly are an error, as are two names that disagree.
  llvm::Expected<const PolicyOverride *>
  findOverride(llvm::StringRef kind, llvm::StringRef layer,
               llvm::ArrayRef<llvm::StringRef> names,
               bool isBackward = false) const;

  /// The override that keeps what an op reads in float32, or null. An override
  /// of the op itself is another matter.
  const PolicyOverride *findInputs(llvm::StringRef kind, llvm::StringRef layer,
                                   llvm::ArrayRef<llvm::StringRef> names,
                                   bool isBackward = false) const;

  /// The largest range of an op, or an input, of one of these names; null where
  /// there is none.
  const MeasuredRange *rangeOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Mean squares, over samples, of what an op of one of these names multiplies
  /// its weights with, by position of the contracted extent or input channel;
  /// empty where there are none.
  llvm::ArrayRef<float> momentsOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// The type in which an op of one of these names computes where its kind is
  /// in the class low; nullopt where the policy does not say. Of names that
  /// disagree the widest type holds. In a backward pass what stands behind
  /// kBackward in a name beats what does not.
  std::optional<PolicyType> productOf(llvm::ArrayRef<llvm::StringRef> names,
                                      bool isBackward = false) const;

  /// How the policy stores the weights that an op of one of these names reads;
  /// null where it does not say so of the op. Of names that disagree the widest
  /// type holds.
  const WeightFormat *weightsOf(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Whether the results of an op of one of these names are stored in 16 bits
  /// between kernels; nullopt where the policy does not say. Names that
  /// disagree mean f32.
  std::optional<bool> storesNarrow(llvm::ArrayRef<llvm::StringRef> names,
                                   bool isBackward = false) const;

  /// Whether anything is said of a backward pass alone.
  bool speaksOfBackward() const;
  static constexpr llvm::StringLiteral kBackward = "backward:";

  /// Maps a layer path, or a regular expression for whole paths, to the policy
  /// `name`: one of Keras' where this policy types by layers, else a built-in
  /// one. A pattern that is there already is an error.
  llvm::Error addLayerPolicy(llvm::StringRef pattern, llvm::StringRef name,
                             bool autocast = true);

  /// The policy of a layer path: an exact entry of the map, else the one
  /// regular expression that matches the whole path, else this policy. Two
  /// regular expressions that match are an error.
  llvm::Expected<const Policy *> policyOfLayer(llvm::StringRef layer) const;

  /// The class of a kind: the policy's own list, else that of the imitated
  /// system's op, else the default.
  PrecisionClass classOf(llvm::StringRef kind) const;

  /// The list that the imitated system has `systemOp` in; nullopt where it is
  /// in none.
  std::optional<PrecisionClass> classOfSystemOp(llvm::StringRef systemOp) const;
  /// The imitated system's op for a kind of ours, empty where it has none.
  llvm::StringRef systemOpOf(llvm::StringRef kind) const;
  /// The system's lists as data: list name -> ops, for comparison with
  /// recordings.
  const std::map<std::string, std::vector<std::string>> &
  getSystemLists() const {
    return systemLists;
  }
  /// Kind of ours -> the imitated system's op.
  const std::map<std::string, std::string> &getSystemKinds() const {
    return systemKinds;
  }

  /// A hash of all that decides about types: two policies with one digest type
  /// every graph alike. Name and description do not count, nor does the order
  /// of overrides and layers.
  std::string digest() const;

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getDescription() const { return description; }
  PolicyAlgorithm getAlgorithm() const { return algorithm; }
  /// Type that `low` ops compute in.
  PolicyType getCompute() const { return compute; }
  /// Type in which values between kernels are stored.
  PolicyType getStore() const { return store; }
  /// Type of the running sum of `low` contractions, which is their result's
  /// type.
  PolicyType getAccumulate() const { return accumulate; }
  /// Type in which parameters are kept; a narrower one than float32 rounds them
  /// before anything reads them.
  PolicyType getVariable() const { return variable; }
  /// Type to which float outputs and losses are rounded. A function's signature
  /// keeps its types: a narrow output is widened again.
  PolicyType getOutput() const { return output; }
  /// How constants that contractions multiply with are stored, where their
  /// reader has no entry of its own.
  const WeightFormat &getWeights() const { return weights; }
  /// How single ops have their weights stored, by name.
  const std::map<std::string, WeightFormat> &getNamedWeights() const {
    return namedWeights;
  }
  /// Type in which a decoder's caches are kept; none: that which attention
  /// computes in. Never Int16 nor Int4.
  std::optional<WeightType> getCache() const { return cache; }
  /// Type in which ranks that train together send gradients; none: that in
  /// which the policy stores each.
  std::optional<PolicyType> getGradientWire() const { return gradientWire; }
  /// Whether this policy, or that of a layer, stores any weights narrow.
  bool narrowsWeights() const;
  /// Keras: whether a layer casts the values that enter it.
  bool getAutocast() const { return autocast; }
  /// Class of a kind that no list names.
  PrecisionClass getDefaultClass() const { return defaultClass; }
  /// Every kind that a list names, with its class.
  const std::map<std::string, PrecisionClass> &getClasses() const {
    return classes;
  }
  llvm::ArrayRef<PolicyOverride> getOverrides() const { return overrides; }
  llvm::ArrayRef<LayerPolicy> getLayers() const { return layers; }
  /// Adds what samples showed of a name; the larger of two ranges holds.
  void addRange(llvm::StringRef name, MeasuredRange range);
  /// Sets what momentsOf() gives for a name.
  void setMoments(llvm::StringRef name, std::vector<float> squares) {
    moments[name.str()] = std::move(squares);
  }
  void setProduct(llvm::StringRef name, PolicyType type) {
    products[name.str()] = type;
  }
  void setValue(llvm::StringRef name, bool narrow) {
    values[name.str()] = narrow;
  }
  /// Names of ops of class low, and the type that each computes in.
  const std::map<std::string, PolicyType> &getProducts() const {
    return products;
  }
  /// Names of ops, and whether their results are stored in 16 bits.
  const std::map<std::string, bool> &getValues() const { return values; }
  /// What samples showed, by name.
  const std::map<std::string, MeasuredRange> &getRanges() const {
    return ranges;
  }
  /// Hash of the model that names and ranges are of (graphDigest); may be
  /// empty.
  llvm::StringRef getModel() const { return model; }

private:
  friend class PolicyReader;

  /// A built-in policy by name.
  static llvm::Expected<Policy> loadBuiltin(llvm::StringRef name);

  std::string name, description;
  PolicyType compute = PolicyType::Float32, store = PolicyType::Float32,
             accumulate = PolicyType::Float32, variable = PolicyType::Float32,
             output = PolicyType::Float32;
  WeightFormat weights;
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
};

} // namespace mpc

#endif // MPC_POLICY_POLICY_H
