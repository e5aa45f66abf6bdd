//===- DecodeProgram.cpp - decoding the program of one target -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a program's constants, launches and kernels, and validates the whole
// before it may run.
//
//===----------------------------------------------------------------------===//

#include "ContainerReader.h"

#include "../Environment.h"

#include <algorithm>
#include <set>

using namespace mpc;
using namespace mpc::container;

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
    return refuse(place, "has a GEMM of an unknown kind");
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
    return refuse(place, "has a collective of an unknown kind");
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
      return refuse(place, "refers to more code than the file contains");
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
    return refuse(place,
                  forGpu ? "contains no GPU kernels"
                         : "contains GPU kernels but its target is not a GPU");
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
