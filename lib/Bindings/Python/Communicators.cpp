//===- Communicators.cpp - bindings of Communicator -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Communicators.h"

#include "Errors.h"
#include "InterpreterLock.h"

#include "mpc/Runtime/RankDevice.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>

namespace nb = nanobind;
using namespace mpc;
using namespace mpc::python;

static nb::object viewOf(const void *data, size_t bytes) {
  return nb::steal(
      PyMemoryView_FromMemory(static_cast<char *>(const_cast<void *>(data)),
                              Py_ssize_t(bytes), PyBUF_READ));
}
static nb::object viewOf(void *data, size_t bytes) {
  return nb::steal(PyMemoryView_FromMemory(static_cast<char *>(data),
                                           Py_ssize_t(bytes), PyBUF_WRITE));
}

namespace {

/// A communicator implemented by a Python object, whose methods take
/// memoryviews that are valid during the call. Called from any thread.
class PythonCommunicator : public Communicator {
public:
  PythonCommunicator(nb::object made, int rank, int size)
      : made(std::move(made)), self(rank), ranks(size) {}
  ~PythonCommunicator() override {
    GilAcquire lock;
    made.reset();
  }

  int rank() const override { return self; }
  int size() const override { return ranks; }
  Status allGather(const void *send, void *receive, size_t bytes) override {
    return call(bytes, [&] {
      made.attr("all_gather")(viewOf(send, bytes),
                              viewOf(receive, bytes * size_t(ranks)));
    });
  }
  Status allToAll(const void *send, void *receive, size_t bytes) override {
    return call(bytes, [&] {
      made.attr("all_to_all")(viewOf(send, bytes * size_t(ranks)),
                              viewOf(receive, bytes * size_t(ranks)));
    });
  }
  Status broadcast(void *data, size_t bytes, int root) override {
    return call(bytes,
                [&] { made.attr("broadcast")(viewOf(data, bytes), root); });
  }
  void abort(const std::string &why) override {
    (void)call(1, [&] { made.attr("abort")(why); });
  }

private:
  /// Formats `error` on one line. Must not throw, even if the exception's
  /// __str__ raises or its text is invalid.
  static std::string textOf(const nb::python_error &error) {
    auto name = nb::cast<std::string>(error.type().attr("__name__"));
    try {
      nb::object said = nb::str(error.value());
      auto text = nb::cast<std::string>(
          said.attr("encode")("utf-8", "backslashreplace").attr("decode")());
      text = text.substr(0, text.find_first_of(std::string("\n\r\0", 3)));
      return text.empty() ? name : text;
    } catch (const std::exception &) {
      return name;
    }
  }

  template <typename Work> Status call(size_t bytes, Work work) {
    if (bytes == 0)
      return {};
    GilAcquire lock;
    std::string text;
    try {
      work();
      return {};
    } catch (nb::python_error &error) {
      text = textOf(error);
    }
    std::string where =
        "rank " + std::to_string(self) + " of " + std::to_string(ranks);
    if (!purpose.empty())
      where += ": " + purpose;
    return Status(StatusCode::Unavailable, where, text);
  }

  nb::object made;
  const int self, ranks;
};

} // namespace

static int numberOf(const nb::object &made, const char *name) {
  nb::object given = made.attr(name);
  int number = 0;
  if (!nb::try_cast(given, number))
    throw StatusError(Status(StatusCode::InvalidArgument, "communicator",
                             std::string("has the ") + name + " " +
                                 nb::cast<std::string>(nb::repr(given)) +
                                 ", not a number"));
  return number;
}

/// Wraps `made`, which has rank, size and the methods above.
static std::shared_ptr<Communicator> ofObject(nb::object made) {
  constexpr int kMostRanks = 65536;
  const int rank = numberOf(made, "rank"), size = numberOf(made, "size");
  if (size > kMostRanks)
    throw StatusError(Status(StatusCode::InvalidArgument, "communicator",
                             "is of " + std::to_string(size) +
                                 " ranks; there are at most " +
                                 std::to_string(kMostRanks)));
  if (size < 1 || rank < 0 || rank >= size)
    throw StatusError(Status(StatusCode::InvalidArgument, "communicator",
                             "has rank " + std::to_string(rank) + " of " +
                                 std::to_string(size)));
  return std::make_shared<PythonCommunicator>(std::move(made), rank, size);
}

/// Returns GPU `ordinal` for a rank; -1: the GPU with the index of its local
/// rank.
static Device gpuOf(int ordinal, const std::shared_ptr<Communicator> &group) {
  GilRelease release;
  CudaDeviceOptions options;
  options.ordinal = ordinal >= 0 ? ordinal : valueOf(localRank(*group));
  return valueOf(cudaForRanks(options, group));
}

void python::addCommunicators(nb::module_ &module) {
  nb::class_<Communicator>(module, "Communicator")
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("size", &Communicator::size)
      .def(
          "abort",
          [](Communicator &group, const std::string &why) {
            GilRelease release;
            group.abort(why);
          },
          nb::arg("why"))
      .def("part", &Communicator::part)
      .def("__repr__", [](const Communicator &group) {
        return "<mpc communicator: rank " + std::to_string(group.rank()) +
               " of " + std::to_string(group.size()) + ">";
      });
  module.def(
      "share_failure",
      [](Communicator &group, const std::string &own) {
        Status status;
        {
          GilRelease release;
          status = shareFailure(
              group, own.empty()
                         ? Status()
                         : Status(StatusCode::InvalidArgument, "", own));
        }
        // A rank with its own failure raises it itself.
        if (own.empty() && !status.ok())
          throw StatusError(status);
      },
      nb::arg("group"), nb::arg("own"));
  module.def("is_started_by_mpi", &isStartedByMpi);
  module.def(
      "join_mpi",
      [](double timeout) {
        GilRelease release;
        return valueOf(joinMpi({.patience = timeout}));
      },
      nb::arg("timeout"));
  module.def(
      "connect_threads",
      [](int ranks, double timeout) {
        return connectThreads(ranks, {.patience = timeout});
      },
      nb::arg("ranks"), nb::arg("timeout"));
  module.def("gpu_of_rank", &gpuOf, nb::arg("ordinal"), nb::arg("group"));
  module.def("communicator_of", &ofObject, nb::arg("made"));
}
