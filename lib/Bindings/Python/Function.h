//===- Function.h - a model as a function of arrays -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Base of JIT-compiled and loaded functions. Needs no compiler.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
#define MPC_LIB_BINDINGS_PYTHON_FUNCTION_H

#include "ArrayConversion.h"
#include "CompileMonitor.h"
#include "GpuArrays.h"

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

/// A callable model: compiled on demand for the shapes of each call, or loaded
/// from a file. Thread-safe; calls only wait for compiles of the same shapes.
class Function {
public:
  virtual ~Function() = default;

  /// Runs on arrays by position or name; returns a result, or a tuple of
  /// several. Results have the framework of the first PyTorch, JAX or CuPy
  /// array, else NumPy. With GPU arrays the results are on the GPU and the run
  /// is asynchronous, on the caller's stream.
  nanobind::object call(const nanobind::args &positional,
                        const nanobind::kwargs &named);
  /// The same, with results that track sharing. Arguments named in `donated`,
  /// which must be unique results of such calls, are overwritten by results
  /// that alias them.
  std::vector<SharedResult> callInPlace(const std::set<std::string> &donated,
                                        const nanobind::args &positional);
  /// Compiles for the types of these arrays without running.
  void prepare(const nanobind::args &positional, const nanobind::kwargs &named);
  /// Returns the times of consecutive runs on these arrays in ms, for `seconds`
  /// and at least three runs.
  std::vector<double> time(double seconds, const nanobind::args &positional,
                           const nanobind::kwargs &named);

  const std::vector<ModelInput> &inputs() const { return declared; }
  /// Names of the results, in order; empty before the first compile.
  virtual std::vector<std::string> outputs();
  /// (path, type of its results) of each layer, after the first compile.
  std::vector<std::pair<std::string, std::string>> layers();
  /// (name, shape) of each argument of the last used program; empty before the
  /// first run.
  std::vector<std::pair<std::string, std::vector<int64_t>>> shapes();
  virtual SpecialisationCounts counts() const { return {}; }

protected:
  /// `gpu` is null for host-memory devices.
  Function(std::shared_ptr<Gpu> gpu, std::shared_ptr<CompileMonitor> watch)
      : watch(std::move(watch)), gpu(std::move(gpu)) {}

  /// Name of the model, for errors.
  virtual std::string name() const = 0;
  /// Returns the executable for such arguments. Called without the GIL.
  virtual Result<Executable> find(const NamedBuffers &arguments) = 0;
  /// True if calls with host arrays are padded to buckets; runs such a call.
  virtual bool pads() const { return false; }
  virtual Result<NamedBuffers> runPadded(const NamedBuffers &) {
    return NamedBuffers();
  }
  /// Returns the names of the results of `program` that a caller gets.
  std::vector<std::string> given(const auto &results,
                                 const auto &arguments) const;

  std::vector<ModelInput> declared;
  std::shared_ptr<CompileMonitor> watch;

private:
  struct Call {
    NamedBuffers arguments;
    Framework framework = Framework::NumPy;
    /// Stream of the run, for GPU arrays.
    std::optional<Stream> stream;
    /// Buffers to keep alive until the run is done.
    std::vector<Buffer> held;
  };
  Call bind(const nanobind::args &positional, const nanobind::kwargs &named);
  void bindArrays(
      Call &call,
      const std::vector<std::pair<std::string, nanobind::object>> &arrays);
  /// The same, given that the first GPU array is of `framework`.
  void bindOnGpu(
      Call &call, Framework framework,
      const std::vector<std::pair<std::string, nanobind::object>> &arrays);
  Result<Executable> executableFor(const NamedBuffers &arguments);
  /// Returns results in the model's order, without the loss-scale state, which
  /// this object stores between calls. Called without the GIL.
  std::vector<Buffer> run(const NamedBuffers &arguments,
                          const std::set<std::string> &donated);
  /// The same on the stream of `call`. Needs the GIL.
  std::vector<GpuResult> enqueue(Call &call,
                                 const std::set<std::string> &donated);
  /// Warns once per output. May be called without the GIL.
  void warnOf(const std::vector<NonFiniteResult> &results);
  SharedResult share(Buffer buffer, bool onGpu) const;

  std::shared_ptr<Gpu> gpu;
  std::mutex lock;
  /// Serializes calls that update the loss-scale state, which on a GPU is
  /// ordered by the GPU's own stream.
  std::mutex stateLock;
  NamedBuffers state;
  /// Guarded by `lock`: the last used program.
  std::optional<Executable> last;
  /// Guarded by `lock`: outputs whose non-finite values were reported.
  std::set<std::string> notFinite;
};

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

/// A function loaded from a compiled file, for a device.
class LoadedFunction : public Function {
public:
  LoadedFunction(const Device &device, std::shared_ptr<Gpu> gpu,
                 const std::string &path);

  std::vector<std::string> outputs() override;
  const std::string &policy() const { return file->policy(); }

protected:
  std::string name() const override { return file->model(); }
  Result<Executable> find(const NamedBuffers &arguments) override;

private:
  Device device;
  std::optional<ExecutableFile> file;
  std::mutex lock;
  /// Guarded by `lock`; executables by shapes.
  std::map<std::string, Executable> loaded;
};

/// Adds the compiler's classes to the extension, or functions that report its
/// absence.
void addCompiler(nanobind::module_ &module);

} // namespace mpc::python

#endif // MPC_LIB_BINDINGS_PYTHON_FUNCTION_H
