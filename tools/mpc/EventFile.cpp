//===- EventFile.cpp - TensorBoard event files ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No packaged C++ library writes event files. Records are length, masked
// CRC-32C of the length, message, masked CRC-32C of the message, little-endian
// (tensorflow/core/lib/io/record_writer.h).
//
//===----------------------------------------------------------------------===//

#include "EventFile.h"

#include "event.pb.h"

#include "llvm/Support/Endian.h"

#include <boost/crc.hpp>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tool;

static double secondsNow() {
  return std::chrono::duration<double>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns the little-endian bytes of a number.
template <typename Number> static std::string bytesOf(Number number) {
  std::string bytes(sizeof(Number), '\0');
  llvm::support::endian::write<Number, llvm::endianness::little>(bytes.data(),
                                                                 number);
  return bytes;
}

/// Returns the masked CRC-32C (Castagnoli) of TFRecord; the mask protects data
/// that contains CRCs.
static std::string maskedCrc(const std::string &data) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(data.data(), data.size());
  uint32_t sum = crc.checksum();
  return bytesOf<uint32_t>(((sum >> 15) | (sum << 17)) + 0xa282ead8u);
}

EventFile::EventFile(std::string name)
    : path(std::move(name)), file(path, std::ios::binary) {}

Result<EventFile> EventFile::create(const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Status(StatusCode::InvalidArgument, folder,
                  "the folder of event files cannot be created: " +
                      error.message());
  // TensorBoard orders files by name, and two runs may start in one second.
  double now = secondsNow();
  EventFile made((std::filesystem::path(folder) /
                  ("events.out.tfevents." + std::to_string(int64_t(now)) + "." +
                   std::to_string(::getpid()) + ".mpc"))
                     .string());
  tensorboard::Event first;
  first.set_wall_time(now);
  first.set_file_version("brain.Event:2");
  if (Status status = made.write(first.SerializeAsString()); !status.ok())
    return status;
  return made;
}

Status EventFile::write(const std::string &message) {
  std::string length = bytesOf<uint64_t>(message.size());
  file << length << maskedCrc(length) << message << maskedCrc(message)
       << std::flush;
  if (!file)
    return Status(StatusCode::InvalidArgument, path,
                  "cannot be written; check the free space and the permissions "
                  "of the folder");
  return {};
}

Status EventFile::add(int64_t step, const Numbers &numbers) {
  tensorboard::Event event;
  event.set_wall_time(secondsNow());
  event.set_step(step);
  for (const auto &[tag, number] : numbers) {
    if (!number)
      continue;
    tensorboard::Summary::Value *value = event.mutable_summary()->add_value();
    value->set_tag(tag);
    value->set_simple_value(static_cast<float>(*number));
  }
  return write(event.SerializeAsString());
}
