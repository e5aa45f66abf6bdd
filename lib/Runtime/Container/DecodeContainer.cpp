//===- DecodeContainer.cpp - decoding .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header, the sections, and the table.
//
//===----------------------------------------------------------------------===//

#include "../Environment.h"
#include "Container.h"
#include "Executable_generated.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace mpc;
using namespace mpc::container;

/// Returns the error that a file is refused because of `text`. `where` names
/// the file or a part of it.
static Status refuse(const std::string &where, std::string text) {
  return Status(StatusCode::InvalidArgument, where, std::move(text));
}

/// Returns the location of a part of a file, for messages.
static std::string placeOf(const std::string &where, const char *part,
                           size_t index) {
  return where + ": " + part + " " + std::to_string(index);
}

namespace {
/// Returns true if the elements are aligned for their type: the verifier only
/// checks the four bytes of a vector's length.
template <typename T> bool isAligned(const flatbuffers::Vector<T> &elements) {
  return elements.size() == 0 || reinterpret_cast<uintptr_t>(elements.Data()) %
                                         alignof(std::remove_pointer_t<T>) ==
                                     0;
}

/// Decodes one file. Files are untrusted: FlatBuffers' verifier proves that
/// references stay inside the table, the decoder that all values are valid. A
/// table may reference one list many times (a decompression bomb), so memory
/// use is budgeted. Functions that read a part fail if it is invalid; `place`
/// names that part.
class Decoder {
public:
  /// Parameters as for decode().
  Decoder(const std::shared_ptr<const void> &owner,
          std::span<const std::byte> bytes, const std::string &where)
      : owner(owner), bytes(bytes), where(where) {}
  Result<Contents> decode();

private:
  /// Charges `amount` bytes to the memory budget; fails if a table of this size
  /// cannot legitimately need that much.
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
} // namespace

template <typename T>
static T readAt(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Status container::checkHeader(std::span<const std::byte> header,
                              uint64_t fileBytes, const std::string &where) {
  if (header.size() < kHeaderBytes ||
      std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0)
    return refuse(where, "is no .mpcx file");
  auto version = readAt<uint32_t>(header, kVersionAt);
  if (version != kFormatVersion)
    return refuse(where, "has format version " + std::to_string(version) +
                             ", but this build reads version " +
                             std::to_string(kFormatVersion) +
                             "; compile the model again");
  auto declared = readAt<uint64_t>(header, kFileBytesAt);
  if (declared != fileBytes)
    return refuse(where, "says that it has " + std::to_string(declared) +
                             " bytes, but it has " + std::to_string(fileBytes) +
                             ": it is damaged");
  auto table = readAt<uint64_t>(header, kTableBytesAt);
  if (table > kMostTableBytes || table > fileBytes - kHeaderBytes ||
      readAt<uint32_t>(header, kReservedAt) != 0)
    return refuse(where, "has a header that makes no sense: it is damaged");
  return {};
}

Status Decoder::spend(size_t amount) {
  if (amount > budget)
    return refuse(where, "has a table that repeats itself beyond measure");
  budget -= amount;
  return {};
}

Status Decoder::readString(const flatbuffers::String &from, std::string &to) {
  if (Status status = spend(sizeof(std::string) + from.size()); !status.ok())
    return status;
  to.assign(from.data(), from.size());
  return {};
}

Status Decoder::readType(const flatbuffers::String &element,
                         const flatbuffers::Vector<int64_t> &shape,
                         const std::string &place, TensorType &type) {
  std::optional<ElementType> parsed =
      parseElementType({element.data(), element.size()});
  if (!parsed)
    return refuse(place, "has an element type that is unknown");
  if (!isAligned(shape))
    return refuse(place, "has a shape that is not aligned");
  if (Status status = spend(shape.size() * sizeof(int64_t)); !status.ok())
    return status;
  type.element = *parsed;
  type.shape.assign(shape.begin(), shape.end());
  if (!type.byteCount())
    return refuse(place, "has a type without a size that fits in memory");
  return {};
}

Status Decoder::readValues(
    const flatbuffers::Vector<flatbuffers::Offset<fb::Value>> &from,
    const char *part, std::vector<StoredValue> &to) {
  for (const fb::Value *value : from) {
    std::string place = placeOf(where, part, to.size());
    StoredValue read;
    if (Status status = spend(sizeof(read)); !status.ok())
      return status;
    if (Status status = readString(*value->name(), read.name); !status.ok())
      return status;
    if (Status status =
            readType(*value->element(), *value->shape(), place, read.type);
        !status.ok())
      return status;
    if (value->role())
      if (Status status = readString(*value->role(), read.role); !status.ok())
        return status;
    read.integerBound = value->integer_bound();
    if (read.integerBound < 0)
      return refuse(place, "has a negative bound of its integers");
    if (value->field())
      if (Status status = readString(*value->field(), read.field); !status.ok())
        return status;
    read.alias = value->alias();
    if (const auto *shape = value->shard_of()) {
      TensorType whole;
      if (Status status = readType(*value->element(), *shape, place, whole);
          !status.ok())
        return status;
      read.shardOf = std::move(whole.shape);
    }
    if (int64_t number = value->initial(); number != -1) {
      if (number < 0 || size_t(number) >= sections.size())
        return refuse(place, "refers to a section that does not exist");
      std::span<const std::byte> section = sections[size_t(number)];
      if (TensorType type = read.initialType();
          int64_t(section.size()) != *type.byteCount())
        return refuse(place, "of type " + type.toString() +
                                 " begins with a value of " +
                                 std::to_string(section.size()) + " bytes");
      read.initial = std::shared_ptr<const void>(owner, section.data());
    }
    if (value->labels())
      for (const flatbuffers::String *label : *value->labels()) {
        read.labels.emplace_back();
        if (Status status = readString(*label, read.labels.back());
            !status.ok())
          return status;
      }
    to.push_back(std::move(read));
  }
  return {};
}

Status Decoder::readSections() {
  uint64_t first = kHeaderBytes + readAt<uint64_t>(bytes, kTableBytesAt);
  if (!isAligned(*table->sections()))
    return refuse(where, "has a table of sections that is not aligned");
  for (const fb::Section *section : *table->sections()) {
    uint64_t offset = section->offset(), size = section->bytes();
    if (offset % kSectionAlignment != 0 || offset < first ||
        size > bytes.size() || offset > bytes.size() - size)
      return refuse(placeOf(where, "section", sections.size()),
                    "reaches from byte " + std::to_string(offset) + " over " +
                        std::to_string(size) + " bytes of " +
                        std::to_string(bytes.size()));
    if (Status status = spend(sizeof(std::span<const std::byte>)); !status.ok())
      return status;
    sections.push_back(bytes.subspan(offset, size));
  }
  return {};
}

Status Decoder::readSpecialisation(const fb::Specialisation &from,
                                   StoredSpecialisation &to) {
  if (Status status = spend(sizeof(to)); !status.ok())
    return status;
  for (const fb::Dimension *dim : *from.dims()) {
    std::string name;
    if (Status status = readString(*dim->name(), name); !status.ok())
      return status;
    to.dims[std::move(name)] = dim->extent();
  }
  std::optional<ElementType> narrowest =
      parseElementType({from.narrowest()->data(), from.narrowest()->size()});
  if (!narrowest || !isFloat(*narrowest) || from.longest_reduction() < 1 ||
      from.longest_chain() < 0)
    return refuse(where, "describes its rounding in a way that makes no sense");
  to.narrowest = *narrowest;
  to.longestReduction = from.longest_reduction();
  to.longestChain = from.longest_chain();
  if (Status status = readValues(*from.arguments(), "argument", to.arguments);
      !status.ok())
    return status;
  if (Status status = readValues(*from.results(), "result", to.results);
      !status.ok())
    return status;
  for (const fb::Target *target : *from.targets()) {
    if (Status status = spend(sizeof(StoredProgram)); !status.ok())
      return status;
    std::string place = placeOf(where, "target", to.programs.size());
    if (Status status =
            readTarget(*target, place, to, to.programs.emplace_back());
        !status.ok())
      return status;
  }
  if (to.programs.empty())
    return refuse(where, "holds code for no target");
  return {};
}

Result<Contents> Decoder::decode() {
  if (bytes.size() < kHeaderBytes)
    return refuse(where, "is no .mpcx file");
  if (Status status = checkHeader(bytes, bytes.size(), where); !status.ok())
    return status;
  if (digestOf(bytes) != readAt<Digest>(bytes, kDigestAt))
    return refuse(where, "does not match its SHA-256: it is damaged");

  auto tableBytes = size_t(readAt<uint64_t>(bytes, kTableBytesAt));
  const auto *start =
      reinterpret_cast<const uint8_t *>(bytes.data()) + kHeaderBytes;
  flatbuffers::Verifier verifier(start, tableBytes, /*max_depth=*/8,
                                 /*max_tables=*/1000000);
  if (!fb::VerifyExecutableBuffer(verifier))
    return refuse(where, "has a table that refers outside of itself");
  table = fb::GetExecutable(start);
  // A string takes at least 32 bytes in memory and four in the table.
  budget = 64 * tableBytes + 4096;

  for (auto [from, to] : {std::pair(table->name(), &contents.name),
                          {table->model(), &contents.model},
                          {table->policy(), &contents.policy},
                          {table->compiler(), &contents.compiler}})
    if (Status status = readString(*from, *to); !status.ok())
      return status;
  if (Status status = readSections(); !status.ok())
    return status;
  for (const fb::Specialisation *specialisation : *table->specialisations())
    if (Status status = readSpecialisation(
            *specialisation, contents.specialisations.emplace_back());
        !status.ok())
      return status;
  if (contents.specialisations.empty())
    return refuse(where, "holds no program");
  return std::move(contents);
}

//===----------------------------------------------------------------------===//
// Programs
//
// Reads a program's constants, launches and kernels, and validates the whole
// before it may run.
//===----------------------------------------------------------------------===//

Status Decoder::readConstant(const fb::Constant &from, const std::string &place,
                             ProgramConstant &to) {
  if (Status status = spend(sizeof(to)); !status.ok())
    return status;
  if (Status status = readString(*from.name(), to.name); !status.ok())
    return status;
  if (Status status = readType(*from.element(), *from.shape(), place, to.type);
      !status.ok())
    return status;
  if (from.section() >= sections.size())
    return refuse(place, "refers to a section that does not exist");
  std::span<const std::byte> section = sections[from.section()];
  to.data = std::shared_ptr<const void>(owner, section.data());
  to.bytes = int64_t(section.size());
  return {};
}

Status Decoder::readGemm(const fb::Gemm &from, const std::string &place,
                         GemmProblem &to) {
  auto parse = [](const flatbuffers::String &text) {
    return parseElementType({text.data(), text.size()});
  };
  std::optional<ElementType> operandA = parse(*from.operand_a()),
                             operandB = parse(*from.operand_b()),
                             result = parse(*from.result());
  if (!operandA || !operandB || !result ||
      from.activation() > uint8_t(GemmProblem::Activation::GeluTanhGradient) ||
      from.bias_gradient() > uint8_t(GemmProblem::BiasGradient::Result) ||
      from.compute() > uint8_t(GemmProblem::Compute::Bf16x9))
    return refuse(place, "has a product of an unknown kind");
  to.m = from.m();
  to.n = from.n();
  to.k = from.k();
  to.batch = from.batch();
  to.operandA = *operandA;
  to.operandB = *operandB;
  to.result = *result;
  to.transposeA = from.transpose_a();
  to.transposeB = from.transpose_b();
  to.sharedA = from.shared_a();
  to.sharedB = from.shared_b();
  to.activation = GemmProblem::Activation(from.activation());
  to.bias = from.bias();
  to.residual = from.residual();
  to.auxiliary = from.auxiliary();
  to.biasGradient = GemmProblem::BiasGradient(from.bias_gradient());
  to.compute = GemmProblem::Compute(from.compute());
  to.scales = from.scales();
  to.resultScale = from.result_scale();
  to.amax = from.amax();
  return {};
}

Status Decoder::readCollective(const fb::Collective &from,
                               const std::string &place, Collective &to) {
  auto parse = [](const flatbuffers::String &text) {
    return parseElementType({text.data(), text.size()});
  };
  std::optional<ElementType> element = parse(*from.element()),
                             accumulate = parse(*from.accumulate());
  if (!element || !accumulate ||
      from.kind() > uint8_t(Collective::Kind::Broadcast) ||
      from.reduction() > uint8_t(Collective::Reduction::Max))
    return refuse(place, "has a message of an unknown kind");
  to.kind = Collective::Kind(from.kind());
  to.reduction = Collective::Reduction(from.reduction());
  to.element = *element;
  to.accumulate = *accumulate;
  to.ranks = from.ranks();
  to.root = from.root();
  return {};
}

Status Decoder::readLaunch(const fb::Launch &from, const std::string &place,
                           Launch &to) {
  if (Status status = spend(sizeof(to)); !status.ok())
    return status;
  if (Status status = readString(*from.kernel(), to.kernel); !status.ok())
    return status;
  if (Status status = readString(*from.kind(), to.kind); !status.ok())
    return status;
  for (uint32_t number : *from.ops()) {
    if (number >= table->op_names()->size())
      return refuse(place, "names an op that does not exist");
    to.ops.emplace_back();
    if (Status status =
            readString(*table->op_names()->Get(number), to.ops.back());
        !status.ok())
      return status;
  }
  if (!isAligned(*from.buffers()))
    return refuse(place, "has a table of buffers that is not aligned");
  for (const fb::Buffer *buffer : *from.buffers()) {
    if (Status status = spend(sizeof(BufferRef)); !status.ok())
      return status;
    if (buffer->kind() > uint8_t(BufferRef::Kind::Checks))
      return refuse(place, "has a buffer of an unknown kind");
    to.buffers.push_back({BufferRef::Kind(buffer->kind()), buffer->index(),
                          buffer->offset(), buffer->bytes(),
                          buffer->written()});
  }
  to.items = from.items();
  to.grain = from.grain();
  to.laterItems = from.later_items();
  to.scratchBytes = from.scratch_bytes();
  to.sharedBytes = from.shared_bytes();
  to.flops = from.flops();
  to.bytes = from.bytes();
  if (const fb::Grid *grid = from.grid())
    to.grid = {{grid->blocks_x(), grid->blocks_y(), grid->blocks_z()},
               grid->threads(),
               grid->shared_bytes(),
               grid->cooperative()};
  if (from.collective())
    if (Status status =
            readCollective(*from.collective(), place, to.collective.emplace());
        !status.ok())
      return status;
  if (!from.gemm())
    return {};
  return readGemm(*from.gemm(), place, to.gemm.emplace());
}

Status Decoder::readChecks(const fb::Target &from, const std::string &place,
                           std::vector<RunCheck> &to) {
  if (!from.checks())
    return {};
  for (const fb::Check *check : *from.checks()) {
    if (Status status = spend(sizeof(RunCheck)); !status.ok())
      return status;
    if (check->kind() > uint8_t(RunCheck::Kind::FiniteResult))
      return refuse(place, "has a check of an unknown kind");
    RunCheck &read = to.emplace_back();
    read.kind = RunCheck::Kind(check->kind());
    read.number = check->number();
    read.argument = check->argument();
    if (check->op() == -1)
      continue;
    if (check->op() < 0 || check->op() >= int64_t(table->op_names()->size()))
      return refuse(place, "checks an op that does not exist");
    if (Status status =
            readString(*table->op_names()->Get(uint32_t(check->op())), read.op);
        !status.ok())
      return status;
  }
  return {};
}

Status Decoder::readCuda(const fb::Cuda &from, const std::string &place,
                         StoredCuda &to) {
  // The total size of referenced sections is at most the file's: valid files
  // store every text once.
  size_t left = bytes.size();
  auto take = [&](uint32_t number, std::span<const std::byte> &section) {
    if (number >= sections.size())
      return refuse(place, "refers to code that does not exist");
    section = sections[number];
    if (section.size() > left)
      return refuse(place, "refers to more code than the file holds");
    left -= section.size();
    return Status();
  };
  if (Status status = take(from.prelude(), to.prelude); !status.ok())
    return status;
  for (const fb::Kernel *kernel : *from.kernels()) {
    StoredCuda::Kernel &read = to.kernels.emplace_back();
    if (Status status = spend(sizeof(read)); !status.ok())
      return status;
    if (Status status = readString(*kernel->name(), read.name); !status.ok())
      return status;
    if (Status status = take(kernel->source(), read.source); !status.ok())
      return status;
  }
  for (const fb::Binary *binary : *from.binaries()) {
    StoredCuda::Binary &read = to.binaries.emplace_back();
    if (Status status = spend(sizeof(read) + 4 * binary->kernels()->size());
        !status.ok())
      return status;
    if (Status status = readString(*binary->architecture(), read.architecture);
        !status.ok())
      return status;
    for (uint32_t number : *binary->kernels()) {
      if (number >= to.kernels.size())
        return refuse(place, "has code for a kernel that does not exist");
      read.kernels.push_back(number);
    }
    if (Status status = take(binary->code(), read.cubin); !status.ok())
      return status;
  }
  return {};
}

/// Fails if a GPU launch has no kernel.
static Status checkKernels(const Program &program, const StoredCuda &cuda,
                           const std::string &place) {
  std::set<std::string_view> names;
  for (const StoredCuda::Kernel &kernel : cuda.kernels)
    names.insert(kernel.name);
  for (const Launch &launch : program.launches)
    if (!launch.gemm && !launch.collective && !names.count(launch.kernel))
      return refuse(place, "lacks kernel '" + launch.kernel + "'");
  return {};
}

/// Fails if one run needs more memory than this machine has.
static Status checkMemory(const Program &program, const std::string &place) {
  int64_t most = detail::machineMemory();
  int64_t needed = program.arenaBytes, scratch = 0;
  bool fits = true;
  for (const auto *list : {&program.arguments, &program.results})
    for (const ProgramValue &value : *list)
      fits &= !__builtin_add_overflow(needed, *value.type.byteCount(), &needed);
  for (const Launch &launch : program.launches)
    for (int64_t bytes : {launch.scratchBytes, launch.sharedBytes})
      scratch = std::max(scratch, bytes);
  fits &= !__builtin_add_overflow(needed, scratch, &needed);
  if (fits && needed <= most)
    return {};
  return Status(StatusCode::ResourceExhausted, place,
                "needs more memory for one run than the " +
                    std::to_string(most) + " bytes of this machine");
}

Status Decoder::readLayers(const fb::Target &from, const std::string &place,
                           std::vector<LayerTypes> &to) {
  const auto &names = *from.type_names();
  auto readName = [&](uint32_t number, std::string &name) {
    if (number >= names.size())
      return refuse(place, "refers to a type that does not exist");
    return readString(*names.Get(number), name);
  };
  auto readShares = [&](const flatbuffers::Vector<const fb::Share *> &shares,
                        std::vector<TypeShare> &list) -> Status {
    if (!isAligned(shares))
      return refuse(place, "has a table of types that is not aligned");
    for (const fb::Share *share : shares) {
      if (Status status = spend(sizeof(TypeShare)); !status.ok())
        return status;
      TypeShare &read = list.emplace_back();
      read.count = share->count();
      read.weight = share->weight();
      if (Status status = readName(share->type(), read.type); !status.ok())
        return status;
    }
    return {};
  };
  for (const fb::Layer *layer : *from.layers()) {
    if (Status status = spend(sizeof(LayerTypes)); !status.ok())
      return status;
    LayerTypes &read = to.emplace_back();
    for (auto [text, into] : {std::pair(layer->path(), &read.path),
                              {layer->policy(), &read.policy}})
      if (Status status = readString(*text, *into); !status.ok())
        return status;
    for (auto [shares, list] : {std::pair(layer->compute(), &read.compute),
                                {layer->gradient(), &read.gradient},
                                {layer->storage(), &read.storage}})
      if (Status status = readShares(*shares, *list); !status.ok())
        return status;
    for (const fb::Variable *variable : *layer->variables()) {
      if (Status status = spend(sizeof(VariableType)); !status.ok())
        return status;
      VariableType &kept = read.variables.emplace_back();
      for (auto [text, into] : {std::pair(variable->name(), &kept.name),
                                {variable->role(), &kept.role}})
        if (Status status = readString(*text, *into); !status.ok())
          return status;
      if (Status status = readName(variable->type(), kept.type); !status.ok())
        return status;
      for (uint32_t number : *variable->stored()) {
        kept.stored.emplace_back();
        if (Status status = readName(number, kept.stored.back()); !status.ok())
          return status;
      }
    }
  }
  return {};
}

Status Decoder::readTarget(const fb::Target &from, const std::string &place,
                           const StoredSpecialisation &specialisation,
                           StoredProgram &to) {
  Program &program = to.program;
  program.name = contents.name;
  if (Status status = readString(*from.name(), program.target); !status.ok())
    return status;
  for (const auto &[stored, list] :
       {std::pair(&specialisation.arguments, &program.arguments),
        std::pair(&specialisation.results, &program.results)})
    for (const StoredValue &value : *stored) {
      size_t words = 0;
      for (const std::string &label : value.labels)
        words += sizeof(std::string) + label.size();
      if (Status status = spend(sizeof(ProgramValue) + value.name.size() +
                                value.role.size() + value.field.size() + words);
          !status.ok())
        return status;
      list->push_back({value.name, value.type, value.role, value.field,
                       value.alias, value.initial, value.labels,
                       value.shardOf});
    }
  program.arenaBytes = from.arena_bytes();
  for (const fb::Constant *constant : *from.constants()) {
    ProgramConstant read;
    if (Status status = readConstant(
            *constant, placeOf(place, "constant", program.constants.size()),
            read);
        !status.ok())
      return status;
    program.constants.push_back(std::move(read));
  }
  for (const fb::Launch *launch : *from.launches()) {
    Launch read;
    if (Status status = readLaunch(
            *launch, placeOf(place, "launch", program.launches.size()), read);
        !status.ok())
      return status;
    program.launches.push_back(std::move(read));
  }
  if (Status status = readChecks(from, place, program.checks); !status.ok())
    return status;
  if (Status status = readLayers(from, place, program.layers); !status.ok())
    return status;
  if (from.code() >= sections.size())
    return refuse(place, "refers to code that does not exist");
  to.code = sections[from.code()];
  bool forGpu = program.target.rfind("cuda:", 0) == 0;
  if (forGpu != (from.cuda() != nullptr))
    return refuse(place, forGpu ? "holds no kernels for GPUs"
                                : "holds kernels for GPUs and is for none");
  if (forGpu) {
    if (Status status = readCuda(*from.cuda(), place, to.cuda.emplace());
        !status.ok())
      return status;
    if (Status status = checkKernels(program, *to.cuda, place); !status.ok())
      return status;
  }
  if (Status status = validate(program, /*needsCode=*/false); !status.ok())
    return refuse(place + ": " + status.where(), status.text());
  return checkMemory(program, place);
}

int64_t StoredCuda::codeBytes() const {
  int64_t sum = 0;
  for (const Binary &binary : binaries)
    sum += int64_t(binary.cubin.size());
  return sum;
}

std::shared_ptr<const CudaCode> StoredCuda::copy() const {
  auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char *>(bytes.data()),
                       bytes.size());
  };
  auto code = std::make_shared<CudaCode>();
  code->prelude = text(prelude);
  for (const Kernel &kernel : kernels)
    code->kernels.push_back({kernel.name, text(kernel.source)});
  for (const Binary &binary : binaries) {
    CudaCode::Binary &made = code->binaries.emplace_back();
    made.architecture = binary.architecture;
    for (uint32_t number : binary.kernels)
      made.kernels.push_back(kernels[number].name);
    made.cubin.assign(binary.cubin.begin(), binary.cubin.end());
  }
  return code;
}

Result<Contents> container::decode(const std::shared_ptr<const void> &owner,
                                   std::span<const std::byte> bytes,
                                   const std::string &where) {
  return Decoder(owner, bytes, where).decode();
}
