//===- Function.h - a model as a function of arrays -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
#define MPC_LIB_BINDINGS_PYTHON_FUNCTION_H

#include "Arrays.h"
#include "Watch.h"

#include "mpc/JIT/Engine.h"
#include "mpc/JIT/Signature.h"
#include "mpc/Runtime/ExecutableFile.h"

#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace mpc::python {

/// What is called: a model that compiles for the shapes that it gets, or a
/// loaded file. Several threads may call it at once, which wait for each other
/// in nothing but compiles of the same shapes.
class Function {
public:
  /// A model of `engine`. Reads the model's inputs.
  Function(const Engine &engine, const ModelSource &source,
           CompileOptions options);
  /// A compiled file for `device`.
  Function(const Device &device, const std::string &path);

  /// Runs on arrays by position or name; a result, or a tuple of several. They
  /// are of the framework of the first array that is PyTorch's or JAX's, else
  /// NumPy's.
  nanobind::object call(const nanobind::args &positional,
                        const nanobind::kwargs &named);
  /// The same with results that know who shares them. Arguments of the names in
  /// `donated` are written where a result takes their place: results of such a
  /// call that are unique.
  std::vector<SharedResult> callInPlace(const std::set<std::string> &donated,
                                        const nanobind::args &positional);
  /// Compiles for the types of these arrays and runs nothing.
  void prepare(const nanobind::args &positional, const nanobind::kwargs &named);
  /// Milliseconds of runs on these arrays, one behind the other, for `seconds`
  /// and at least three runs.
  std::vector<double> time(double seconds, const nanobind::args &positional,
                           const nanobind::kwargs &named);
  /// Writes the model, compiled for `targets` and each of `sets` of extents.
  void save(const std::string &path, const std::vector<std::string> &targets,
            const std::vector<std::map<std::string, int64_t>> &sets);

  const std::vector<ModelInput> &inputs() const { return declared; }
  /// Names of the results, in order; empty before the first compile.
  std::vector<std::string> outputs();
  /// (path, type of its results) of each layer, behind the first compile.
  std::vector<std::pair<std::string, std::string>> layers();
  /// (name, shape) of each argument of the program that was used last; of a
  /// file, or before the first compile, none.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes();
  SpecialisationCounts counts() const;

private:
  struct Call {
    NamedBuffers arguments;
    Framework framework = Framework::NumPy;
  };
  Call bind(const nanobind::args &positional, const nanobind::kwargs &named);
  /// Results in the model's order, without the loss scale's state, which stays
  /// here from call to call. Without the interpreter's lock.
  std::vector<Buffer> run(const NamedBuffers &arguments,
                          const std::set<std::string> &donated);
  /// The executable for such arguments. Without the interpreter's lock.
  Result<Executable> executableFor(const NamedBuffers &arguments);
  void remember(const Executable &executable);

  std::vector<ModelInput> declared;
  CompileOptions options;
  std::shared_ptr<CompileWatch> watch = CompileWatch::over(options);
  /// One of both.
  std::optional<Model> model;
  std::optional<ExecutableFile> file;
  std::optional<Device> device;
  std::mutex lock;
  /// One call at a time goes on from the loss scale that the last one left.
  std::mutex stateLock;
  NamedBuffers state;
  /// Guarded by `lock`: the program that was used last, and those of a file.
  std::optional<Executable> last;
  std::map<std::string, Executable> loaded;
};

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
