#include "common/job/validation/program_validator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job/job_road.h"
#include "common/job/validation/invalid.h"
#include "common/partition/schema.h"
#include "common/program/content_hash.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kMostVariables = 256;
constexpr uint32_t kMostRestarts = 1000;
constexpr uint32_t kDefaultRestarts = 3;
constexpr uint32_t kMostGraceSeconds = 3600;
constexpr uint32_t kDefaultGraceSeconds = 10;
constexpr uint32_t kMostSilentSeconds = 7 * 86400;
constexpr size_t kMostShown = 100;

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", PrintableLine(CutUtf8(text, kMostShown)), "\"");
}

// Checks that no other fields of the message are set than those named.
absl::Status CheckOnly(const google::protobuf::Message& message, absl::string_view path,
                       std::initializer_list<absl::string_view> allowed,
                       absl::string_view remedy = "leave it out") {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* field : set) {
    const absl::string_view name = field->name();
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, name,
                     " is set, but the job runs a program (model.program), to which it means "
                     "nothing; ",
                     remedy));
  }
  return absl::OkStatus();
}

// Returns whether Muster sets the variable itself.
bool IsOfMuster(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"RANK",
                                          "LOCAL_RANK",
                                          "GROUP_RANK",
                                          "ROLE_RANK",
                                          "ROLE_NAME",
                                          "WORLD_SIZE",
                                          "LOCAL_WORLD_SIZE",
                                          "GROUP_WORLD_SIZE",
                                          "ROLE_WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "TORCHELASTIC_RUN_ID",
                                          "TORCHELASTIC_RESTART_COUNT",
                                          "TORCHELASTIC_MAX_RESTARTS",
                                          "TORCHELASTIC_USE_AGENT_STORE",
                                          "CUDA_VISIBLE_DEVICES"};
  // These are for the job to say (docs/python.md).
  if (name == "MUSTER_NATIVE_LIBRARY" || name == "MUSTER_SERVERS_LIBRARY") return false;
  return absl::StartsWith(name, "MUSTER_") ||
         std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool IsVariableName(absl::string_view name) {
  if (name.empty() || absl::ascii_isdigit(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

// A NUL byte would end a text early once the program has it.
absl::Status CheckNoNul(absl::string_view field, absl::string_view text) {
  if (text.find('\0') == absl::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " has a NUL byte; leave it out"));
}

absl::Status ValidateCommand(const v1::ProgramSpec& program) {
  if (program.command().empty() || program.command(0).empty()) {
    return absl::InvalidArgumentError(
        "model.program.command is empty; name the program and its arguments, such as "
        "[\"python3\", \"train.py\"]");
  }
  for (int i = 0; i < program.command_size(); ++i) {
    MUSTER_RETURN_IF_ERROR(
        CheckNoNul(absl::StrCat("model.program.command[", i, "]"), program.command(i)));
  }
  return absl::OkStatus();
}

absl::Status ValidateEnvironment(const v1::ProgramSpec& program) {
  if (program.environment_size() > kMostVariables) {
    return absl::InvalidArgumentError(absl::StrCat("model.program.environment has ",
                                                   program.environment_size(),
                                                   " variables; at most ", kMostVariables));
  }
  // In order of name, so that the same job is always refused for the same variable.
  const std::map<std::string, std::string> variables(program.environment().begin(),
                                                     program.environment().end());
  for (const auto& [name, value] : variables) {
    if (!IsVariableName(name)) {
      return Invalid("model.program.environment", absl::StrCat("for ", Quoted(name)),
                     "a variable's name has letters, digits and _, and begins with no digit");
    }
    if (IsOfMuster(name)) {
      return Invalid("model.program.environment", absl::StrCat("for ", name),
                     "Muster sets this variable itself; leave it out");
    }
    MUSTER_RETURN_IF_ERROR(CheckNoNul(absl::StrCat("model.program.environment.", name), value));
  }
  return absl::OkStatus();
}

absl::Status ValidateShipped(const v1::ProgramSpec& program) {
  if (program.shipped().empty()) return absl::OkStatus();
  if (!IsContentName(program.shipped())) {
    return Invalid("model.program.shipped", Quoted(program.shipped()),
                   "`muster submit --ship` sends a folder and names it here; leave it out of a "
                   "job's file");
  }
  if (program.working_folder().empty()) return absl::OkStatus();
  return Invalid("model.program.working_folder", Quoted(program.working_folder()),
                 "the program begins in the folder that was sent with the job "
                 "(model.program.shipped); leave one of the two out");
}

absl::Status ValidateSpec(const v1::ProgramSpec& program) {
  MUSTER_RETURN_IF_ERROR(ValidateCommand(program));
  MUSTER_RETURN_IF_ERROR(ValidateEnvironment(program));
  if (!program.working_folder().empty() && program.working_folder().front() != '/') {
    return Invalid(
        "model.program.working_folder", Quoted(program.working_folder()),
        "the coordinator takes absolute paths, which every worker has; `muster submit` makes "
        "one of a path that is relative to the job's file");
  }
  MUSTER_RETURN_IF_ERROR(CheckNoNul("model.program.working_folder", program.working_folder()));
  MUSTER_RETURN_IF_ERROR(ValidateShipped(program));
  if (program.memory_bytes() == 0) {
    return Invalid("model.program.memory_bytes", 0,
                   "say how much memory one process may take: that much is reserved, and a process "
                   "that takes more is ended");
  }
  if (program.memory_bytes() > uint64_t{1} << 50) {
    return Invalid("model.program.memory_bytes", program.memory_bytes(),
                   "no machine has more than 2^50 bytes");
  }
  if (program.max_restarts() > kMostRestarts) {
    return Invalid("model.program.max_restarts", program.max_restarts(),
                   absl::StrCat("it may be at most ", kMostRestarts));
  }
  if (program.grace_seconds() > kMostGraceSeconds) {
    return Invalid("model.program.grace_seconds", program.grace_seconds(),
                   absl::StrCat("it may be at most ", kMostGraceSeconds));
  }
  if (program.report_within_seconds() > kMostSilentSeconds) {
    return Invalid("model.program.report_within_seconds", program.report_within_seconds(),
                   absl::StrCat("it may be at most ", kMostSilentSeconds, " (0: no limit)"));
  }
  return absl::OkStatus();
}

// Checks what the job says of servers for the program's parameters.
absl::Status ValidateServers(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  MUSTER_RETURN_IF_ERROR(
      CheckOnly(update, "update.", {"dense", "sparse", "durability", "partitions", "block_bytes"},
                "the program itself says how its parameters are updated, such as "
                "muster.torch.ParameterServer(staleness=4)"));
  if ((spec.has_update() || spec.servers() > 0) &&
      update.dense() != v1::UpdateSpec::PARAMETER_SERVER) {
    return Invalid("update.dense", v1::UpdateSpec::Road_Name(update.dense()),
                   "it must be PARAMETER_SERVER for a program with parameters on servers; leave "
                   "update and servers out for one without");
  }
  if (update.sparse() == v1::UpdateSpec::ALL_REDUCE) {
    return Invalid("update.sparse", "ALL_REDUCE",
                   "a program's tables of rows are on servers; leave it out");
  }
  if (!v1::UpdateSpec::Durability_IsValid(update.durability())) {
    return Invalid("update.durability", static_cast<int>(update.durability()),
                   "it must be CHECKPOINT or EVERY_PUSH");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateProgram(const v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(CheckOnly(
      spec, "",
      {"name", "owner", "namespace", "labels", "description", "model", "workers",
       "threads_per_worker", "compute", "checkpoint", "resume_from", "update", "servers"}));
  MUSTER_RETURN_IF_ERROR(ValidateSpec(spec.model().program()));
  MUSTER_RETURN_IF_ERROR(ValidateServers(spec));
  MUSTER_RETURN_IF_ERROR(CheckOnly(spec.compute(), "compute.", {"device"}));
  if (!v1::ComputeSpec::Device_IsValid(spec.compute().device())) {
    return Invalid("compute.device", static_cast<int>(spec.compute().device()),
                   "it must be CPU or CUDA");
  }
  MUSTER_RETURN_IF_ERROR(CheckOnly(spec.checkpoint(), "checkpoint.", {"keep"}));
  if (spec.resume_from().empty()) return absl::OkStatus();
  if (const absl::Status name = ParseCheckpointName(spec.resume_from()).status(); !name.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("resume_from is ", name.message()));
  }
  return absl::OkStatus();
}

void FillProgramDefaults(v1::JobSpec& spec) {
  v1::ProgramSpec& program = *spec.mutable_model()->mutable_program();
  if (!program.has_max_restarts()) program.set_max_restarts(kDefaultRestarts);
  if (program.grace_seconds() == 0) program.set_grace_seconds(kDefaultGraceSeconds);
  if (!NeedsServers(spec)) return;
  v1::UpdateSpec& update = *spec.mutable_update();
  update.set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  if (update.durability() == v1::UpdateSpec::DURABILITY_UNSPECIFIED) {
    update.set_durability(v1::UpdateSpec::CHECKPOINT);
  }
  const DenseLayout::Options layout = LayoutOptions(update);
  update.set_partitions(layout.partitions);
  update.set_block_bytes(layout.block_bytes);
}

}  // namespace muster
