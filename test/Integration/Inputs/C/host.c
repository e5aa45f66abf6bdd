//===- host.c - a C program that runs a model -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a model, or loads a compiled file, runs it once and prints its
// outputs. Reads the first input from a file of raw elements and writes the
// first output to another, if they are given.
// usage: host MODEL|FILE.mpcx POLICY [INPUT OUTPUT]
//
//===----------------------------------------------------------------------===//

#include <mpc/C/mpc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Ends the program with the error of the last call, if it failed.
static void check(mpc_status status) {
  if (status == MPC_OK)
    return;
  fprintf(stderr, "host: %s\n", mpc_error_text());
  for (size_t i = 0; mpc_error_note(i); ++i)
    fprintf(stderr, "  %s\n", mpc_error_note(i));
  exit(1);
}

static void print_warning(void *user, const mpc_diagnostic *diagnostic) {
  (void)user;
  if (diagnostic->severity == MPC_WARNING)
    fprintf(stderr, "%s: %s\n", diagnostic->where, diagnostic->text);
}

static mpc_program *compile_or_load(const mpc_device *device, const char *path,
                                    const char *policy) {
  mpc_program *program;
  const char *extension = strrchr(path, '.');
  if (extension && strcmp(extension, ".mpcx") == 0) {
    mpc_load_options options = {.size = sizeof(options)};
    options.trusted = 1; // the file's machine code runs in this process
    check(mpc_load(device, path, &options, &program));
    return program;
  }

  mpc_model *model;
  check(mpc_model_open(path, &model));
  mpc_compile_options options = {.size = sizeof(options)};
  options.policy = policy;
  options.on_diagnostic = print_warning;
  check(mpc_compile(device, model, &options, &program));
  mpc_model_destroy(model);
  return program;
}

/// Allocates zeros for a value.
static mpc_buffer allocate(const mpc_value_info *value) {
  mpc_buffer buffer = {calloc(value->bytes + 1, 1), value->bytes};
  if (!buffer.data)
    exit(1);
  return buffer;
}

static void transfer(const char *path, const char *mode, mpc_buffer buffer) {
  FILE *file = fopen(path, mode);
  size_t done = 0;
  if (file && *mode == 'r')
    done = fread(buffer.data, 1, buffer.bytes, file);
  else if (file)
    done = fwrite(buffer.data, 1, buffer.bytes, file);
  if (!file || done != buffer.bytes || fclose(file) != 0) {
    fprintf(stderr, "host: %s: cannot be read or written\n", path);
    exit(1);
  }
}

static void print_output(const mpc_value_info *value, mpc_buffer buffer) {
  printf("%s %s[", value->name, mpc_element_name(value->element));
  for (size_t i = 0; i < value->rank; ++i)
    printf(i ? ",%lld" : "%lld", (long long)value->shape[i]);
  printf("]");
  if (value->element == MPC_F32) {
    double sum = 0;
    for (size_t i = 0; i < buffer.bytes / sizeof(float); ++i)
      sum += ((const float *)buffer.data)[i];
    printf(" sum %.3f", sum);
  }
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc != 3 && argc != 5)
    return 2;
  mpc_device_options options = {.size = sizeof(options)};
  options.threads = 2;
  mpc_device *device;
  check(mpc_device_create(&options, &device));
  mpc_program *program = compile_or_load(device, argv[1], argv[2]);

  mpc_program_info info = {.size = sizeof(info)};
  check(mpc_program_describe(program, &info));
  mpc_buffer *inputs = calloc(info.input_count + 1, sizeof(*inputs));
  mpc_buffer *outputs = calloc(info.output_count + 1, sizeof(*outputs));
  if (!inputs || !outputs)
    return 1;
  mpc_value_info value = {.size = sizeof(value)};
  for (size_t i = 0; i < info.input_count; ++i) {
    check(mpc_program_input(program, i, &value));
    inputs[i] = allocate(&value);
  }
  for (size_t i = 0; i < info.output_count; ++i) {
    check(mpc_program_output(program, i, &value));
    outputs[i] = allocate(&value);
  }
  if (argc == 5)
    transfer(argv[3], "rb", inputs[0]);

  check(mpc_run(program, inputs, info.input_count, outputs, info.output_count,
                NULL));
  if (argc == 5)
    transfer(argv[4], "wb", outputs[0]);
  for (size_t i = 0; i < info.output_count; ++i) {
    check(mpc_program_output(program, i, &value));
    print_output(&value, outputs[i]);
    free(outputs[i].data);
  }
  for (size_t i = 0; i < info.input_count; ++i)
    free(inputs[i].data);
  free(inputs);
  free(outputs);
  mpc_program_destroy(program);
  mpc_device_destroy(device);
  return 0;
}
