//===- HostApi.h - calls into ONNX Runtime ----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTAPI_H
#define MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTAPI_H

#include "OrtAbi.h"

#include "mpc/Runtime/Status.h"
#include "mpc/Runtime/TensorType.h"

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace mpc::ort {

/// A tensor value of ONNX Runtime.
struct HostTensor {
  /// TensorProto.DataType
  int dataType = 0;
  /// Extents, valid as long as the value.
  std::span<const int64_t> shape;
  void *data = nullptr;
  size_t bytes = 0;
};

/// The function tables of the ONNX Runtime that loaded the plugin. Immutable,
/// thread-safe.
class HostApi {
public:
  /// Sets the tables; fails, naming both versions, if ONNX Runtime is older
  /// than kApiVersion.
  Status load(const OrtApiBase &base);

  template <typename F> F *operator()(TableEntry<F> entry) const {
    return function(table, entry);
  }
  template <typename F> F *ep(TableEntry<F> entry) const {
    return function(epTable, entry);
  }
  template <typename F> F *editor(TableEntry<F> entry) const {
    return function(editorTable, entry);
  }

  /// Converts and releases a status of ONNX Runtime.
  Status take(OrtStatus *status) const;
  /// Converts a status for ONNX Runtime, which owns the result; null on
  /// success.
  OrtStatus *give(const Status &status) const;

  /// Writes `text` to a session's log.
  void log(const OrtLogger *logger, OrtLoggingLevel level,
           const std::string &text) const;

  /// Returns the type, shape and bytes of a tensor.
  Result<HostTensor> tensor(const OrtValue *value) const;

  /// "1.32.0"
  const std::string &version() const { return versionText; }

private:
  template <typename F>
  static F *function(const AnyFunction *table, TableEntry<F> entry) {
    return reinterpret_cast<F *>(table[entry.index]);
  }

  const AnyFunction *table = nullptr, *epTable = nullptr,
                    *editorTable = nullptr;
  std::string versionText;
};

/// Calls getters of ONNX Runtime and collects their first failure, after which
/// results are empty.
class HostReader {
public:
  explicit HostReader(const HostApi &api) : api(api) {}

  const Status &status() const { return failure; }
  bool ok() const { return failure.ok(); }
  void check(OrtStatus *status) {
    Status taken = api.take(status);
    if (failure.ok())
      failure = std::move(taken);
  }

  template <typename Object, typename T>
  T get(GetEntry<Object, T> entry, const Object *object) {
    T value{};
    check(api(entry)(object, &value));
    return ok() ? value : T{};
  }
  template <typename Object>
  std::string text(GetEntry<Object, const char *> entry, const Object *object) {
    const char *value = get(entry, object);
    return value ? value : "";
  }
  template <typename Object, typename T>
  std::vector<T> list(GetEntry<Object, size_t> count,
                      ListEntry<Object, T> entry, const Object *object) {
    std::vector<T> values(get(count, object));
    if (!values.empty())
      check(api(entry)(object, values.data(), values.size()));
    return ok() ? std::move(values) : std::vector<T>{};
  }

  /// Returns the elements of an attribute; of a string or strings the
  /// characters with a zero after each string.
  template <typename T>
  std::vector<T> attribute(const OrtOpAttr *handle, OrtOpAttrType type) {
    size_t bytes = 0;
    // Without memory the call fails and returns the size.
    if (OrtStatus *status =
            api(api::readAttribute)(handle, type, nullptr, 0, &bytes))
      (void)api.take(status);
    std::vector<T> values(bytes / sizeof(T));
    if (bytes)
      check(
          api(api::readAttribute)(handle, type, values.data(), bytes, &bytes));
    return values;
  }
  /// Returns a string attribute.
  std::string stringAttribute(const OrtOpAttr *handle) {
    std::vector<char> chars = attribute<char>(handle, kOrtAttrString);
    // Only some versions append a zero.
    if (!chars.empty() && chars.back() == 0)
      chars.pop_back();
    return {chars.begin(), chars.end()};
  }

  const HostApi &api;

private:
  Status failure;
};

/// Returns the TensorProto.DataType of an ONNXTensorElementDataType.
int dataTypeOf(int hostType);

/// Returns the element type of mpc's buffers for a TensorProto.DataType, ui8
/// for the codes of 8-bit floats; nullopt if a program cannot take or return
/// the type: two or more elements in a byte, strings, complex numbers.
std::optional<ElementType> elementTypeOf(int dataType);

} // namespace mpc::ort

#endif // MPC_LIB_BINDINGS_ONNXRUNTIME_HOSTAPI_H
