//===- EncodeContainer.cpp - encoding .mpcx files -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Container.h"

#include "../Sha256.h"
#include "Executable_generated.h"

#include "mpc/Runtime/Buffer.h"

#include <algorithm>
#include <cstring>
#include <map>

using namespace mpc;
using namespace mpc::container;

// Header and code are in native byte order.
static_assert(std::endian::native == std::endian::little);
static_assert(kSectionAlignment % kBufferAlignment == 0);

Digest container::digestOf(std::span<const std::byte> file) {
  static constexpr std::byte zeros[sizeof(Digest)] = {};
  std::array<std::span<const std::byte>, 3> parts = {
      file.first(kDigestAt), std::span(zeros), file.subspan(kHeaderBytes)};
  return detail::sha256OfParts(parts);
}

namespace {

/// Encodes one file.
class Encoder {
public:
  explicit Encoder(const Contents &contents) : contents(contents) {}
  Result<std::vector<std::byte>> build();

private:
  using Strings = std::vector<flatbuffers::Offset<flatbuffers::String>>;

  uint32_t addSection(std::span<const std::byte> bytes);
  std::vector<flatbuffers::Offset<fb::Value>>
  addValues(const std::vector<StoredValue> &values);
  flatbuffers::Offset<fb::Gemm> addGemm(const GemmProblem &gemm);
  flatbuffers::Offset<fb::Collective>
  addCollective(const Collective &collective);
  /// Returns the index of an op's name in the string table.
  uint32_t numberOf(const std::string &op);
  flatbuffers::Offset<fb::Launch> addLaunch(const Launch &launch);
  flatbuffers::Offset<fb::Cuda> addCuda(const CudaCode &code);
  flatbuffers::Offset<fb::Layer>
  addLayer(const LayerTypes &layer, std::map<std::string, uint32_t> &types,
           std::vector<std::string> &names);
  flatbuffers::Offset<fb::Target> addTarget(const StoredProgram &stored);
  flatbuffers::Offset<fb::Specialisation>
  addSpecialisation(const StoredSpecialisation &stored);
  void buildTable(uint64_t tableBytes);

  const Contents &contents;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<std::span<const std::byte>> sections;
  /// Sections by size and digest of the first bytes, to find equal ones.
  std::multimap<std::pair<size_t, Digest>, uint32_t> sectionOf;
  std::vector<std::string> opNames;
  std::map<std::string, uint32_t> opNumber;
};

uint64_t aligned(uint64_t offset) {
  return (offset + kSectionAlignment - 1) / kSectionAlignment *
         kSectionAlignment;
}

} // namespace

uint32_t Encoder::addSection(std::span<const std::byte> bytes) {
  // Weights differ early: few need a complete comparison.
  std::pair key(bytes.size(), detail::sha256(bytes.first(
                                  std::min<size_t>(bytes.size(), 4096))));
  auto [first, last] = sectionOf.equal_range(key);
  for (auto entry = first; entry != last; ++entry) {
    std::span<const std::byte> other = sections[entry->second];
    if (other.data() == bytes.data() ||
        std::memcmp(other.data(), bytes.data(), bytes.size()) == 0)
      return entry->second;
  }
  sectionOf.emplace(key, uint32_t(sections.size()));
  sections.push_back(bytes);
  return sections.size() - 1;
}

std::vector<flatbuffers::Offset<fb::Value>>
Encoder::addValues(const std::vector<StoredValue> &values) {
  std::vector<flatbuffers::Offset<fb::Value>> list;
  for (const StoredValue &value : values) {
    auto name = builder.CreateString(value.name);
    auto element = builder.CreateSharedString(
        std::string(elementTypeName(value.type.element)));
    auto shape = builder.CreateVector(value.type.shape);
    auto role = builder.CreateSharedString(value.role);
    auto field = builder.CreateSharedString(value.field);
    int64_t initial = -1;
    if (value.initial)
      initial = addSection({static_cast<const std::byte *>(value.initial.get()),
                            size_t(*value.initialType().byteCount())});
    flatbuffers::Offset<
        flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>>
        labels;
    if (!value.labels.empty())
      labels = builder.CreateVectorOfStrings(value.labels);
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> shardOf;
    if (value.shardOf)
      shardOf = builder.CreateVector(*value.shardOf);
    list.push_back(fb::CreateValue(builder, name, element, shape, role,
                                   value.integerBound, field, value.alias,
                                   initial, labels, shardOf));
  }
  return list;
}

flatbuffers::Offset<fb::Gemm> Encoder::addGemm(const GemmProblem &gemm) {
  auto name = [&](ElementType type) {
    return builder.CreateSharedString(std::string(elementTypeName(type)));
  };
  auto operandA = name(gemm.operandA), operandB = name(gemm.operandB),
       result = name(gemm.result);
  return fb::CreateGemm(builder, gemm.m, gemm.n, gemm.k, gemm.batch, operandA,
                        operandB, result, gemm.transposeA, gemm.transposeB,
                        gemm.sharedA, gemm.sharedB, uint8_t(gemm.activation),
                        gemm.bias, gemm.residual, gemm.auxiliary,
                        uint8_t(gemm.biasGradient), uint8_t(gemm.compute),
                        gemm.scales, gemm.resultScale, gemm.amax);
}

flatbuffers::Offset<fb::Collective>
Encoder::addCollective(const Collective &collective) {
  auto name = [&](ElementType type) {
    return builder.CreateSharedString(std::string(elementTypeName(type)));
  };
  auto element = name(collective.element),
       accumulate = name(collective.accumulate);
  return fb::CreateCollective(builder, uint8_t(collective.kind),
                              uint8_t(collective.reduction), element,
                              accumulate, collective.ranks, collective.root);
}

flatbuffers::Offset<fb::Cuda> Encoder::addCuda(const CudaCode &code) {
  auto addText = [&](const std::string &text) {
    return addSection(std::as_bytes(std::span(text)));
  };
  std::map<std::string, uint32_t> numbers;
  std::vector<flatbuffers::Offset<fb::Kernel>> kernels;
  for (const CudaCode::Kernel &kernel : code.kernels) {
    numbers.emplace(kernel.name, uint32_t(kernels.size()));
    auto name = builder.CreateSharedString(kernel.name);
    kernels.push_back(fb::CreateKernel(builder, name, addText(kernel.source)));
  }
  std::vector<flatbuffers::Offset<fb::Binary>> binaries;
  for (const CudaCode::Binary &binary : code.binaries) {
    std::vector<uint32_t> held;
    for (const std::string &kernel : binary.kernels)
      if (auto found = numbers.find(kernel); found != numbers.end())
        held.push_back(found->second);
    auto architecture = builder.CreateSharedString(binary.architecture);
    auto list = builder.CreateVector(held);
    binaries.push_back(fb::CreateBinary(builder, architecture, list,
                                        addSection(binary.cubin)));
  }
  auto kernelList = builder.CreateVector(kernels);
  auto binaryList = builder.CreateVector(binaries);
  return fb::CreateCuda(builder, addText(code.prelude), kernelList, binaryList);
}

uint32_t Encoder::numberOf(const std::string &op) {
  auto [entry, isNew] = opNumber.emplace(op, uint32_t(opNames.size()));
  if (isNew)
    opNames.push_back(op);
  return entry->second;
}

flatbuffers::Offset<fb::Launch> Encoder::addLaunch(const Launch &launch) {
  std::vector<uint32_t> ops;
  for (const std::string &op : launch.ops)
    ops.push_back(numberOf(op));
  std::vector<fb::Buffer> buffers;
  buffers.reserve(launch.buffers.size());
  for (const BufferRef &ref : launch.buffers)
    buffers.emplace_back(uint8_t(ref.kind), ref.written, ref.index, ref.offset,
                         ref.bytes);
  auto kernel = builder.CreateSharedString(launch.kernel);
  auto kind = builder.CreateSharedString(launch.kind);
  auto opList = builder.CreateVector(ops);
  auto bufferList = builder.CreateVectorOfStructs(buffers);
  const auto &blocks = launch.grid.blocks;
  fb::Grid grid(blocks[0], blocks[1], blocks[2], launch.grid.threads,
                launch.grid.sharedBytes, launch.grid.cooperative);
  flatbuffers::Offset<fb::Gemm> gemm;
  if (launch.gemm)
    gemm = addGemm(*launch.gemm);
  flatbuffers::Offset<fb::Collective> collective;
  if (launch.collective)
    collective = addCollective(*launch.collective);
  return fb::CreateLaunch(builder, kernel, kind, opList, bufferList,
                          launch.items, launch.grain, launch.laterItems,
                          launch.scratchBytes, launch.sharedBytes, launch.flops,
                          launch.bytes, &grid, gemm, collective);
}

flatbuffers::Offset<fb::Layer>
Encoder::addLayer(const LayerTypes &layer,
                  std::map<std::string, uint32_t> &types,
                  std::vector<std::string> &names) {
  auto number = [&](const std::string &type) {
    auto [entry, isNew] = types.emplace(type, uint32_t(names.size()));
    if (isNew)
      names.push_back(type);
    return entry->second;
  };
  auto addShares = [&](const std::vector<TypeShare> &shares) {
    std::vector<fb::Share> list;
    list.reserve(shares.size());
    for (const TypeShare &share : shares)
      list.emplace_back(number(share.type), share.count, share.weight);
    return builder.CreateVectorOfStructs(list);
  };
  std::vector<flatbuffers::Offset<fb::Variable>> variables;
  for (const VariableType &variable : layer.variables) {
    std::vector<uint32_t> stored;
    stored.reserve(variable.stored.size());
    for (const std::string &type : variable.stored)
      stored.push_back(number(type));
    auto name = builder.CreateSharedString(variable.name);
    auto role = builder.CreateSharedString(variable.role);
    auto list = builder.CreateVector(stored);
    variables.push_back(
        fb::CreateVariable(builder, name, role, number(variable.type), list));
  }
  auto path = builder.CreateString(layer.path);
  auto policy = builder.CreateSharedString(layer.policy);
  auto compute = addShares(layer.compute), gradient = addShares(layer.gradient),
       storage = addShares(layer.storage);
  auto variableList = builder.CreateVector(variables);
  return fb::CreateLayer(builder, path, policy, compute, gradient, storage,
                         variableList);
}

flatbuffers::Offset<fb::Target>
Encoder::addTarget(const StoredProgram &stored) {
  const Program &program = stored.program;
  std::vector<flatbuffers::Offset<fb::Constant>> constants;
  for (const ProgramConstant &constant : program.constants) {
    auto name = builder.CreateSharedString(constant.name);
    auto element = builder.CreateSharedString(
        std::string(elementTypeName(constant.type.element)));
    auto shape = builder.CreateVector(constant.type.shape);
    uint32_t section =
        addSection({static_cast<const std::byte *>(constant.data.get()),
                    size_t(constant.bytes)});
    constants.push_back(
        fb::CreateConstant(builder, name, element, shape, section));
  }
  std::vector<flatbuffers::Offset<fb::Launch>> launches;
  launches.reserve(program.launches.size());
  for (const Launch &launch : program.launches)
    launches.push_back(addLaunch(launch));
  std::vector<flatbuffers::Offset<fb::Check>> checks;
  for (const RunCheck &check : program.checks)
    checks.push_back(
        fb::CreateCheck(builder, uint8_t(check.kind),
                        check.op.empty() ? -1 : int64_t(numberOf(check.op)),
                        check.number, check.argument));
  std::map<std::string, uint32_t> types;
  std::vector<std::string> typeNames;
  std::vector<flatbuffers::Offset<fb::Layer>> layers;
  layers.reserve(program.layers.size());
  for (const LayerTypes &layer : program.layers)
    layers.push_back(addLayer(layer, types, typeNames));
  auto name = builder.CreateString(program.target);
  auto layerList = builder.CreateVector(layers);
  auto typeList = builder.CreateVectorOfStrings(typeNames);
  auto constantList = builder.CreateVector(constants);
  auto launchList = builder.CreateVector(launches);
  flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<fb::Check>>>
      checkList;
  if (!checks.empty())
    checkList = builder.CreateVector(checks);
  flatbuffers::Offset<fb::Cuda> cuda;
  if (program.cuda)
    cuda = addCuda(*program.cuda);
  return fb::CreateTarget(builder, name, program.arenaBytes, constantList,
                          launchList, addSection(stored.code), cuda, layerList,
                          typeList, checkList);
}

flatbuffers::Offset<fb::Specialisation>
Encoder::addSpecialisation(const StoredSpecialisation &stored) {
  std::vector<flatbuffers::Offset<fb::Dimension>> dims;
  for (const auto &[name, extent] : stored.dims) {
    auto text = builder.CreateSharedString(name);
    dims.push_back(fb::CreateDimension(builder, text, extent));
  }
  std::vector<flatbuffers::Offset<fb::Target>> targets;
  targets.reserve(stored.programs.size());
  for (const StoredProgram &program : stored.programs)
    targets.push_back(addTarget(program));
  auto dimList = builder.CreateVector(dims);
  auto arguments = builder.CreateVector(addValues(stored.arguments));
  auto results = builder.CreateVector(addValues(stored.results));
  auto narrowest = builder.CreateSharedString(
      std::string(elementTypeName(stored.narrowest)));
  auto targetList = builder.CreateVector(targets);
  return fb::CreateSpecialisation(builder, dimList, stored.longestReduction,
                                  narrowest, stored.longestChain, arguments,
                                  results, targetList);
}

/// Builds the table for sections that follow a table of `tableBytes`.
void Encoder::buildTable(uint64_t tableBytes) {
  builder.Clear();
  sections.clear();
  sectionOf.clear();
  opNames.clear();
  opNumber.clear();
  std::vector<flatbuffers::Offset<fb::Specialisation>> specialisations;
  specialisations.reserve(contents.specialisations.size());
  for (const StoredSpecialisation &stored : contents.specialisations)
    specialisations.push_back(addSpecialisation(stored));
  // All sections are known now.
  std::vector<fb::Section> places;
  uint64_t end = kHeaderBytes + tableBytes;
  for (std::span<const std::byte> section : sections) {
    places.emplace_back(aligned(end), section.size());
    end = aligned(end) + section.size();
  }
  auto name = builder.CreateString(contents.name);
  auto model = builder.CreateString(contents.model);
  auto policy = builder.CreateString(contents.policy);
  auto compiler = builder.CreateString(contents.compiler);
  auto list = builder.CreateVector(specialisations);
  auto names = builder.CreateVectorOfStrings(opNames);
  auto sectionList = builder.CreateVectorOfStructs(places);
  builder.Finish(fb::CreateExecutable(builder, name, model, policy, compiler,
                                      list, names, sectionList),
                 fb::ExecutableIdentifier());
}

Result<std::vector<std::byte>> Encoder::build() {
  // The table's size does not depend on the sections' offsets: build twice.
  buildTable(0);
  uint64_t tableBytes = builder.GetSize();
  if (tableBytes > kMostTableBytes)
    return Status(StatusCode::InvalidArgument, contents.model,
                  "needs a table of " + std::to_string(tableBytes) +
                      " bytes, but a file can contain at most " +
                      std::to_string(kMostTableBytes));
  buildTable(tableBytes);
  uint64_t fileBytes = kHeaderBytes + tableBytes;
  for (std::span<const std::byte> section : sections)
    fileBytes = aligned(fileBytes) + section.size();

  std::vector<std::byte> file(fileBytes);
  auto put = [&](size_t offset, const auto &value) {
    std::memcpy(file.data() + offset, &value, sizeof(value));
  };
  put(0, kMagic);
  put(kVersionAt, kFormatVersion);
  put(kFileBytesAt, fileBytes);
  put(kTableBytesAt, tableBytes);
  std::memcpy(file.data() + kHeaderBytes, builder.GetBufferPointer(),
              tableBytes);
  uint64_t end = kHeaderBytes + tableBytes;
  for (std::span<const std::byte> section : sections) {
    if (!section.empty())
      std::memcpy(file.data() + aligned(end), section.data(), section.size());
    end = aligned(end) + section.size();
  }
  put(kDigestAt, digestOf(file));
  return file;
}

Result<std::vector<std::byte>> container::encode(const Contents &contents) {
  return Encoder(contents).build();
}
