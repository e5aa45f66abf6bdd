//===- check.h - shared by the tests of the C API -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef CHECK_H
#define CHECK_H

#include <mpc/C/mpc.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "check.c:%d: not true: %s\n  last error: %s\n",          \
              __LINE__, #condition, mpc_error_text());                         \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

#define CHECK_OK(call)                                                         \
  do {                                                                         \
    CHECK((call) == MPC_OK);                                                   \
    CHECK(*mpc_error_text() == 0 && !mpc_error_note(0));                       \
  } while (0)

/// The call fails with this status, and the error has this text.
#define CHECK_FAILS(call, status, text)                                        \
  do {                                                                         \
    CHECK((call) == (status));                                                 \
    CHECK(strstr(mpc_error_text(), text));                                     \
  } while (0)
#define CHECK_INVALID(call, text) CHECK_FAILS(call, MPC_INVALID_ARGUMENT, text)

extern const char *inputs;

/// Joins the folder of inputs and a name. Static; two at a time.
const char *path_of(const char *name);
void *read_file(const char *path, size_t *bytes);
mpc_device *device_of(const char *name, int32_t threads);
/// Counts calls in an int.
void count_release(void *user);

enum { BATCH = 32, PIXELS = 28 * 28, CLASSES = 10 };

/// Memory of one run of the MNIST network.
struct batch {
  float *image, *probabilities;
};

struct batch new_batch(void);
void free_batch(struct batch batch);
void run_mnist(const mpc_program *program, struct batch batch);
int same_results(struct batch a, struct batch b);

/// Tests of a loaded or compiled MNIST network.
void check_description(const mpc_program *program);
void check_run_errors(const mpc_program *program, mpc_device *device);
void check_threads(const mpc_program *program);

/// All tests that need the compiler. Writes the MNIST network to `file`.
void check_compiler(mpc_device *device, const char *file);

#endif // CHECK_H
