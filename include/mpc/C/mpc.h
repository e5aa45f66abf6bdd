//===- mpc.h - the C API ------------------------------------------*- C -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compile models and run them from C99 or any language with a C interface: one
// header, one library (libmpc_c). The ABI that mpc promises
// (docs/HowTo/Embedding.md).
//
// Objects are opaque handles. A function that creates one sets it to NULL on
// failure; the caller destroys it. Objects keep alive what they use, so they
// may be destroyed in any order. All functions are thread-safe on different
// objects; on one object where the object's comment says so.
//
// Every function that can fail returns a status. NULL handles, wrong counts,
// sizes and types are MPC_INVALID_ARGUMENT. No C++ exception leaves a function,
// and callbacks must not throw any. Strings are UTF-8 and end in a zero byte;
// arguments are copied unless their comment says otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_C_MPC_H
#define MPC_C_MPC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define MPC_API __attribute__((visibility("default")))
#else
#define MPC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Versions and versioned structs
//===----------------------------------------------------------------------===//

/// Packs a version into one integer.
#define MPC_MAKE_VERSION(major, minor, patch)                                  \
  ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(patch))

/// Version of this header.
#define MPC_HEADER_VERSION MPC_MAKE_VERSION(0, 2, 0)

/// Returns the version of the loaded library.
MPC_API uint32_t mpc_version(void);

/// Returns 1 if the library contains the compiler, 0 if it only loads and runs
/// compiled files (MPC_RUNTIME_ONLY). Without it, functions that need a
/// compiler return MPC_UNAVAILABLE.
MPC_API int32_t mpc_has_compiler(void);

/// Structs whose first member is `size` grow at their end in later versions.
/// The caller sets all members to 0, and `size` to the struct's size, before
/// setting or passing it. 0 or NULL is the default of every member. The library
/// takes the members that the caller's header lacks as 0, and refuses members
/// that it does not know unless they are 0; results that it does not know are
/// 0. Other structs never change. Initializes `object`, in C also done by
/// `= {.size = sizeof(object)}`.
#define MPC_INIT(object)                                                       \
  ((void)memset(&(object), 0, sizeof(object)),                                 \
   (void)((object).size = sizeof(object)))

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Category of a failure, by who can fix it.
typedef int32_t mpc_status;
enum {
  MPC_OK = 0,
  /// The model, the data, the policy or an argument of the call is invalid.
  MPC_INVALID_ARGUMENT = 1,
  /// A file or name does not exist, or a file cannot be read or written.
  MPC_NOT_FOUND = 2,
  /// This machine or build lacks a requirement, or a callback cancelled.
  MPC_UNAVAILABLE = 3,
  /// Out of memory.
  MPC_RESOURCE_EXHAUSTED = 4,
  /// A bug in mpc.
  MPC_INTERNAL = 5
};

/// Returns the status's name, "invalid_argument"; "unknown" for other numbers.
/// Static.
MPC_API const char *mpc_status_name(mpc_status status);

/// Returns "WHERE: sentence" for the last call on this thread that returned a
/// status; empty if it returned MPC_OK. Valid until the thread's next such
/// call.
MPC_API const char *mpc_error_text(void);

/// Returns the note with index `index` of that failure (context, or other
/// errors of the same call); NULL if there are fewer. Valid as long as the
/// text.
MPC_API const char *mpc_error_note(size_t index);

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Element type. MPC_I1 takes one byte, 0 or 1.
typedef int32_t mpc_element;
enum {
  MPC_I1 = 1,
  MPC_I8 = 2,
  MPC_I16 = 3,
  MPC_I32 = 4,
  MPC_I64 = 5,
  MPC_UI8 = 6,
  MPC_UI16 = 7,
  MPC_UI32 = 8,
  MPC_UI64 = 9,
  MPC_F16 = 10,
  MPC_BF16 = 11,
  MPC_F32 = 12,
  MPC_F64 = 13,
  MPC_F8E4M3FN = 14,
  MPC_F8E5M2 = 15
};

/// Returns the type's name, "f32"; NULL for other numbers. Static.
MPC_API const char *mpc_element_name(mpc_element element);

/// Memory of one tensor, contiguous and row-major, aligned to one element.
typedef struct mpc_buffer {
  void *data;
  /// Size in bytes.
  size_t bytes;
} mpc_buffer;

/// A named tensor in host memory.
typedef struct mpc_tensor {
  const char *name;
  mpc_element element;
  int32_t reserved;
  /// `rank` extents.
  const int64_t *shape;
  size_t rank;
  mpc_buffer buffer;
} mpc_tensor;

/// Extent of a symbolic dimension.
typedef struct mpc_dim {
  const char *name;
  int64_t extent;
} mpc_dim;

/// `count` extents of what is called `name`.
typedef struct mpc_extents {
  const char *name;
  const int64_t *extents;
  size_t count;
} mpc_extents;

/// An input or output of a model or program. The strings and arrays belong to
/// the object that described it and live as long.
typedef struct mpc_value_info {
  size_t size;
  const char *name;
  /// 0 if a model declares a type that no buffer has.
  mpc_element element;
  /// 1 if a call may leave the model's input out.
  int32_t is_optional;
  /// `rank` extents; -1 for a dynamic one of a model. The rank is 0 for scalars
  /// and for inputs without a declared rank.
  const int64_t *shape;
  size_t rank;
  /// Names of a model's symbolic dimensions, `rank` strings, empty for fixed or
  /// unnamed ones; NULL for programs.
  const char *const *symbols;
  /// Size in bytes; 0 for a model, whose shapes may be dynamic.
  size_t bytes;
  /// "input", "label", "parameter", "optimizer_state", ..., "output", "loss";
  /// empty if unknown.
  const char *role;
  /// For an output that updates an input's buffer in place: index of the input;
  /// else -1.
  int64_t alias;
  /// Exclusive upper bound of the integers of an input with indices; 0 if
  /// unknown.
  int64_t integer_bound;
  /// Initial value of a program's input, `bytes` bytes; NULL if it has none.
  const void *initial;
} mpc_value_info;

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// A device, and the cache of specializations of its sessions. Thread-safe.
typedef struct mpc_device mpc_device;

typedef struct mpc_device_options {
  size_t size;
  /// "cpu", "cuda", "cuda:1" for the second GPU, or "null", which loads every
  /// program and computes zeros, for tests and to inspect untrusted files.
  /// NULL: "cpu".
  const char *name;
  /// Maximum threads of one run on a CPU, including the caller's, or of a
  /// kernel compile for a GPU; 0: all cores available to the process.
  int32_t threads;
  /// MPC_CHECK_LAUNCHES or 0.
  uint32_t flags;
  /// Limits of the cache: number of specializations (0: 64), and their bytes of
  /// constants and intermediates (0: 4 GiB).
  int64_t max_specializations, max_specialization_bytes;
} mpc_device_options;

/// Synchronize with a GPU after every launch, so that a failing kernel is
/// named. Slow.
#define MPC_CHECK_LAUNCHES 1u

/// Creates a device; `options` may be NULL. MPC_UNAVAILABLE, with the reason,
/// if this machine lacks the device or, with a compiler, AVX2, FMA or F16C.
MPC_API mpc_status mpc_device_create(const mpc_device_options *options,
                                     mpc_device **device);
/// NULL has no effect; also for all other objects.
MPC_API void mpc_device_destroy(mpc_device *device);

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// A model before compilation. Thread-safe.
typedef struct mpc_model mpc_model;

/// Opens the file at `path` (.onnx, or .mlir with StableHLO or the mpc dialect;
/// .gguf) or a folder with a Hugging Face model. External data is read from the
/// file's folder. The file is read when it is compiled or inspected.
MPC_API mpc_status mpc_model_open(const char *path, mpc_model **model);

/// A model in memory.
typedef struct mpc_model_bytes {
  size_t size;
  const void *data;
  /// Size of the data, in bytes.
  size_t bytes;
  /// Name in messages, whose extension is the format: "net.onnx" or "net.mlir".
  const char *name;
  /// Folder of external data files, whose names are untrusted: refuses names
  /// and links that leave it. NULL: a model with external data is refused,
  /// unless `read_external` is set.
  const char *external_folder;
  /// Instead of a folder: returns the contents of external data `name`, which
  /// must stay unchanged until `release` is called; status other than MPC_OK if
  /// there are none. Called once per name, by one thread at a time.
  mpc_status (*read_external)(void *user, const char *name, const void **data,
                              size_t *bytes);
  /// NULL: `data` is copied. Else `data` and external data are not copied, must
  /// stay unchanged, and this is called once, on any thread, when neither the
  /// model nor anything compiled from it needs them; also if
  /// mpc_model_from_bytes() fails, unless `size` is invalid.
  void (*release)(void *user);
  /// First argument of both callbacks.
  void *user;
} mpc_model_bytes;

/// Creates a model from memory.
MPC_API mpc_status mpc_model_from_bytes(const mpc_model_bytes *bytes,
                                        mpc_model **model);

/// Sets `count` to the number of inputs that the model declares. Parses the
/// model at the first call and fails as its compilation would.
MPC_API mpc_status mpc_model_input_count(const mpc_model *model, size_t *count);
/// Describes input `index` in the model's order.
MPC_API mpc_status mpc_model_input(const mpc_model *model, size_t index,
                                   mpc_value_info *info);
/// Sets `tokens` to the `count` tokens that end a text, as the model's folder
/// lists them; may be none. The array belongs to the model.
MPC_API mpc_status mpc_model_end_tokens(const mpc_model *model,
                                        const int64_t **tokens, size_t *count);
MPC_API void mpc_model_destroy(mpc_model *model);

/// Returns the name of the built-in policy with index `index`, sorted; NULL if
/// there are fewer or the library has no compiler. Static.
MPC_API const char *mpc_policy_name(size_t index);

/// Sets `policy` to the fastest built-in policy for `target`
/// (mpc_compile_options.target, may be NULL) that needs no loss scaling.
/// Static.
MPC_API mpc_status mpc_best_policy(const char *target, const char **policy);

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// An override of a policy: {"layer:encoder/.*", "float32"}.
typedef struct mpc_override {
  const char *selector, *type;
} mpc_override;

/// Extents of dimensions for one specialization of a file.
typedef struct mpc_specialization {
  const mpc_dim *dims;
  size_t dim_count;
} mpc_specialization;

/// A diagnostic about the model, the policy or the compile. Valid during the
/// callback; `size` is the library's.
typedef struct mpc_diagnostic {
  size_t size;
  int32_t severity;
  int32_t reserved;
  /// Stage that reported it: "import", "precision", ..., or "codegen".
  const char *stage;
  /// Location: file and node, or file, line and column.
  const char *where;
  /// Name of the op; empty if the location is not an op.
  const char *op;
  /// One sentence.
  const char *text;
  const char *const *notes;
  size_t note_count;
  /// For a warning about an override that is an error without
  /// MPC_PART_OF_MODEL: the override, "SELECTOR=TYPE"; else empty.
  const char *unused_override;
} mpc_diagnostic;

/// mpc_diagnostic.severity
enum { MPC_ERROR = 0, MPC_WARNING = 1, MPC_REMARK = 2 };

/// Flags of a compile: casts that a kernel undoes may be dropped; the on-disk
/// cache of compiled code is not used; the cache identifies files above 64 MiB
/// by their bytes, not by inode, size and times; the model is a part of the one
/// that the overrides are for, so that one that matches no op is a warning.
#define MPC_RELAXED_ROUNDING 1u
#define MPC_NO_CACHE 2u
#define MPC_VERIFY_FILES 4u
#define MPC_PART_OF_MODEL 8u

/// Options of a compile. Callbacks run on the compiling thread, `should_stop`
/// also on its helper threads.
typedef struct mpc_compile_options {
  size_t size;
  /// Name of a built-in policy, or a path that ends in ".json"; NULL:
  /// "float32".
  const char *policy;
  /// Overrides of the policy, in order.
  const mpc_override *overrides;
  size_t override_count;
  /// Extents of symbolic dimensions.
  const mpc_dim *dims;
  size_t dim_count;
  /// Complete shapes of inputs.
  const mpc_extents *shapes;
  size_t shape_count;
  /// Values of inputs. An input that determines shapes (a shape, axes, a number
  /// of elements to take) becomes a constant and is no longer an input of the
  /// program; other values are ignored. Not copied.
  const mpc_tensor *values;
  size_t value_count;
  /// For sessions: ascending extents of symbolic dimensions to which calls are
  /// zero-padded. Refused if a row of a result depends on other rows.
  const mpc_extents *buckets;
  size_t bucket_count;
  /// For mpc_compile_file(): further extents, one set per specialization, each
  /// combined with `dims`.
  const mpc_specialization *specializations;
  size_t specialization_count;
  /// Extent of the batch dimension; 0: as the model declares it.
  int64_t batch;
  /// "cpu:avx512" or another level, or "cuda:sm_90a"; NULL: this machine's
  /// best. Ignored for a GPU and by mpc_compile_file().
  const char *target;
  /// GEMMs on a GPU: "own" kernels (also NULL) or the "library".
  const char *gemm;
  /// Schedule table of `mpc tune-kernels`; NULL: the cost model.
  const char *schedules;
  /// Algorithm that assigns types to values without a rule: "mincut" (also
  /// NULL) or "propagate".
  const char *cast_placement;
  /// Loss scale of a model that is a complete training step; NULL: "dynamic"
  /// for policies that compute in f16, else "none".
  const char *step_loss_scale;
  /// Folder that receives the IR after every stage; NULL: none.
  const char *dump_folder;
  /// Memory limit of the program in bytes; 0: this machine's memory.
  int64_t max_memory;
  /// Compile threads; 0: all cores.
  int32_t threads;
  /// Any of the flags above.
  uint32_t flags;
  void (*on_diagnostic)(void *user, const mpc_diagnostic *diagnostic);
  /// Called with the name of each stage when it starts.
  void (*on_stage)(void *user, const char *stage);
  /// Polled every few tens of milliseconds: not 0 cancels the compile, which
  /// returns MPC_UNAVAILABLE.
  int32_t (*should_stop)(void *user);
  /// First argument of the callbacks.
  void *user;
} mpc_compile_options;

/// A compiled program on a device. Thread-safe: runs may be concurrent, each
/// with its own intermediate memory, which the library pools.
typedef struct mpc_program mpc_program;

/// Compiles `model` for one set of shapes; `options` may be NULL. Takes tens of
/// milliseconds to seconds. On failure the text is the first error and the
/// notes are the others.
MPC_API mpc_status mpc_compile(const mpc_device *device, const mpc_model *model,
                               const mpc_compile_options *options,
                               mpc_program **program);

/// Compiles `model` for each of `targets` ("cpu:avx2", "cpu:avx512",
/// "cpu:native", "cuda:sm_90a") into the file `output` (.mpcx), for mpc_load()
/// on machines without a compiler. Equal inputs give equal bytes; the file is
/// replaced atomically.
MPC_API mpc_status mpc_compile_file(const mpc_model *model, const char *output,
                                    const char *const *targets,
                                    size_t target_count,
                                    const mpc_compile_options *options);

typedef struct mpc_load_options {
  size_t size;
  /// 1 to let the file's machine code run in this process. Reading any bytes is
  /// safe; running them is not. Needed for devices other than "null".
  int32_t trusted;
  int32_t reserved;
  /// Instruction-set level to load ("avx2"); NULL: the best of this CPU.
  const char *isa;
  /// Memory limit of the program in bytes; 0: this machine's memory.
  int64_t max_memory;
  /// Shapes of inputs that select one of a file's specializations; none: the
  /// first.
  const mpc_extents *shapes;
  size_t shape_count;
} mpc_load_options;

/// Loads a compiled file.
MPC_API mpc_status mpc_load(const mpc_device *device, const char *path,
                            const mpc_load_options *options,
                            mpc_program **program);
/// The same from memory, which is copied; `name` is used in messages.
MPC_API mpc_status mpc_load_bytes(const mpc_device *device, const char *name,
                                  const void *data, size_t bytes,
                                  const mpc_load_options *options,
                                  mpc_program **program);

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Facts about a program. The strings belong to it.
typedef struct mpc_program_info {
  size_t size;
  /// Name of the model.
  const char *name;
  /// "cpu:avx512".
  const char *target;
  /// For a loaded file: its policy and the versions that compiled it; else
  /// empty.
  const char *policy, *compiler;
  size_t input_count, output_count;
  /// Layers whose types mpc_program_layer() returns.
  size_t layer_count;
  size_t launch_count;
  /// Constants, intermediate memory of one run, and both with inputs and
  /// outputs, in bytes.
  int64_t constant_bytes, arena_bytes, needed_bytes;
  /// Floating-point operations of one run's contractions.
  int64_t flops;
} mpc_program_info;

MPC_API mpc_status mpc_program_describe(const mpc_program *program,
                                        mpc_program_info *info);
/// Describes the input or output with index `index`, as mpc_run() takes them.
MPC_API mpc_status mpc_program_input(const mpc_program *program, size_t index,
                                     mpc_value_info *info);
MPC_API mpc_status mpc_program_output(const mpc_program *program, size_t index,
                                      mpc_value_info *info);

/// Types of a layer, by name ("bf16"); empty if it has none. The strings belong
/// to the program.
typedef struct mpc_layer_info {
  size_t size;
  /// "encoder/block_0/attention", as in overrides; empty for ops outside of any
  /// layer.
  const char *path;
  const char *policy;
  /// Types of the layer's ops with most work, of its results in memory, and of
  /// its first variable.
  const char *compute, *storage, *variable;
} mpc_layer_info;

MPC_API mpc_status mpc_program_layer(const mpc_program *program, size_t index,
                                     mpc_layer_info *info);

typedef struct mpc_run_options {
  size_t size;
  /// If set, receives the indices of outputs in which a kernel stored
  /// infinities or NaNs, ascending, at most `non_finite_capacity`; on a GPU all
  /// checked outputs are listed. `non_finite_count` receives their number,
  /// which may exceed the capacity.
  size_t *non_finite;
  size_t non_finite_capacity;
  size_t *non_finite_count;
} mpc_run_options;

/// Runs the program on the caller's host memory: reads `inputs` and writes
/// `outputs`, in the order of mpc_program_input() and mpc_program_output().
/// Blocks until done; `options` may be NULL. Buffers must have the size of the
/// value and the alignment of one element, and outputs must overlap neither
/// each other nor inputs. An output that replaces an input is that input's
/// buffer or {NULL, 0}. After the first run allocates only a few words per
/// buffer. MPC_INVALID_ARGUMENT, after the run, if an op with bounds that the
/// model's framework checks read an index out of range.
MPC_API mpc_status mpc_run(const mpc_program *program, const mpc_buffer *inputs,
                           size_t input_count, const mpc_buffer *outputs,
                           size_t output_count, const mpc_run_options *options);
MPC_API void mpc_program_destroy(mpc_program *program);

//===----------------------------------------------------------------------===//
// Sessions: models whose shapes vary
//===----------------------------------------------------------------------===//

/// A model that is compiled for the shapes of each call, once per set of
/// shapes. Thread-safe; concurrent calls with equal shapes share one compile.
typedef struct mpc_session mpc_session;

/// Opens a session; compiles nothing yet. Later compiles call the callbacks of
/// `options`, so that they and `user` must outlive the session.
MPC_API mpc_status mpc_session_open(const mpc_device *device,
                                    const mpc_model *model,
                                    const mpc_compile_options *options,
                                    mpc_session **session);

/// Returns the program for the types of `inputs`, compiling it or taking it
/// from the device's cache, for mpc_run(). Inputs that determine shapes, whose
/// values are compiled in, are no inputs of the program. Ignores buckets.
MPC_API mpc_status mpc_session_specialize(const mpc_session *session,
                                          const mpc_tensor *inputs,
                                          size_t input_count,
                                          mpc_program **program);

/// Results of a run; immutable.
typedef struct mpc_results mpc_results;

/// Runs on `inputs`, compiling first if the shapes are new, and returns new
/// results in host memory. Pads to buckets.
MPC_API mpc_status mpc_session_run(const mpc_session *session,
                                   const mpc_tensor *inputs, size_t input_count,
                                   mpc_results **results);
MPC_API void mpc_session_destroy(mpc_session *session);

/// Sets `count` to the number of results.
MPC_API mpc_status mpc_results_count(const mpc_results *results, size_t *count);
/// Sets `tensor` to the result with index `index`, sorted by name. Its memory
/// belongs to the results, or is the input's if it replaces one.
MPC_API mpc_status mpc_results_get(const mpc_results *results, size_t index,
                                   mpc_tensor *tensor);
MPC_API void mpc_results_destroy(mpc_results *results);

//===----------------------------------------------------------------------===//
// Decoders
//===----------------------------------------------------------------------===//

/// An autoregressive decoder with KV caches: holds the weights once and serves
/// any number of sequences. Thread-safe.
typedef struct mpc_decoder mpc_decoder;
/// One sequence and its KV cache. Not thread-safe; different sequences of one
/// decoder may run concurrently.
typedef struct mpc_sequence mpc_sequence;

typedef struct mpc_decoder_options {
  size_t size;
  /// NULL: defaults. The decoder sets `shapes`.
  const mpc_compile_options *compile;
  /// Rows of a sequence's KV cache; 0: 512.
  int64_t capacity;
  /// Tokens per run of a prompt (chunked prefill); 0: 64.
  int64_t chunk;
  /// Maximum batch of mpc_decoder_step(), in sequences; 0: 1.
  int64_t slots;
  /// 1: new rows replace the oldest ones of a full cache, for models with
  /// sliding-window attention.
  int32_t endless;
  int32_t reserved;
} mpc_decoder_options;

typedef struct mpc_decoder_info {
  size_t size;
  /// Logits per token.
  int64_t vocabulary;
  int64_t capacity;
  int64_t slots;
  /// Maximum length of a sequence by the model's position embeddings; 0:
  /// unlimited.
  int64_t positions;
} mpc_decoder_info;

/// Compiles a decoder. The model has the inputs and outputs that Optimum
/// exports ("input_ids", "attention_mask", "past...", "logits"), or is a
/// folder or GGUF file of a language model.
MPC_API mpc_status mpc_decoder_open(const mpc_device *device,
                                    const mpc_model *model,
                                    const mpc_decoder_options *options,
                                    mpc_decoder **decoder);
MPC_API mpc_status mpc_decoder_describe(const mpc_decoder *decoder,
                                        mpc_decoder_info *info);

/// Decode step of a batch: appends `tokens[i]` to `sequences[i]` and writes the
/// next token's logits of each to `logits`, which has `logit_count` = `count` *
/// vocabulary elements. Appends nothing on failure. Bits do not depend on the
/// batch.
MPC_API mpc_status mpc_decoder_step(const mpc_decoder *decoder,
                                    mpc_sequence *const *sequences,
                                    const int64_t *tokens, size_t count,
                                    float *logits, size_t logit_count);
MPC_API void mpc_decoder_destroy(mpc_decoder *decoder);

/// Creates an empty sequence.
MPC_API mpc_status mpc_sequence_create(const mpc_decoder *decoder,
                                       mpc_sequence **sequence);
/// Prefill: appends `tokens` and writes the logits after the last one to
/// `logits`, which has `logit_count` = vocabulary elements. Appends nothing on
/// failure.
MPC_API mpc_status mpc_sequence_prefill(mpc_sequence *sequence,
                                        const int64_t *tokens, size_t count,
                                        float *logits, size_t logit_count);
/// Sets `length` to the number of tokens so far.
MPC_API mpc_status mpc_sequence_length(const mpc_sequence *sequence,
                                       int64_t *length);
/// Creates a sequence with the first `length` tokens; copies their rows of the
/// cache.
MPC_API mpc_status mpc_sequence_fork(const mpc_sequence *sequence,
                                     int64_t length, mpc_sequence **fork);
/// Makes the sequence empty.
MPC_API mpc_status mpc_sequence_reset(mpc_sequence *sequence);
MPC_API void mpc_sequence_destroy(mpc_sequence *sequence);

/// Samples tokens. Equal seeds and logits give equal tokens on every machine.
/// Not thread-safe.
typedef struct mpc_sampler mpc_sampler;

typedef struct mpc_sampler_options {
  size_t size;
  /// Divisor of the logits; 0: greedy decoding.
  double temperature;
  /// Number of most likely tokens to sample from; 0: all.
  int64_t top_k;
  /// Samples from the fewest most likely tokens with this probability together;
  /// 0: all.
  double top_p;
  /// Samples only from tokens with this share of the largest probability; 0:
  /// all.
  double min_p;
  /// Divides positive and multiplies negative logits of tokens in the text; 0:
  /// none.
  double repetition_penalty;
  uint64_t seed;
} mpc_sampler_options;

MPC_API mpc_status mpc_sampler_create(const mpc_sampler_options *options,
                                      mpc_sampler **sampler);
/// Adds `tokens` of the prompt to the text, for the repetition penalty.
MPC_API mpc_status mpc_sampler_observe(mpc_sampler *sampler,
                                       const int64_t *tokens, size_t count);
/// Sets `token` to the next token, an index of `logits`, and adds it to the
/// text. MPC_INVALID_ARGUMENT if a logit is NaN.
MPC_API mpc_status mpc_sampler_next(mpc_sampler *sampler, const float *logits,
                                    size_t logit_count, int64_t *token);
MPC_API void mpc_sampler_destroy(mpc_sampler *sampler);

#ifdef __cplusplus
}
#endif

#endif // MPC_C_MPC_H
