//===- RuntimeOnly.cpp - C API: stubs for a library without a compiler ----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPC_RUNTIME_ONLY builds this instead of Models.cpp and Decoders.cpp.
//
//===----------------------------------------------------------------------===//

#include "Handles.h"

using namespace mpc;
using namespace mpc::c;

static mpc_status lacksCompiler() {
  return call([] {
    return Status(StatusCode::Unavailable, "mpc",
                  "needs the compiler, which this libmpc_c was built without; "
                  "compile to an .mpcx file elsewhere and mpc_load() it");
  });
}

Status mpc::c::createEngine(const Device &device, EngineLimits limits,
                            std::optional<Engine> &engine) {
  return {};
}

int32_t mpc_has_compiler(void) { return 0; }
const char *mpc_policy_name(size_t index) { return nullptr; }

void mpc_model_destroy(mpc_model *) {}
void mpc_session_destroy(mpc_session *) {}
void mpc_results_destroy(mpc_results *) {}
void mpc_decoder_destroy(mpc_decoder *) {}
void mpc_sequence_destroy(mpc_sequence *) {}
void mpc_sampler_destroy(mpc_sampler *) {}

mpc_status mpc_model_from_bytes(const mpc_model_bytes *bytes,
                                mpc_model **model) {
  mpc_model_bytes own;
  if (readStruct("mpc_model_bytes", bytes, own).ok() && own.release)
    own.release(own.user);
  if (model)
    *model = nullptr;
  return lacksCompiler();
}

// A function with these parameters that creates `made`.
#define MPC_CREATES(function, ...)                                             \
  mpc_status function(__VA_ARGS__ **made) {                                    \
    if (made)                                                                  \
      *made = nullptr;                                                         \
    return lacksCompiler();                                                    \
  }
// Any other function with these parameters.
#define MPC_FAILS(function, ...)                                               \
  mpc_status function(__VA_ARGS__) { return lacksCompiler(); }

MPC_CREATES(mpc_model_open, const char *, mpc_model)
MPC_CREATES(mpc_best_policy, const char *, const char)
MPC_CREATES(mpc_compile, const mpc_device *, const mpc_model *,
            const mpc_compile_options *, mpc_program)
MPC_CREATES(mpc_session_open, const mpc_device *, const mpc_model *,
            const mpc_compile_options *, mpc_session)
MPC_CREATES(mpc_session_specialize, const mpc_session *, const mpc_tensor *,
            size_t, mpc_program)
MPC_CREATES(mpc_session_run, const mpc_session *, const mpc_tensor *, size_t,
            mpc_results)
MPC_CREATES(mpc_decoder_open, const mpc_device *, const mpc_model *,
            const mpc_decoder_options *, mpc_decoder)
MPC_CREATES(mpc_sequence_create, const mpc_decoder *, mpc_sequence)
MPC_CREATES(mpc_sequence_fork, const mpc_sequence *, int64_t, mpc_sequence)
MPC_CREATES(mpc_sampler_create, const mpc_sampler_options *, mpc_sampler)

MPC_FAILS(mpc_model_input_count, const mpc_model *, size_t *)
MPC_FAILS(mpc_model_input, const mpc_model *, size_t, mpc_value_info *)
MPC_FAILS(mpc_model_end_tokens, const mpc_model *, const int64_t **, size_t *)
MPC_FAILS(mpc_compile_file, const mpc_model *, const char *,
          const char *const *, size_t, const mpc_compile_options *)
MPC_FAILS(mpc_results_count, const mpc_results *, size_t *)
MPC_FAILS(mpc_results_get, const mpc_results *, size_t, mpc_tensor *)
MPC_FAILS(mpc_decoder_describe, const mpc_decoder *, mpc_decoder_info *)
MPC_FAILS(mpc_decoder_step, const mpc_decoder *, mpc_sequence *const *,
          const int64_t *, size_t, float *, size_t)
MPC_FAILS(mpc_sequence_prefill, mpc_sequence *, const int64_t *, size_t,
          float *, size_t)
MPC_FAILS(mpc_sequence_length, const mpc_sequence *, int64_t *)
MPC_FAILS(mpc_sequence_reset, mpc_sequence *)
MPC_FAILS(mpc_sampler_observe, mpc_sampler *, const int64_t *, size_t)
MPC_FAILS(mpc_sampler_next, mpc_sampler *, const float *, size_t, int64_t *)
