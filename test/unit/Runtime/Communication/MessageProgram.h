//===- MessageProgram.h - programs of messages, and their ranks -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MPC_TEST_UNIT_RUNTIME_COMMUNICATION_MESSAGEPROGRAM_H
#define MPC_TEST_UNIT_RUNTIME_COMMUNICATION_MESSAGEPROGRAM_H

#include "mpc/Runtime/Executable.h"

#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace mpc::testing {

using Bytes = std::vector<char>;

/// One message of tensors with so many elements, from arguments to results.
inline Program messageProgram(const Collective &how,
                              const std::vector<int64_t> &sizes) {
  Program program;
  program.name = "main";
  program.target = "cpu:test";
  Launch launch;
  launch.kernel = "exchanged";
  launch.kind = "message";
  launch.collective = how;
  int64_t bytes = elementBytes(how.element);
  for (size_t i = 0; i < sizes.size(); ++i) {
    program.arguments.push_back(
        {"x" + std::to_string(i), {how.element, {sizes[i]}}});
    launch.buffers.push_back(
        {BufferRef::Kind::Argument, int64_t(i), 0, sizes[i] * bytes, false});
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t size = *how.outputElements(sizes[i]);
    program.results.push_back({"y" + std::to_string(i), {how.element, {size}}});
    launch.buffers.push_back(
        {BufferRef::Kind::Result, int64_t(i), 0, size * bytes, true});
  }
  program.launches = {launch};
  return program;
}

inline Executable load(Program program) {
  return *Executable::create(
      *Device::cpu({.threads = 1}),
      std::make_shared<const Program>(std::move(program)));
}

/// Elements that rank `rank` has of tensor `tensor`: ordinary numbers, and now
/// and then a NaN, an infinity, a zero or a number that is nearly one.
inline Bytes draw(ElementType type, int64_t count, int rank, size_t tensor) {
  std::mt19937_64 random(uint64_t(rank) * 1000 + tensor);
  Bytes bytes(size_t(count * elementBytes(type)));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    char *to = bytes.data() + i * elementBytes(type);
    if (type == ElementType::F32 && bits % 16) {
      float value = float(int64_t(bits >> 8) % 1000000) * 0x1p-10f;
      std::memcpy(to, &value, 4);
    } else if (type == ElementType::F64 && bits % 16) {
      double value = double(int64_t(bits >> 8)) * 0x1p-30;
      std::memcpy(to, &value, 8);
    } else { // any bits are a number of the others
      bits >>= 4;
      std::memcpy(to, &bits, size_t(elementBytes(type)));
    }
  }
  return bytes;
}

inline Bytes bytesOf(const Buffer &buffer) {
  const auto *data = static_cast<const char *>(buffer.data());
  return Bytes(data, data + buffer.size());
}

/// Runs a program of one message on random data of rank `rank`; its results.
inline Result<std::vector<Bytes>>
runMessage(const Executable &executable, int rank, Communicator *communicator) {
  std::vector<Buffer> arguments;
  for (size_t i = 0; i < executable.program().arguments.size(); ++i) {
    const TensorType &type = executable.program().arguments[i].type;
    arguments.push_back(*Buffer::allocate(type));
    Bytes bytes = draw(type.element, *type.elementCount(), rank, i);
    if (!bytes.empty())
      std::memcpy(arguments.back().data(), bytes.data(), bytes.size());
  }
  RunOptions options;
  options.communicator = communicator;
  Result<std::vector<Buffer>> results = executable.run(arguments, options);
  if (!results.ok())
    return results.status();
  std::vector<Bytes> read;
  for (const Buffer &result : *results)
    read.push_back(bytesOf(result));
  return read;
}

/// Calls `work(rank, communicator)` on a thread for each of `ranks`.
template <typename Work>
void onThreads(int ranks, Work work, const CommunicatorOptions &options = {}) {
  std::vector<std::shared_ptr<Communicator>> ends =
      connectThreads(ranks, options);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      work(rank, *ends[size_t(rank)]);
      ends[size_t(rank)].reset();
    });
  for (std::thread &thread : threads)
    thread.join();
}

/// The messages that every transport is tested with.
struct MessageCase {
  Collective how;
  std::vector<int64_t> sizes;
};
inline std::vector<MessageCase> messageCases(int64_t ranks) {
  std::vector<MessageCase> cases;
  using Kind = Collective::Kind;
  using Reduction = Collective::Reduction;
  struct Types {
    ElementType element, accumulate;
  };
  for (const auto &sizes : std::vector<std::vector<int64_t>>{
           {1}, {7}, {0}, {3, 5000, 1}, {12, 4099}, {24000}})
    for (Kind kind : {Kind::AllReduce, Kind::ReduceScatter, Kind::AllGather,
                      Kind::Broadcast})
      for (Types types : {Types{ElementType::F16, ElementType::F16},
                          {ElementType::F16, ElementType::F32},
                          {ElementType::F16, ElementType::F64},
                          {ElementType::BF16, ElementType::BF16},
                          {ElementType::BF16, ElementType::F32},
                          {ElementType::BF16, ElementType::F64},
                          {ElementType::F32, ElementType::F32},
                          {ElementType::F32, ElementType::F64},
                          {ElementType::F64, ElementType::F64},
                          {ElementType::I32, ElementType::I32},
                          {ElementType::I32, ElementType::I64},
                          {ElementType::I64, ElementType::I64},
                          {ElementType::I8, ElementType::I8}})
        for (Reduction reduction : {Reduction::Sum, Reduction::Mean,
                                    Reduction::Min, Reduction::Max}) {
          Collective how{kind,  reduction, types.element, types.accumulate,
                         ranks, ranks - 1};
          if (!how.obstacle().empty() ||
              (!how.reduces() && reduction != Reduction::Sum))
            continue;
          // Every type in three tensors, some of them in other numbers too.
          if (sizes.size() != 3 && (types.element != types.accumulate ||
                                    types.element == ElementType::F64 ||
                                    types.element == ElementType::I64))
            continue;
          cases.push_back({how, sizes});
        }
  return cases;
}

} // namespace mpc::testing

#endif // MPC_TEST_UNIT_RUNTIME_COMMUNICATION_MESSAGEPROGRAM_H
