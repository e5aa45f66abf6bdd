//===- FakeNvrtc.h - a compiler that compiles nothing -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_CUDA_FAKENVRTC_H
#define MPC_TEST_UNIT_RUNTIME_CUDA_FAKENVRTC_H

#include "CUDA/Nvrtc.h"

#include <atomic>
#include <cstring>

namespace mpc::detail {

/// A table of functions whose machine code is the text itself. The text
/// selects the failure: "error(log)" fails the compilation, "spills(k)" makes
/// kernel k spill where it has to share a multiprocessor, "empty" gives no
/// code, "refused" no program.
struct FakeNvrtc {
  struct State {
    std::atomic<int> created{0}, destroyed{0}, compiled{0};
    int major = 13, minor = 0;
    std::vector<int> architectures = {75, 80, 90};
    int versionError = 0, architecturesError = 0;
  };
  /// One per process; tests reset it.
  static State &state() {
    static State state;
    return state;
  }
  static void reset() {
    State &now = state();
    now.created = now.destroyed = now.compiled = 0;
    now.major = 13;
    now.minor = 0;
    now.architectures = {75, 80, 90};
    now.versionError = now.architecturesError = 0;
  }

  struct Program {
    std::string text, log;
    std::vector<std::string> options;
  };

  static Nvrtc table() {
    Nvrtc nvrtc;
    nvrtc.version = [](int *major, int *minor) {
      *major = state().major;
      *minor = state().minor;
      return state().versionError;
    };
    nvrtc.supportedCount = [](int *count) {
      *count = int(state().architectures.size());
      return state().architecturesError;
    };
    nvrtc.supported = [](int *architectures) {
      for (int architecture : state().architectures)
        *architectures++ = architecture;
      return 0;
    };
    nvrtc.create = [](void **program, const char *text, const char *, int,
                      const char *const *, const char *const *) {
      if (std::strstr(text, "refused"))
        return 1;
      ++state().created;
      *program = new Program{text, "", {}};
      return 0;
    };
    nvrtc.compile = [](void *opaque, int count, const char *const *options) {
      auto *program = static_cast<Program *>(opaque);
      ++state().compiled;
      program->options.assign(options, options + count);
      program->log = "log of " + std::to_string(program->text.size());
      if (size_t at = program->text.find("spills("); at != std::string::npos) {
        std::string name =
            program->text.substr(at + 7, program->text.find(')', at) - at - 7);
        bool alone = program->text.find("MPC_RESIDENT , 1\n#line 1 \"" + name +
                                        ".cu") != std::string::npos;
        program->log += "\nptxas info    : Function properties for " + name +
                        "\n    8 bytes stack frame, " + (alone ? "0" : "4") +
                        " bytes spill stores, 4 bytes spill loads\n";
      }
      const char *error = std::strstr(program->text.c_str(), "error(");
      if (!error)
        return 0;
      program->log.assign(error + 6, std::strchr(error, ')'));
      return 6;
    };
    nvrtc.logSize = [](void *program, size_t *bytes) {
      *bytes = static_cast<Program *>(program)->log.size() + 1;
      return 0;
    };
    nvrtc.log = [](void *program, char *text) {
      std::strcpy(text, static_cast<Program *>(program)->log.c_str());
      return 0;
    };
    nvrtc.cubinSize = [](void *program, size_t *bytes) {
      const std::string &text = static_cast<Program *>(program)->text;
      *bytes = text.find("empty") == std::string::npos ? text.size() : 0;
      return 0;
    };
    nvrtc.cubin = [](void *program, char *bytes) {
      const std::string &text = static_cast<Program *>(program)->text;
      std::memcpy(bytes, text.data(), text.size());
      return 0;
    };
    nvrtc.destroy = [](void **program) {
      ++state().destroyed;
      delete static_cast<Program *>(*program);
      *program = nullptr;
      return 0;
    };
    nvrtc.errorText = [](int error) {
      return error == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER";
    };
    return nvrtc;
  }

  /// The table after identify().
  static Nvrtc ready() {
    Nvrtc nvrtc = table();
    if (!identify(nvrtc, "fake").ok())
      std::abort();
    return nvrtc;
  }
};

} // namespace mpc::detail

#endif // MPC_TEST_UNIT_RUNTIME_CUDA_FAKENVRTC_H
