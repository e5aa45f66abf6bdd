//===- ContainerReader.h - decoder of .mpcx files ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files are untrusted: FlatBuffers' verifier proves that references stay inside
// the table, the decoder that all values are valid. A table may reference one
// list many times (a decompression bomb), so memory use is budgeted.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CONTAINER_CONTAINERREADER_H
#define MPC_LIB_RUNTIME_CONTAINER_CONTAINERREADER_H

#include "Container.h"

#include "Executable_generated.h"

namespace mpc::container {

/// Returns the error that a file is refused because of `text`. `where` names
/// the file or a part of it.
Status refuse(const std::string &where, std::string text);

/// Returns the location of a part of a file, for messages.
std::string placeOf(const std::string &where, const char *part, size_t index);

/// Returns true if the elements are aligned for their type: the verifier only
/// checks the four bytes of a vector's length.
template <typename T> bool isAligned(const flatbuffers::Vector<T> &elements) {
  return elements.size() == 0 || reinterpret_cast<uintptr_t>(elements.Data()) %
                                         alignof(std::remove_pointer_t<T>) ==
                                     0;
}

/// Decodes one file. Functions that read a part fail if it is invalid; `place`
/// names that part.
class Decoder {
public:
  /// Parameters as for decode().
  Decoder(const std::shared_ptr<const void> &owner,
          std::span<const std::byte> bytes, const std::string &where)
      : owner(owner), bytes(bytes), where(where) {}
  Result<Contents> decode();

private:
  // Target-independent parts (DecodeContainer.cpp).

  /// Charges `amount` bytes to the memory budget; fails if a table of this size
  /// cannot legitimately need that much.
  Status spend(size_t amount);
  Status readString(const flatbuffers::String &from, std::string &to);
  Status readType(const flatbuffers::String &element,
                  const flatbuffers::Vector<int64_t> &shape,
                  const std::string &place, TensorType &type);
  Status
  readValues(const flatbuffers::Vector<flatbuffers::Offset<fb::Value>> &from,
             const char *part, std::vector<ProgramValue> &to);
  Status readSections();
  Status readSpecialisation(const fb::Specialisation &from,
                            StoredSpecialisation &to);

  // The program and code of one target (DecodeProgram.cpp).

  /// `stored` contains its arguments and results.
  Status readTarget(const fb::Target &from, const std::string &place,
                    const StoredSpecialisation &stored, StoredProgram &to);
  Status readConstant(const fb::Constant &from, const std::string &place,
                      ProgramConstant &to);
  Status readGemm(const fb::Gemm &from, const std::string &place,
                  GemmProblem &to);
  Status readCollective(const fb::Collective &from, const std::string &place,
                        Collective &to);
  Status readLaunch(const fb::Launch &from, const std::string &place,
                    Launch &to);
  Status readChecks(const fb::Target &from, const std::string &place,
                    std::vector<RunCheck> &to);
  Status readLayers(const fb::Target &from, const std::string &place,
                    std::vector<LayerTypes> &to);
  Status readCuda(const fb::Cuda &from, const std::string &place,
                  StoredCuda &to);

  const std::shared_ptr<const void> &owner;
  std::span<const std::byte> bytes;
  const std::string &where;
  const fb::Executable *table = nullptr;
  std::vector<std::span<const std::byte>> sections;
  Contents contents;
  size_t budget = 0;
};

} // namespace mpc::container

#endif // MPC_LIB_RUNTIME_CONTAINER_CONTAINERREADER_H
