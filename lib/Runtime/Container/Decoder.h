//===- Decoder.h - reading one .mpcx file -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing in a file is believed: FlatBuffers' verifier proves that the table's
// references stay inside of it, the decoder that its numbers make sense. A
// table may refer to one list many times, so what is made of it is counted.
//
//===----------------------------------------------------------------------===//

#ifndef MPC_LIB_RUNTIME_CONTAINER_DECODER_H
#define MPC_LIB_RUNTIME_CONTAINER_DECODER_H

#include "Container.h"

#include "Executable_generated.h"

namespace mpc::container {

/// A file that is not read, for the reason `text`. `where` names the file, or a
/// part of it.
Status refuse(const std::string &where, std::string text);

/// The place of a part of a file.
std::string placeOf(const std::string &where, const char *part, size_t index);

/// Whether elements lie where their type may: the verifier asks for the four
/// bytes of a vector's length alone.
template <typename T> bool isAligned(const flatbuffers::Vector<T> &elements) {
  return elements.size() == 0 || reinterpret_cast<uintptr_t>(elements.Data()) %
                                         alignof(std::remove_pointer_t<T>) ==
                                     0;
}

/// One file while it is read. Functions that read a part fail where it makes no
/// sense; `place` names that part.
class Decoder {
public:
  /// As for decode().
  Decoder(const std::shared_ptr<const void> &owner,
          std::span<const std::byte> bytes, const std::string &where)
      : owner(owner), bytes(bytes), where(where) {}
  Result<Contents> decode();

private:
  // What is the same for all targets (Decode.cpp).

  /// Counts `amount` more bytes of memory; fails where a table of this size
  /// could not honestly ask for so much.
  Status spend(size_t amount);
  Status readString(const flatbuffers::String &from, std::string &to);
  Status readType(const flatbuffers::String &element,
                  const flatbuffers::Vector<int64_t> &shape,
                  const std::string &place, TensorType &type);
  Status
  readValues(const flatbuffers::Vector<flatbuffers::Offset<fb::Value>> &from,
             const char *part, std::vector<StoredValue> &to);
  Status readSections();
  Status readSpecialisation(const fb::Specialisation &from,
                            StoredSpecialisation &to);

  // The program and code of one target (DecodeProgram.cpp).

  /// `stored` has its arguments and results.
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

#endif // MPC_LIB_RUNTIME_CONTAINER_DECODER_H
