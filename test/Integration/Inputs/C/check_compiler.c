//===- check_compiler.c - tests of the C API that compile -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models in memory, errors of compiles, sessions, decoders and policies.
//
//===----------------------------------------------------------------------===//

#include "check.h"

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static void check_model_bytes(mpc_device *device) {
  size_t size;
  void *data = read_file(path_of("mnist-cnn/model.onnx"), &size);
  int released = 0;
  mpc_model_bytes bytes;
  MPC_INIT(bytes);
  bytes.data = data;
  bytes.bytes = size;
  mpc_model *model;
  CHECK_INVALID(mpc_model_from_bytes(&bytes, &model),
                "mpc_model_bytes.name: is NULL");
  CHECK_INVALID(mpc_model_from_bytes(NULL, &model), "is NULL");
  bytes.name = "held.onnx";
  bytes.release = count_release;
  bytes.user = &released;
  CHECK_OK(mpc_model_from_bytes(&bytes, &model));
  mpc_program *borrowed, *copied, *file;
  CHECK_OK(mpc_compile(device, model, NULL, &borrowed));
  CHECK(released == 0);
  mpc_model_destroy(model);
  mpc_program_destroy(borrowed);
  CHECK(released == 1);
  // The caller's memory is released also after a failure.
  bytes.bytes = SIZE_MAX;
  CHECK_INVALID(mpc_model_from_bytes(&bytes, &model), "elements");
  CHECK(released == 2);

  bytes.bytes = size;
  bytes.release = NULL;
  CHECK_OK(mpc_model_from_bytes(&bytes, &model));
  memset(data, 0, size);
  CHECK_OK(mpc_compile(device, model, NULL, &copied));
  mpc_model_destroy(model);
  CHECK_OK(mpc_model_open(path_of("mnist-cnn/model.onnx"), &model));
  CHECK_OK(mpc_compile(device, model, NULL, &file));
  struct batch a = new_batch(), b = new_batch();
  run_mnist(copied, a);
  run_mnist(file, b);
  CHECK(same_results(a, b));
  check_description(file);
  check_run_errors(file, device);
  check_threads(file);
  mpc_program_destroy(copied);
  mpc_program_destroy(file);
  mpc_model_destroy(model);
  free_batch(a);
  free_batch(b);
  free(data);
  printf("models in memory\n");
}

/// Gives external.bin, and fails for other names.
static mpc_status give_external(void *user, const char *name, const void **data,
                                size_t *bytes) {
  if (strcmp(name, "external.bin") != 0)
    return MPC_NOT_FOUND;
  const mpc_buffer *file = user;
  *data = file->data;
  *bytes = file->bytes;
  return MPC_OK;
}

/// Compiles a model with external data and returns its result for zeros.
static void run_external(mpc_device *device, const mpc_model_bytes *bytes,
                         float results[4]) {
  mpc_model *model;
  CHECK_OK(mpc_model_from_bytes(bytes, &model));
  mpc_program *program;
  CHECK_OK(mpc_compile(device, model, NULL, &program));
  float zeros[4] = {0, 0, 0, 0};
  mpc_buffer in = {zeros, sizeof(zeros)}, out = {results, 4 * sizeof(float)};
  CHECK_OK(mpc_run(program, &in, 1, &out, 1, NULL));
  mpc_program_destroy(program);
  mpc_model_destroy(model);
}

static void check_external(mpc_device *device) {
  mpc_buffer file, external;
  file.data = read_file(path_of("onnx/external-data.onnx"), &file.bytes);
  external.data = read_file(path_of("onnx/external.bin"), &external.bytes);
  mpc_model_bytes bytes;
  MPC_INIT(bytes);
  bytes.data = file.data;
  bytes.bytes = file.bytes;
  bytes.name = "held.onnx";
  mpc_model *model;
  mpc_program *program;
  CHECK_OK(mpc_model_from_bytes(&bytes, &model));
  CHECK_INVALID(mpc_compile(device, model, NULL, &program), "external");
  mpc_model_destroy(model);

  float by_folder[4], by_callback[4];
  bytes.external_folder = path_of("onnx");
  run_external(device, &bytes, by_folder);
  bytes.read_external = give_external;
  bytes.user = &external;
  CHECK_INVALID(mpc_model_from_bytes(&bytes, &model), "both");
  bytes.external_folder = NULL;
  run_external(device, &bytes, by_callback);
  CHECK(memcmp(by_folder, by_callback, sizeof(by_folder)) == 0);
  CHECK(by_folder[0] != 0);

  // Names that leave the folder are refused, also where the file exists.
  free(file.data);
  file.data = read_file(path_of("onnx/external-escape.onnx"), &file.bytes);
  bytes.data = file.data;
  bytes.bytes = file.bytes;
  bytes.read_external = NULL;
  bytes.external_folder = path_of("onnx");
  CHECK_OK(mpc_model_from_bytes(&bytes, &model));
  CHECK_INVALID(mpc_compile(device, model, NULL, &program),
                "'../external.bin'");
  mpc_model_destroy(model);
  free(file.data);
  free(external.data);
  printf("external data\n");
}

static int32_t stop(void *user) {
  ++*(int *)user;
  return 1;
}

static void count_stage(void *user, const char *stage) {
  CHECK(*stage);
  ++*(int *)user;
}

static void keep_severity(void *user, const mpc_diagnostic *diagnostic) {
  CHECK(diagnostic->size == sizeof(*diagnostic) && *diagnostic->text &&
        *diagnostic->where && *diagnostic->stage);
  *(int32_t *)user = diagnostic->severity + 1;
}

static void count_unused(void *user, const mpc_diagnostic *diagnostic) {
  CHECK(strcmp(diagnostic->unused_override, "layer:nowhere=float32") == 0);
  ++*(int32_t *)user;
}

static void check_compile_errors(mpc_device *device) {
  mpc_model *model, *chain;
  mpc_program *program;
  CHECK_INVALID(mpc_model_open(NULL, &model), "path: is NULL");
  CHECK_INVALID(mpc_model_open("", &model), "path: is empty");
  CHECK_OK(mpc_model_open("no-such.onnx", &model));
  CHECK_FAILS(mpc_compile(device, model, NULL, &program), MPC_NOT_FOUND,
              "no-such.onnx");
  size_t count;
  CHECK_FAILS(mpc_model_input_count(model, &count), MPC_NOT_FOUND,
              "no-such.onnx");
  mpc_model_destroy(model);
  CHECK_OK(mpc_model_open(path_of("onnx/unknown-op.onnx"), &model));
  int32_t severity = 0;
  mpc_compile_options options;
  MPC_INIT(options);
  options.on_diagnostic = keep_severity;
  options.user = &severity;
  CHECK_INVALID(mpc_compile(device, model, &options, &program), "unknown-op");
  CHECK(severity == MPC_ERROR + 1);
  mpc_model_destroy(model);

  CHECK_OK(mpc_model_open(path_of("mnist-cnn/model.onnx"), &model));
  CHECK_INVALID(mpc_compile(NULL, model, NULL, &program), "device: is NULL");
  CHECK_INVALID(mpc_compile(device, NULL, NULL, &program), "model: is NULL");
  CHECK_INVALID(mpc_compile(device, model, NULL, NULL), "program: is NULL");
  MPC_INIT(options);
  options.policy = "float31";
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "mpc_compile_options.policy: unknown policy 'float31'");
  const mpc_override absent = {"layer:nowhere", "float32"};
  int32_t unused = 0;
  MPC_INIT(options);
  options.overrides = &absent;
  options.override_count = 1;
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "override 'layer:nowhere=float32' matches no op");
  options.flags = MPC_PART_OF_MODEL;
  options.on_diagnostic = count_unused;
  options.user = &unused;
  CHECK_OK(mpc_compile(device, model, &options, &program));
  CHECK(unused == 1);
  mpc_program_destroy(program);
  MPC_INIT(options);
  options.gemm = "bogus";
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "mpc_compile_options.gemm: is 'bogus', but must be own or");
  MPC_INIT(options);
  options.cast_placement = "bogus";
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "mpc_compile_options.cast_placement: is 'bogus'");
  MPC_INIT(options);
  options.target = "cpu:z80";
  CHECK_FAILS(mpc_compile(device, model, &options, &program), MPC_UNAVAILABLE,
              "z80");
  MPC_INIT(options);
  mpc_override override = {"layer:0/fc9", "float32"};
  options.overrides = &override;
  options.override_count = 1;
  CHECK_INVALID(mpc_compile(device, model, &options, &program), "0/fc9");
  override.type = NULL;
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "overrides[].type: is NULL");
  options.overrides = NULL;
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "mpc_compile_options.overrides: is NULL, but has 1 elements");
  MPC_INIT(options);
  options.threads = -2;
  CHECK_INVALID(mpc_compile(device, model, &options, &program), "negative");
  MPC_INIT(options);
  options.flags = 1u << 31;
  CHECK_INVALID(mpc_compile(device, model, &options, &program), "flag");
  MPC_INIT(options);
  options.max_memory = 1000;
  CHECK_FAILS(mpc_compile(device, model, &options, &program),
              MPC_RESOURCE_EXHAUSTED, "model.onnx");
  MPC_INIT(options);
  int calls = 0;
  options.flags = MPC_NO_CACHE;
  options.should_stop = stop;
  options.user = &calls;
  CHECK_FAILS(mpc_compile(device, model, &options, &program), MPC_UNAVAILABLE,
              "stopped by the caller");
  CHECK(calls > 0);
  calls = 0;
  options.should_stop = NULL;
  options.on_stage = count_stage;
  options.threads = 1;
  CHECK_OK(mpc_compile(device, model, &options, &program));
  CHECK(calls > 3);
  mpc_program_destroy(program);
  mpc_model_destroy(model);

  // Messages name the members of this interface.
  CHECK_OK(mpc_model_open(path_of("onnx/shape-chain.onnx"), &chain));
  CHECK_INVALID(mpc_compile(device, chain, NULL, &program),
                "mpc_compile_options.dims = {\"batch\", 1}");
  MPC_INIT(options);
  mpc_dim dim = {NULL, 2};
  options.dims = &dim;
  options.dim_count = 1;
  CHECK_INVALID(mpc_compile(device, chain, &options, &program),
                "mpc_compile_options.dims");
  mpc_model_destroy(chain);
  printf("errors of compiles\n");
}

/// Compiles the MNIST network into `path`.
static void write_file(const char *path) {
  mpc_model *model;
  CHECK_OK(mpc_model_open(path_of("mnist-cnn/model.onnx"), &model));
  const char *targets[] = {"cpu:avx2", "cpu:avx512"};
  CHECK_INVALID(mpc_compile_file(model, NULL, targets, 2, NULL),
                "output: is NULL");
  CHECK_INVALID(mpc_compile_file(model, path, NULL, 2, NULL),
                "targets: is NULL");
  CHECK(mpc_compile_file(model, path, NULL, 0, NULL) != MPC_OK);
  CHECK(mpc_compile_file(model, "/no/such/folder.mpcx", targets, 2, NULL) !=
        MPC_OK);
  CHECK_OK(mpc_compile_file(model, path, targets, 2, NULL));
  mpc_model_destroy(model);
}

//===----------------------------------------------------------------------===//
// Sessions
//===----------------------------------------------------------------------===//

/// Element `i` of y is half of element `i` of x.
static void fill(float *x, size_t count) {
  for (size_t i = 0; i < count; ++i)
    x[i] = (float)i + 1;
}

static int is_half(const float *y, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (y[i] != ((float)i + 1) / 2)
      return 0;
  return 1;
}

static void run_batch(const mpc_session *session, int64_t batch) {
  float x[40 * 12];
  int64_t shape[] = {batch, 3, 4};
  size_t count = (size_t)batch * 12;
  fill(x, count);
  mpc_tensor input = {"x", MPC_F32, 0, shape, 3, {x, count * sizeof(float)}};
  mpc_results *results;
  CHECK_OK(mpc_session_run(session, &input, 1, &results));
  size_t result_count;
  CHECK_OK(mpc_results_count(results, &result_count));
  int seen = 0;
  for (size_t i = 0; i < result_count; ++i) {
    mpc_tensor y;
    CHECK_OK(mpc_results_get(results, i, &y));
    if (strcmp(y.name, "y") != 0)
      continue;
    CHECK(y.element == MPC_F32);
    CHECK(y.buffer.bytes == count * sizeof(float));
    CHECK(is_half(y.buffer.data, count));
    seen = 1;
  }
  CHECK(seen);
  mpc_tensor none;
  CHECK_INVALID(mpc_results_get(results, result_count, &none), "results");
  mpc_results_destroy(results);
}

static void *run_batches(void *session) {
  for (int64_t batch = 1; batch <= 40; batch += 3)
    run_batch(session, batch);
  return NULL;
}

static void check_sessions(mpc_device *device) {
  mpc_model *model;
  CHECK_OK(mpc_model_open(path_of("onnx/shape-chain.onnx"), &model));
  size_t count;
  CHECK_OK(mpc_model_input_count(model, &count));
  CHECK(count == 1);
  mpc_value_info value;
  MPC_INIT(value);
  CHECK_OK(mpc_model_input(model, 0, &value));
  CHECK(strcmp(value.name, "x") == 0 && value.element == MPC_F32);
  CHECK(value.rank == 3 && value.shape[0] == -1 && value.shape[2] == 4);
  CHECK(strcmp(value.symbols[0], "batch") == 0 && *value.symbols[2] == 0);
  CHECK_INVALID(mpc_model_input(model, 1, &value), "there are 1 inputs");

  static const int64_t extents[] = {4, 4, 0, 4};
  mpc_session *session;
  for (size_t i = 0; i < 3; ++i) {
    mpc_extents buckets = {"batch", extents + i, i < 2 ? 2 - i * 2 : 2};
    mpc_compile_options options;
    MPC_INIT(options);
    options.buckets = &buckets;
    options.bucket_count = 1;
    CHECK_INVALID(mpc_session_open(device, model, &options, &session),
                  "of dimension 'batch' are not positive and increasing");
    static const int64_t one[] = {4};
    buckets = (mpc_extents){"batch", one, 1};
    mpc_program *refused;
    CHECK_INVALID(mpc_compile(device, model, &options, &refused),
                  "mpc_compile_options.buckets: are for sessions");
  }

  // One program per batch size, shared by threads; then two for all sizes.
  CHECK_OK(mpc_session_open(device, model, NULL, &session));
  pthread_t threads[2];
  for (size_t i = 0; i < 2; ++i)
    CHECK(pthread_create(&threads[i], NULL, run_batches, session) == 0);
  for (size_t i = 0; i < 2; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);

  float x[24], y[24];
  int64_t shape[] = {2, 3, 4};
  fill(x, 24);
  mpc_tensor input = {"x", MPC_F32, 0, shape, 3, {x, sizeof(x)}};
  mpc_program *program;
  mpc_results *none;
  CHECK_INVALID(mpc_session_run(session, NULL, 0, &none),
                "inputs: lack the model's input 'x'");
  CHECK_INVALID(mpc_session_specialize(session, NULL, 0, &program),
                "inputs: lack the model's input 'x'");
  input.reserved = 1;
  CHECK_INVALID(mpc_session_run(session, &input, 1, &none),
                "inputs 'x': has a member reserved that is not 0");
  input.reserved = 0;
  CHECK_OK(mpc_session_specialize(session, &input, 1, &program));
  mpc_program_info info;
  MPC_INIT(info);
  CHECK_OK(mpc_program_describe(program, &info));
  mpc_buffer *outputs = calloc(info.output_count, sizeof(*outputs));
  CHECK(outputs);
  for (size_t i = 0; i < info.output_count; ++i) {
    CHECK_OK(mpc_program_output(program, i, &value));
    outputs[i].bytes = value.bytes;
    outputs[i].data =
        strcmp(value.name, "y") == 0 ? (void *)y : malloc(value.bytes);
  }
  CHECK_OK(
      mpc_run(program, &input.buffer, 1, outputs, info.output_count, NULL));
  CHECK(is_half(y, 24));
  for (size_t i = 0; i < info.output_count; ++i)
    if (outputs[i].data != y)
      free(outputs[i].data);
  free(outputs);
  mpc_program_destroy(program);

  mpc_results *results;
  input.element = 99;
  CHECK_INVALID(mpc_session_run(session, &input, 1, &results),
                "inputs 'x': has the element type 99");
  input.element = MPC_F32;
  input.name = "wrong";
  CHECK_INVALID(mpc_session_run(session, &input, 1, &results), "wrong");
  input.name = NULL;
  CHECK_INVALID(mpc_session_run(session, &input, 1, &results),
                "inputs[].name: is NULL");
  input.name = "x";
  shape[1] = -3;
  CHECK_INVALID(mpc_session_run(session, &input, 1, &results), "x");
  mpc_tensor twice[] = {input, input};
  shape[1] = 3;
  CHECK_INVALID(mpc_session_run(session, twice, 2, &results), "given twice");
  CHECK(!results);
  CHECK_INVALID(mpc_session_run(session, NULL, 0, &results), "'x'");
  mpc_session_destroy(session);

  int64_t sizes[] = {8, 40};
  mpc_extents bucket = {"batch", sizes, 2};
  mpc_compile_options options;
  MPC_INIT(options);
  options.buckets = &bucket;
  options.bucket_count = 1;
  CHECK_OK(mpc_session_open(device, model, &options, &session));
  run_batches(session);
  mpc_session_destroy(session);
  mpc_model_destroy(model);
  printf("sessions\n");
}

/// TopK with its k as an input: a shape that depends on a value.
static void check_shape_values(mpc_device *device) {
  mpc_model *model;
  mpc_program *program;
  CHECK_OK(mpc_model_open(path_of("onnx/top-k-input.onnx"), &model));
  int64_t k = 2, rank_one = 1;
  mpc_tensor value = {"k", MPC_I64, 0, &rank_one, 1, {&k, sizeof(k)}};
  mpc_compile_options options;
  MPC_INIT(options);
  options.values = &value;
  options.value_count = 1;
  CHECK_OK(mpc_compile(device, model, &options, &program));
  mpc_program_info info;
  MPC_INIT(info);
  CHECK_OK(mpc_program_describe(program, &info));
  CHECK(info.input_count == 1);
  mpc_value_info output;
  MPC_INIT(output);
  CHECK_OK(mpc_program_output(program, 0, &output));
  CHECK(output.shape[output.rank - 1] == 2);
  mpc_program_destroy(program);
  value.buffer.bytes = 4;
  CHECK_INVALID(mpc_compile(device, model, &options, &program),
                "mpc_compile_options.values 'k'");
  mpc_model_destroy(model);
  printf("values that determine shapes\n");
}

/// A program whose result replaces an input.
static void check_alias(mpc_device *device) {
  static const char text[] =
      "func.func @main(%w: tensor<4xf32> {mpc.name = \"w\", mpc.role = "
      "#mpc.role<parameter>}, %x: tensor<4xf32> {mpc.name = \"x\", mpc.role = "
      "#mpc.role<input>}) -> (tensor<4xf32> {mpc.name = \"w\", mpc.role = "
      "#mpc.role<parameter>, mpc.alias = 0 : i64}) {\n"
      "  %0 = mpc.add %w, %x : (tensor<4xf32>, tensor<4xf32>) -> "
      "tensor<4xf32>\n"
      "  return %0 : tensor<4xf32>\n"
      "}\n";
  mpc_model_bytes bytes;
  MPC_INIT(bytes);
  bytes.data = text;
  bytes.bytes = strlen(text);
  bytes.name = "step.mlir";
  mpc_model *model;
  mpc_program *program;
  CHECK_OK(mpc_model_from_bytes(&bytes, &model));
  CHECK_OK(mpc_compile(device, model, NULL, &program));
  mpc_value_info value;
  MPC_INIT(value);
  CHECK_OK(mpc_program_output(program, 0, &value));
  CHECK(value.alias == 0 && strcmp(value.role, "parameter") == 0);
  float w[4] = {1, 2, 3, 4}, x[4] = {1, 1, 1, 1}, other[4];
  mpc_buffer in[2] = {{w, sizeof(w)}, {x, sizeof(x)}}, out = {NULL, 0};
  CHECK_OK(mpc_run(program, in, 2, &out, 1, NULL));
  CHECK(w[0] == 2 && w[3] == 5);
  out = in[0];
  CHECK_OK(mpc_run(program, in, 2, &out, 1, NULL));
  CHECK(w[0] == 3 && w[3] == 6);
  out.data = other;
  CHECK_INVALID(mpc_run(program, in, 2, &out, 1, NULL), "replaces input 'w'");
  in[1].data = w;
  out.data = NULL;
  CHECK_INVALID(mpc_run(program, in, 2, &out, 1, NULL), "shares memory");
  mpc_program_destroy(program);
  mpc_model_destroy(model);
  printf("results that replace inputs\n");
}

//===----------------------------------------------------------------------===//
// Decoders, policies
//===----------------------------------------------------------------------===//

static void check_decoder_errors(mpc_device *device) {
  mpc_model *model;
  mpc_decoder *decoder;
  CHECK_OK(mpc_model_open(path_of("mnist-cnn/model.onnx"), &model));
  CHECK_INVALID(mpc_decoder_open(device, model, NULL, &decoder), "model.onnx");
  CHECK(!decoder);
  mpc_model_destroy(model);

  CHECK_OK(mpc_model_open(path_of("llama"), &model));
  const int64_t *ends;
  size_t end_count;
  CHECK_OK(mpc_model_end_tokens(model, &ends, &end_count));
  CHECK(end_count > 0);
  mpc_decoder_options options;
  MPC_INIT(options);
  options.capacity = -1;
  CHECK_INVALID(mpc_decoder_open(device, model, &options, &decoder), "");
  MPC_INIT(options);
  options.capacity = 8;
  options.chunk = 4;
  CHECK_OK(mpc_decoder_open(device, model, &options, &decoder));
  mpc_model_destroy(model);
  mpc_decoder_info info;
  MPC_INIT(info);
  CHECK_OK(mpc_decoder_describe(decoder, &info));
  CHECK(info.capacity == 8 && info.slots == 1 && info.vocabulary > 1);
  size_t vocabulary = (size_t)info.vocabulary;
  float *logits = malloc(2 * vocabulary * sizeof(float));
  CHECK(logits);

  mpc_sequence *sequence, *fork;
  int64_t tokens[16] = {1, 2, 3}, length;
  CHECK_OK(mpc_sequence_create(decoder, &sequence));
  CHECK_INVALID(mpc_sequence_prefill(sequence, tokens, 0, logits, vocabulary),
                "");
  CHECK_INVALID(mpc_sequence_prefill(sequence, tokens, 9, logits, vocabulary),
                "");
  CHECK_INVALID(
      mpc_sequence_prefill(sequence, tokens, 3, logits, vocabulary - 1),
      "logit_count");
  CHECK_INVALID(mpc_sequence_prefill(sequence, tokens, 3, NULL, vocabulary),
                "logits: is NULL");
  CHECK_INVALID(mpc_sequence_prefill(sequence, NULL, 3, logits, vocabulary),
                "tokens: is NULL");
  tokens[1] = info.vocabulary;
  CHECK_INVALID(mpc_sequence_prefill(sequence, tokens, 3, logits, vocabulary),
                "");
  CHECK_OK(mpc_sequence_length(sequence, &length));
  CHECK(length == 0);
  tokens[1] = 2;
  CHECK_OK(mpc_sequence_prefill(sequence, tokens, 3, logits, vocabulary));
  CHECK_INVALID(mpc_sequence_fork(sequence, 4, &fork), "");
  CHECK_OK(mpc_sequence_fork(sequence, 2, &fork));
  CHECK_OK(mpc_sequence_length(fork, &length));
  CHECK(length == 2);
  mpc_sequence *both[] = {sequence, fork};
  CHECK_INVALID(
      mpc_decoder_step(decoder, both, tokens, 2, logits, 2 * vocabulary), "");
  both[1] = NULL;
  CHECK_INVALID(
      mpc_decoder_step(decoder, both, tokens, 2, logits, 2 * vocabulary),
      "sequences[]: is NULL");
  CHECK_INVALID(mpc_decoder_step(decoder, both, tokens, 1, logits, SIZE_MAX),
                "logit_count");
  // Sequences keep their decoder alive.
  mpc_decoder_destroy(decoder);
  CHECK_OK(mpc_sequence_reset(fork));
  CHECK_OK(mpc_sequence_length(fork, &length));
  CHECK(length == 0);
  mpc_sequence_destroy(fork);
  mpc_sequence_destroy(sequence);

  mpc_sampler *sampler;
  mpc_sampler_options sampling;
  MPC_INIT(sampling);
  sampling.temperature = -1;
  CHECK_INVALID(mpc_sampler_create(&sampling, &sampler), "temperature");
  sampling.temperature = 1;
  sampling.top_k = 2;
  sampling.seed = 3;
  CHECK_OK(mpc_sampler_create(&sampling, &sampler));
  CHECK_OK(mpc_sampler_observe(sampler, tokens, 3));
  float few[] = {1, 5, 4, -2};
  int64_t token;
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(mpc_sampler_next(sampler, few, 4, &token));
    CHECK(token == 1 || token == 2);
  }
  CHECK_INVALID(mpc_sampler_next(sampler, few, 0, &token), "");
  CHECK_INVALID(mpc_sampler_next(sampler, few, 4, NULL), "token: is NULL");
  mpc_sampler_destroy(sampler);
  free(logits);
  printf("decoders\n");
}

static void check_policies(void) {
  size_t count = 0;
  int found = 0;
  for (; mpc_policy_name(count); ++count)
    found |= strcmp(mpc_policy_name(count), "mixed_bfloat16") == 0;
  CHECK(count > 5 && found);
  const char *policy;
  CHECK_OK(mpc_best_policy("cpu:avx2", &policy));
  CHECK(strcmp(policy, "float32") == 0);
  CHECK_OK(mpc_best_policy(NULL, &policy));
  CHECK_FAILS(mpc_best_policy("cpu:z80", &policy), MPC_UNAVAILABLE, "z80");
  CHECK(!policy);
  CHECK_INVALID(mpc_best_policy(NULL, NULL), "policy: is NULL");
}

void check_compiler(mpc_device *device, const char *file) {
  check_policies();
  check_compile_errors(device);
  check_model_bytes(device);
  check_external(device);
  check_sessions(device);
  check_shape_values(device);
  check_alias(device);
  check_decoder_errors(device);
  write_file(file);
}
