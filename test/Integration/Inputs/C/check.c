//===- check.c - tests of the C API ---------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Versions of structs, devices, compiled files, runs and threads; with a
// compiler also check_compiler.c. Prints a line per part and stops at the first
// failure.
// usage: check TEST-INPUTS FILE.mpcx
//   FILE.mpcx is test/Inputs/mnist-cnn, compiled; the compiler writes it.
//
//===----------------------------------------------------------------------===//

#include "check.h"

const char *inputs;

const char *path_of(const char *name) {
  static char paths[2][4096];
  static int next;
  next = !next;
  snprintf(paths[next], sizeof(paths[next]), "%s/%s", inputs, name);
  return paths[next];
}

void *read_file(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  fseek(file, 0, SEEK_END);
  *bytes = (size_t)ftell(file);
  rewind(file);
  void *data = malloc(*bytes);
  CHECK(data && fread(data, 1, *bytes, file) == *bytes);
  fclose(file);
  return data;
}

mpc_device *device_of(const char *name, int32_t threads) {
  mpc_device_options options;
  MPC_INIT(options);
  options.name = name;
  options.threads = threads;
  mpc_device *device = NULL;
  CHECK_OK(mpc_device_create(&options, &device));
  CHECK(device);
  return device;
}

void count_release(void *user) { ++*(int *)user; }

//===----------------------------------------------------------------------===//
// Versions, devices
//===----------------------------------------------------------------------===//

static void check_names(void) {
  CHECK(mpc_version() == MPC_HEADER_VERSION);
  CHECK(strcmp(mpc_status_name(MPC_OK), "ok") == 0);
  CHECK(strcmp(mpc_status_name(MPC_INTERNAL), "internal") == 0);
  CHECK(strcmp(mpc_status_name(-1), "unknown") == 0);
  CHECK(strcmp(mpc_status_name(6), "unknown") == 0);
  CHECK(strcmp(mpc_element_name(MPC_I1), "i1") == 0);
  CHECK(strcmp(mpc_element_name(MPC_F32), "f32") == 0);
  CHECK(strcmp(mpc_element_name(MPC_F8E5M2), "f8E5M2") == 0);
  CHECK(!mpc_element_name(0) && !mpc_element_name(MPC_F8E5M2 + 1));
}

/// An option struct of a later version, with members that this library lacks.
struct newer_options {
  mpc_device_options known;
  int64_t later[4];
};

/// One of an earlier version.
struct older_options {
  size_t size;
  const char *name;
};

static void check_versions(void) {
  mpc_device *device;
  struct newer_options newer;
  memset(&newer, 0, sizeof(newer));
  newer.known.size = sizeof(newer);
  CHECK_OK(mpc_device_create(&newer.known, &device));
  mpc_device_destroy(device);
  newer.later[3] = 1;
  CHECK_INVALID(
      mpc_device_create(&newer.known, &device),
      "mpc_device_options: sets a member that this version of libmpc_c "
      "lacks");
  CHECK(!device);

  // An older caller: its memory ends after `name`, the rest is not read.
  struct older_options *older = malloc(sizeof(*older));
  CHECK(older);
  older->size = sizeof(*older);
  older->name = "null";
  CHECK_OK(mpc_device_create((const void *)older, &device));
  mpc_device_destroy(device);
  free(older);

  // Sizes that no version has.
  static const size_t wrong[] = {0, 4, 9, 8192, SIZE_MAX};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
    mpc_device_options options;
    MPC_INIT(options);
    options.size = wrong[i];
    CHECK_INVALID(mpc_device_create(&options, &device),
                  "set it to sizeof(mpc_device_options)");
  }
}

static void check_devices(void) {
  mpc_device *device = (mpc_device *)1;
  mpc_device_options options;
  MPC_INIT(options);
  static const char *const names[] = {
      "gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1x"};
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); ++i) {
    options.name = names[i];
    CHECK_INVALID(mpc_device_create(&options, &device), "devices are");
    CHECK(!device);
  }
  MPC_INIT(options);
  options.threads = -1;
  CHECK_INVALID(mpc_device_create(&options, &device), "threads: is -1");
  MPC_INIT(options);
  options.flags = 8;
  CHECK_INVALID(mpc_device_create(&options, &device), "flag");
  MPC_INIT(options);
  options.max_specializations = -1;
  CHECK_INVALID(mpc_device_create(&options, &device), "negative");
  CHECK_INVALID(mpc_device_create(NULL, NULL), "device: is NULL");
  CHECK_OK(mpc_device_create(NULL, &device));
  mpc_device_destroy(device);
  mpc_device_destroy(NULL);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

struct batch new_batch(void) {
  struct batch batch = {malloc(sizeof(float) * BATCH * PIXELS),
                        calloc(BATCH * CLASSES, sizeof(float))};
  CHECK(batch.image && batch.probabilities);
  for (size_t i = 0; i < BATCH * PIXELS; ++i)
    batch.image[i] = (float)(i * 37 % 101) / 101;
  return batch;
}

void free_batch(struct batch batch) {
  free(batch.image);
  free(batch.probabilities);
}

void run_mnist(const mpc_program *program, struct batch batch) {
  mpc_buffer in = {batch.image, sizeof(float) * BATCH * PIXELS};
  mpc_buffer out = {batch.probabilities, sizeof(float) * BATCH * CLASSES};
  CHECK_OK(mpc_run(program, &in, 1, &out, 1, NULL));
  for (size_t i = 0; i < BATCH; ++i) {
    float sum = 0;
    for (size_t k = 0; k < CLASSES; ++k)
      sum += batch.probabilities[i * CLASSES + k];
    CHECK(sum > 0.999f && sum < 1.001f);
  }
}

int same_results(struct batch a, struct batch b) {
  return memcmp(a.probabilities, b.probabilities,
                sizeof(float) * BATCH * CLASSES) == 0;
}

void check_description(const mpc_program *program) {
  mpc_program_info info;
  MPC_INIT(info);
  CHECK_OK(mpc_program_describe(program, &info));
  CHECK(info.input_count == 1 && info.output_count == 1);
  CHECK(info.launch_count > 0 && info.constant_bytes > 0 && info.flops > 0);
  CHECK(info.needed_bytes > info.constant_bytes + info.arena_bytes);
  CHECK(strncmp(info.target, "cpu:", 4) == 0);

  mpc_value_info value;
  MPC_INIT(value);
  CHECK_OK(mpc_program_input(program, 0, &value));
  CHECK(strcmp(value.name, "image") == 0 && value.element == MPC_F32);
  CHECK(value.rank == 4 && value.shape[0] == BATCH && value.shape[1] == 1 &&
        value.shape[2] == 28 && value.shape[3] == 28);
  CHECK(value.bytes == sizeof(float) * BATCH * PIXELS && value.alias == -1);
  CHECK(!value.symbols && !value.initial && !value.is_optional);
  CHECK_OK(mpc_program_output(program, 0, &value));
  CHECK(strcmp(value.name, "probabilities") == 0 && value.rank == 2);
  CHECK_INVALID(mpc_program_input(program, 1, &value), "there are 1 inputs");
  CHECK_INVALID(mpc_program_output(program, SIZE_MAX, &value), "1 outputs");
  CHECK_INVALID(mpc_program_input(program, 0, NULL), "is NULL");

  // Structs of an older and of a newer caller.
  struct {
    size_t size;
    const char *name;
    int64_t after;
  } older = {2 * sizeof(size_t), NULL, 77};
  CHECK_OK(mpc_program_input(program, 0, (mpc_value_info *)(void *)&older));
  CHECK(strcmp(older.name, "image") == 0 && older.after == 77);
  CHECK(older.size == 2 * sizeof(size_t));
  struct {
    mpc_value_info known;
    int64_t later;
  } newer;
  newer.known.size = sizeof(newer);
  newer.later = 5;
  CHECK_OK(mpc_program_input(program, 0, &newer.known));
  CHECK(newer.later == 0 && newer.known.size == sizeof(newer));

  CHECK(info.layer_count > 0);
  mpc_layer_info layer;
  MPC_INIT(layer);
  int found = 0;
  for (size_t i = 0; i < info.layer_count; ++i) {
    CHECK_OK(mpc_program_layer(program, i, &layer));
    if (strcmp(layer.path, "0/fc1") == 0) {
      CHECK(strcmp(layer.compute, "f32") == 0 &&
            strcmp(layer.storage, "f32") == 0 &&
            strcmp(layer.variable, "f32") == 0);
      found = 1;
    }
  }
  CHECK(found);
  CHECK_INVALID(mpc_program_layer(program, info.layer_count, &layer), "layers");
}

void check_run_errors(const mpc_program *program, mpc_device *device) {
  struct batch batch = new_batch();
  mpc_buffer in = {batch.image, sizeof(float) * BATCH * PIXELS};
  mpc_buffer out = {batch.probabilities, sizeof(float) * BATCH * CLASSES};
  CHECK_INVALID(mpc_run(NULL, &in, 1, &out, 1, NULL), "program: is NULL");
  CHECK_INVALID(
      mpc_run((const mpc_program *)(const void *)device, &in, 1, &out, 1, NULL),
      "program: is another object or was destroyed");
  CHECK_INVALID(mpc_run(program, &in, 0, &out, 1, NULL),
                "inputs: the program has 1, but 0 were given");
  CHECK_INVALID(mpc_run(program, NULL, 1, &out, 1, NULL), "inputs: is NULL");
  CHECK_INVALID(mpc_run(program, &in, SIZE_MAX, &out, 1, NULL), "elements");
  CHECK_INVALID(mpc_run(program, &in, 1, NULL, 0, NULL),
                "outputs: the program has 1, but 0 were given");
  mpc_buffer wrong = in;
  wrong.bytes -= 4;
  CHECK_INVALID(mpc_run(program, &wrong, 1, &out, 1, NULL),
                "input 'image': f32[32,1,28,28] takes 100352 bytes, but 100348 "
                "were given");
  wrong.bytes = in.bytes;
  wrong.data = NULL;
  CHECK_INVALID(mpc_run(program, &wrong, 1, &out, 1, NULL),
                "input 'image': is NULL");
  wrong.data = (char *)in.data + 1;
  CHECK_INVALID(mpc_run(program, &wrong, 1, &out, 1, NULL), "not aligned");
  wrong = out;
  wrong.data = batch.image + 100;
  CHECK_INVALID(mpc_run(program, &in, 1, &wrong, 1, NULL),
                "output 'probabilities': overlaps input 'image' in memory");
  wrong.data = NULL;
  CHECK_INVALID(mpc_run(program, &in, 1, &wrong, 1, NULL),
                "output 'probabilities': is NULL");

  mpc_run_options options;
  MPC_INIT(options);
  size_t indices[1] = {7}, count = 7;
  options.non_finite_capacity = 1;
  CHECK_INVALID(mpc_run(program, &in, 1, &out, 1, &options), "has a capacity");
  options.non_finite = indices;
  options.non_finite_count = &count;
  CHECK_OK(mpc_run(program, &in, 1, &out, 1, &options));
  CHECK(count == 0 && indices[0] == 7);
  batch.image[0] = 1e38f;
  batch.image[1] = 1e38f * 10 / 0.1f;
  CHECK_OK(mpc_run(program, &in, 1, &out, 1, &options));
  CHECK(count == 1 && indices[0] == 0);
  free_batch(batch);
}

struct work {
  const mpc_program *program;
  struct batch expected;
};

static void *run_often(void *argument) {
  const struct work *work = argument;
  struct batch batch = new_batch();
  for (int i = 0; i < 5; ++i) {
    run_mnist(work->program, batch);
    CHECK(same_results(batch, work->expected));
    // Errors are the thread's own.
    CHECK(mpc_run(work->program, NULL, 0, NULL, 0, NULL) != MPC_OK);
    CHECK(strstr(mpc_error_text(), "the program has 1"));
  }
  free_batch(batch);
  return NULL;
}

void check_threads(const mpc_program *program) {
  struct work work = {program, new_batch()};
  run_mnist(program, work.expected);
  pthread_t threads[4];
  for (size_t i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, run_often, &work) == 0);
  for (size_t i = 0; i < 4; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  free_batch(work.expected);
}

//===----------------------------------------------------------------------===//
// Compiled files
//===----------------------------------------------------------------------===//

static void check_file(const char *path) {
  mpc_device *cpu = device_of("cpu", 1), *none = device_of("null", 0);
  mpc_program *program;
  mpc_load_options options;
  MPC_INIT(options);
  CHECK_FAILS(mpc_load(cpu, "no-such.mpcx", &options, &program), MPC_NOT_FOUND,
              "no-such.mpcx");
  CHECK(!program);
  CHECK_INVALID(mpc_load(cpu, path, NULL, &program), "trust");
  CHECK(!strstr(mpc_error_text(), "::"));
  CHECK(strstr(mpc_error_note(0), "mpc_load_options.trusted"));
  options.reserved = 1;
  CHECK_INVALID(mpc_load(none, path, &options, &program),
                "mpc_load_options.reserved: is 1, but must be 0");
  MPC_INIT(options);
  CHECK_INVALID(mpc_load(NULL, path, NULL, &program), "device: is NULL");
  CHECK_INVALID(mpc_load(cpu, NULL, NULL, &program), "path: is NULL");
  CHECK_INVALID(mpc_load(cpu, path, NULL, NULL), "program: is NULL");

  // Untrusted files can be inspected: their code is not run.
  CHECK_OK(mpc_load(none, path, NULL, &program));
  check_description(program);
  mpc_program_info info;
  MPC_INIT(info);
  CHECK_OK(mpc_program_describe(program, &info));
  CHECK(strcmp(info.policy, "float32") == 0 &&
        strncmp(info.compiler, "mpc ", 4) == 0);
  mpc_program_destroy(program);

  options.trusted = 1;
  int64_t shape[] = {BATCH, 1, 28, 28};
  mpc_extents shapes = {"image", shape, 4};
  options.shapes = &shapes;
  options.shape_count = 1;
  mpc_program *other;
  size_t bytes;
  void *data = read_file(path, &bytes);
  CHECK_OK(mpc_load(cpu, path, &options, &program));
  CHECK_OK(mpc_load_bytes(cpu, "held.mpcx", data, bytes, &options, &other));
  mpc_device_destroy(cpu);
  struct batch a = new_batch(), b = new_batch();
  run_mnist(program, a);
  run_mnist(other, b);
  CHECK(same_results(a, b));
  check_run_errors(program, none);
  check_threads(program);
  mpc_program_destroy(program);
  mpc_program_destroy(other);

  shape[0] = 7;
  CHECK_INVALID(
      mpc_load_bytes(none, "held.mpcx", data, bytes, &options, &other),
      "[32,1,28,28]");
  shapes.name = NULL;
  CHECK_INVALID(
      mpc_load_bytes(none, "held.mpcx", data, bytes, &options, &other),
      "mpc_load_options.shapes[0].name: is NULL");
  options.shape_count = 0;
  options.isa = "avx9";
  CHECK(mpc_load_bytes(none, "held.mpcx", data, bytes, &options, &other) !=
            MPC_OK &&
        strstr(mpc_error_text(), "avx9"));
  options.isa = NULL;
  options.max_memory = 1000;
  CHECK_FAILS(mpc_load_bytes(none, "held.mpcx", data, bytes, &options, &other),
              MPC_RESOURCE_EXHAUSTED, "held.mpcx");
  options.max_memory = -1;
  CHECK_INVALID(
      mpc_load_bytes(none, "held.mpcx", data, bytes, &options, &other),
      "max_memory");
  CHECK_INVALID(mpc_load_bytes(none, "held.mpcx", data, 100, NULL, &other),
                "held.mpcx");
  CHECK_INVALID(mpc_load_bytes(none, NULL, NULL, 0, NULL, &other), "memory");
  ((char *)data)[bytes / 2] ^= 1;
  CHECK_INVALID(mpc_load_bytes(none, "held.mpcx", data, bytes, NULL, &other),
                "held.mpcx");
  free(data);
  free_batch(a);
  free_batch(b);
  mpc_device_destroy(none);
  printf("compiled files\n");
}

/// Without a compiler every entry that needs one says so.
static void check_no_compiler(mpc_device *device) {
  static const char text[] = "needs the compiler";
  mpc_model *model = (mpc_model *)1;
  CHECK_FAILS(mpc_model_open("model.onnx", &model), MPC_UNAVAILABLE, text);
  CHECK(!model);
  int released = 0;
  mpc_model_bytes bytes;
  MPC_INIT(bytes);
  bytes.release = count_release;
  bytes.user = &released;
  CHECK_FAILS(mpc_model_from_bytes(&bytes, &model), MPC_UNAVAILABLE, text);
  CHECK(released == 1);
  mpc_program *program;
  CHECK_FAILS(mpc_compile(device, NULL, NULL, &program), MPC_UNAVAILABLE, text);
  mpc_session *session;
  CHECK_FAILS(mpc_session_open(device, NULL, NULL, &session), MPC_UNAVAILABLE,
              text);
  mpc_decoder *decoder;
  CHECK_FAILS(mpc_decoder_open(device, NULL, NULL, &decoder), MPC_UNAVAILABLE,
              text);
  mpc_sampler *sampler;
  CHECK_FAILS(mpc_sampler_create(NULL, &sampler), MPC_UNAVAILABLE, text);
  const char *policy;
  CHECK_FAILS(mpc_best_policy(NULL, &policy), MPC_UNAVAILABLE, text);
  CHECK(!mpc_policy_name(0));
  printf("no compiler\n");
}

int main(int argc, char **argv) {
  if (argc != 3)
    return 2;
  inputs = argv[1];
  check_names();
  check_versions();
  check_devices();
  printf("versions and devices\n");
  mpc_device *device = device_of("cpu", 2);
  if (mpc_has_compiler()) {
    check_compiler(device, argv[2]);
  } else {
    check_no_compiler(device);
  }
  check_file(argv[2]);
  mpc_device_destroy(device);
  printf("passed\n");
  return 0;
}
