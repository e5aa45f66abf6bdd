//===- Function.h - a model as a function of arrays -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What functions of a compiler and of files have in common. Needs no compiler.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
#define MPC_LIB_BINDINGS_PYTHON_FUNCTION_H

#include "Arrays.h"
#include "GpuArrays.h"
#include "Watch.h"

#include "mpc/JIT/Model.h"
#include "mpc/JIT/Signature.h"
#include "mpc/Runtime/Executable.h"
#include "mpc/Runtime/ExecutableFile.h"
#include "mpc/Runtime/Finiteness.h"

#include <nanobind/nanobind.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mpc::python {

/// What is called: a model that compiles for the shapes that it gets, or a
/// loaded file. Several threads may call it at once, which wait for each other
/// in nothing but compiles of the same shapes.
class Function {
public:
  virtual ~Function() = default;

  /// Runs on arrays by position or name; a result, or a tuple of several. They
  /// are of the framework of the first array that is PyTorch's, JAX's or
  /// CuPy's, else NumPy's. Where arrays lie on the GPU, so do the results; the
  /// run is enqueued on the caller's stream and nothing waits for it.
  nanobind::object call(const nanobind::args &positional,
                        const nanobind::kwargs &named);
  /// The same with results that know who shares them. Arguments of the names in
  /// `donated` are written where a result takes their place: results of such a
  /// call that are unique.
  std::vector<SharedResult> callInPlace(const std::set<std::string> &donated,
                                        const nanobind::args &positional);
  /// Makes ready for the types of these arrays and runs nothing.
  void prepare(const nanobind::args &positional, const nanobind::kwargs &named);
  /// Milliseconds of runs on these arrays, one behind the other, for `seconds`
  /// and at least three runs.
  std::vector<double> time(double seconds, const nanobind::args &positional,
                           const nanobind::kwargs &named);

  const std::vector<ModelInput> &inputs() const { return declared; }
  /// Names of the results, in order; empty before the first compile.
  virtual std::vector<std::string> outputs();
  /// (path, type of its results) of each layer, behind the first compile.
  std::vector<std::pair<std::string, std::string>> layers();
  /// (name, shape) of each argument of the program that was used last; before
  /// the first run, none.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes();
  virtual SpecialisationCounts counts() const { return {}; }

protected:
  /// `gpu` is null where the device works in host memory.
  Function(std::shared_ptr<Gpu> gpu, std::shared_ptr<CompileWatch> watch)
      : watch(std::move(watch)), gpu(std::move(gpu)) {}

  /// The model's name, for errors.
  virtual std::string name() const = 0;
  /// The executable for such arguments. Without the interpreter's lock.
  virtual Result<Executable> find(const NamedBuffers &arguments) = 0;
  /// Whether calls with arrays in host memory are padded to certain sizes, and
  /// such a call.
  virtual bool pads() const { return false; }
  virtual Result<NamedBuffers> runPadded(const NamedBuffers &) {
    return NamedBuffers();
  }
  /// Names among the results of `program` that a caller gets.
  std::vector<std::string> given(const auto &results,
                                 const auto &arguments) const;

  std::vector<ModelInput> declared;
  std::shared_ptr<CompileWatch> watch;

private:
  struct Call {
    NamedBuffers arguments;
    Framework framework = Framework::NumPy;
    /// Where the arrays lie on the GPU, the stream of the run.
    std::optional<Stream> stream;
    /// What must live until the run is done.
    std::vector<Buffer> held;
  };
  Call bind(const nanobind::args &positional, const nanobind::kwargs &named);
  void bindArrays(
      Call &call,
      const std::vector<std::pair<std::string, nanobind::object>> &arrays);
  /// The same where the first array on the GPU is of `framework`.
  void bindOnGpu(
      Call &call, Framework framework,
      const std::vector<std::pair<std::string, nanobind::object>> &arrays);
  Result<Executable> executableFor(const NamedBuffers &arguments);
  /// Results in the model's order, without the loss scale's state, which stays
  /// here from call to call. Without the interpreter's lock.
  std::vector<Buffer> run(const NamedBuffers &arguments,
                          const std::set<std::string> &donated);
  /// The same on the stream of `call`. With the interpreter's lock.
  std::vector<GpuResult> enqueue(Call &call,
                                 const std::set<std::string> &donated);
  /// Warns once of each output. Without the interpreter's lock as well.
  void warnOf(const std::vector<NonFiniteResult> &results);
  SharedResult share(Buffer buffer, bool onGpu) const;

  std::shared_ptr<Gpu> gpu;
  std::mutex lock;
  /// One call at a time goes on from the loss scale that the last one left,
  /// which on a GPU lies behind the GPU's own stream.
  std::mutex stateLock;
  NamedBuffers state;
  /// Guarded by `lock`: the program that was used last.
  std::optional<Executable> last;
  /// Guarded by `lock`: outputs of which was said that they are not finite.
  std::set<std::string> notFinite;
};

/// Whether a value is no argument of the caller's: the state of a loss scale
/// that joined the model's step.
bool beginsByItself(const auto &value) {
  return value.initial && value.role == "loss_scale_state";
}

std::vector<std::string> Function::given(const auto &results,
                                         const auto &arguments) const {
  std::vector<std::string> names;
  for (const auto &value : results) {
    bool isGiven = value.alias < 0;
    for (const ModelInput &input : declared)
      isGiven |= !isGiven && input.name == arguments[size_t(value.alias)].name;
    if (isGiven)
      names.push_back(value.name);
  }
  return names;
}

/// A compiled file for a device.
class LoadedFunction : public Function {
public:
  LoadedFunction(const Device &device, std::shared_ptr<Gpu> gpu,
                 const std::string &path);

  std::vector<std::string> outputs() override;

protected:
  std::string name() const override { return file->model(); }
  Result<Executable> find(const NamedBuffers &arguments) override;

private:
  Device device;
  std::optional<ExecutableFile> file;
  std::mutex lock;
  /// Guarded by `lock`, by shapes.
  std::map<std::string, Executable> loaded;
};

/// Adds what compiles to the extension; without a compiler, what says so.
void addCompiler(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
