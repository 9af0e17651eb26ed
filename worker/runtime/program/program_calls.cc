#include "worker/runtime/program/program_calls.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"
#include "common/text/dump_json.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// Larger numbers are not exact in the coordinator's sums.
constexpr uint64_t kMostCount = uint64_t{1} << 53;
// Collective calls in one report (ReportCollectivesRequest), and bytes of a name and of an error in
// one.
constexpr size_t kMostCalls = 1000;
constexpr size_t kMostTraceNameBytes = 128;
constexpr size_t kMostErrorBytes = 1024;

// Compares in a time that does not depend on the token.
bool SameToken(absl::string_view given, absl::string_view token) {
  unsigned difference = given.size() != token.size();
  for (size_t i = 0; i < given.size(); ++i) {
    difference |=
        static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
  }
  return difference == 0;
}

// Checks that the request has no other fields than these, `token` and `call`.
absl::Status CheckFields(const Json& request, std::initializer_list<absl::string_view> fields) {
  for (const auto& [name, value] : request.items()) {
    const bool known = name == "token" || name == "call" ||
                       std::find(fields.begin(), fields.end(), name) != fields.end();
    if (known) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the call has a field \"", name, "\", which is none of its own; it may have ",
        fields.size() == 0 ? "none beside token and call" : absl::StrJoin(fields, ", ")));
  }
  return absl::OkStatus();
}

// Returns a whole number of the request; `otherwise` if it has none of this name.
absl::StatusOr<uint64_t> Count(const Json& request, const char* field, uint64_t otherwise) {
  const auto found = request.find(field);
  if (found == request.end()) return otherwise;
  if (!found->is_number_unsigned() || found->get<uint64_t>() > kMostCount) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is ", DumpJson(*found),
                                                   "; it must be a whole number from 0 to 2^53"));
  }
  return found->get<uint64_t>();
}

absl::StatusOr<uint64_t> Step(const Json& request) {
  if (!request.contains("step")) {
    return absl::InvalidArgumentError("the call has no step: the number of steps made so far");
  }
  return Count(request, "step", 0);
}

// Returns an object's figures by name. JSON has no number that is not finite, so texts stand for
// those.
absl::StatusOr<std::map<std::string, double>> Figures(const Json& request, const char* field) {
  std::map<std::string, double> figures;
  const auto found = request.find(field);
  if (found == request.end() || found->is_null()) return figures;
  if (!found->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " must be an object of numbers, such as {\"loss\": 0.5}"));
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [name, value] : found->items()) {
    if (value.is_number()) {
      figures[name] = value.get<double>();
    } else if (value.is_null() || value == "NaN") {
      figures[name] = std::numeric_limits<double>::quiet_NaN();
    } else if (value == "Infinity" || value == "-Infinity") {
      figures[name] = value == "Infinity" ? kInfinity : -kInfinity;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ".", name, " must be a number, null, \"NaN\", \"Infinity\" or \"-Infinity\""));
    }
  }
  return figures;
}

// Returns a text of a collective call; empty if it has none of this name.
absl::StatusOr<std::string> Text(const Json& call, const char* field, size_t most) {
  const auto found = call.find(field);
  if (found == call.end() || found->is_null()) return std::string();
  if (!found->is_string() || found->get_ref<const std::string&>().size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("calls.", field, " must be a text of at most ", most, " bytes"));
  }
  return found->get<std::string>();
}

absl::StatusOr<v1::CollectiveRecord> RecordOf(const Json& call) {
  if (!call.is_object())
    return absl::InvalidArgumentError("calls has an element that is no object");
  v1::CollectiveRecord record;
  MUSTER_ASSIGN_OR_RETURN(const uint64_t sequence, Count(call, "sequence", 0));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t count, Count(call, "count", 0));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t started, Count(call, "started_unix_us", 0));
  record.set_sequence(sequence);
  record.set_count(count);
  record.set_started_unix_us(static_cast<int64_t>(started));
  record.set_duration_us(-1);
  if (const auto found = call.find("duration_us"); found != call.end() && !found->is_null()) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t duration, Count(call, "duration_us", 0));
    record.set_duration_us(static_cast<int64_t>(duration));
  }
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_group(), Text(call, "group", kMostTraceNameBytes));
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_operation(),
                          Text(call, "operation", kMostTraceNameBytes));
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_dtype(), Text(call, "dtype", kMostTraceNameBytes));
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_reduction(),
                          Text(call, "reduction", kMostTraceNameBytes));
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_label(), Text(call, "label", kMostTraceNameBytes));
  MUSTER_ASSIGN_OR_RETURN(*record.mutable_error(), Text(call, "error", kMostErrorBytes));
  return record;
}

// Returns what the request has of the servers' cut.
absl::StatusOr<ServedCut> Served(const Json& request) {
  ServedCut served;
  const auto found = request.find("served");
  if (found == request.end()) return served;
  const absl::Status wrong = absl::InvalidArgumentError(
      "served must be an object: empty, or with schema in base64 and files, a list of objects with "
      "path, bytes and checksum");
  if (!found->is_object()) return wrong;
  if (found->empty()) return served;
  const auto schema = found->find("schema"), files = found->find("files");
  if (schema == found->end() || !schema->is_string() || files == found->end() ||
      !files->is_array() ||
      !absl::Base64Unescape(schema->get_ref<const std::string&>(), &served.schema)) {
    return wrong;
  }
  for (const Json& file : *files) {
    if (!file.is_object() || !file.contains("path") || !file["path"].is_string() ||
        !file.contains("bytes") || !file["bytes"].is_number_unsigned() ||
        !file.contains("checksum") || !file["checksum"].is_number_unsigned()) {
      return wrong;
    }
    served.files.push_back({.path = file["path"].get<std::string>(),
                            .bytes = file["bytes"].get<uint64_t>(),
                            .checksum = file["checksum"].get<uint64_t>()});
  }
  return served;
}

}  // namespace

ProgramCalls::ProgramCalls(Facts facts, ProgramReporter& reporter, ProgramCheckpoints& checkpoints,
                           std::stop_token stop)
    : facts_(std::move(facts)),
      reporter_(reporter),
      checkpoints_(checkpoints),
      stop_(std::move(stop)) {}

std::string ProgramCalls::Answer(absl::string_view line) {
  const absl::StatusOr<Json> result = Call(line);
  Json answer = result.ok() ? *result : Json::object();
  answer["ok"] = result.ok();
  if (!result.ok()) {
    answer["code"] = absl::StatusCodeToString(result.status().code());
    answer["message"] = std::string(result.status().message());
  }
  return DumpJson(answer);
}

absl::StatusOr<Json> ProgramCalls::Call(absl::string_view line) {
  MUSTER_ASSIGN_OR_RETURN(
      const Json request,
      ParseJson(line, "the line",
                "a call: an object such as {\"token\": \"…\", \"call\": \"info\"}"));
  if (!request.is_object()) {
    return absl::InvalidArgumentError("the line is no JSON object");
  }
  const auto token = request.find("token");
  if (token == request.end() || !token->is_string() ||
      !SameToken(token->get_ref<const std::string&>(), facts_.token)) {
    return absl::PermissionDeniedError(
        "token is not this task's; its program finds it in MUSTER_TASK_TOKEN");
  }
  const auto name = request.find("call");
  const std::string call =
      name != request.end() && name->is_string() ? name->get<std::string>() : "";
  if (call == "report") return Report(request);
  if (call == "commit_checkpoint") return Commit(request);
  if (call == "begin_checkpoint" || call == "drop_checkpoint") {
    MUSTER_RETURN_IF_ERROR(CheckFields(request, {"step"}));
    MUSTER_ASSIGN_OR_RETURN(const uint64_t step, Step(request));
    Json answer = Json::object();
    if (call == "drop_checkpoint") {
      checkpoints_.Drop();
    } else {
      MUSTER_ASSIGN_OR_RETURN(answer["folder"], checkpoints_.Begin(step));
    }
    return answer;
  }
  if (call == "report_collectives") return ReportCollectives(request);
  if (call == "await_collectives_wanted") {
    MUSTER_RETURN_IF_ERROR(CheckFields(request, {}));
    MUSTER_RETURN_IF_ERROR(reporter_.AwaitCollectivesWanted(stop_));
    return Json::object();
  }
  if (call == "info" || call == "resume" || call == "endpoint") {
    MUSTER_RETURN_IF_ERROR(CheckFields(request, {}));
    return call == "info" ? Info() : call == "resume" ? Resume() : Endpoint();
  }
  if (call == "servers" || call == "shard_map") {
    MUSTER_RETURN_IF_ERROR(CheckFields(request, {}));
    return call == "servers" ? CallServers() : CallShardMap();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("call is \"", call,
                   "\"; it must be report, begin_checkpoint, commit_checkpoint, drop_checkpoint, "
                   "resume, info, endpoint, await_collectives_wanted, "
                   "report_collectives, servers or shard_map"));
}

absl::StatusOr<Json> ProgramCalls::Report(const Json& request) {
  MUSTER_RETURN_IF_ERROR(CheckFields(request, {"step", "metrics", "examples", "evaluation"}));
  ProgramReport report;
  MUSTER_ASSIGN_OR_RETURN(report.step, Step(request));
  MUSTER_ASSIGN_OR_RETURN(report.metrics, Figures(request, "metrics"));
  MUSTER_ASSIGN_OR_RETURN(report.examples, Count(request, "examples", 0));
  MUSTER_ASSIGN_OR_RETURN(report.evaluation, Figures(request, "evaluation"));
  reporter_.Add(report);
  return Json::object();
}

absl::StatusOr<Json> ProgramCalls::Commit(const Json& request) {
  MUSTER_RETURN_IF_ERROR(CheckFields(request, {"step", "whole", "served"}));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t step, Step(request));
  const auto whole = request.find("whole");
  if (whole != request.end() && !whole->is_boolean()) {
    return absl::InvalidArgumentError("whole must be true or false");
  }
  const bool is_whole = whole != request.end() && whole->get<bool>();
  // Otherwise the job could not go back to the checkpoint.
  if (facts_.servers.has_value() != request.contains("served")) {
    return absl::InvalidArgumentError(
        facts_.servers.has_value()
            ? "this job has parameters on servers, so its checkpoints have them, too: make them "
              "with ParameterServer.checkpoint, on all ranks"
            : "the checkpoint has a cut of servers, but this job has no servers");
  }
  MUSTER_ASSIGN_OR_RETURN(const ServedCut served, Served(request));
  using Share = ProgramCheckpoints::Share;
  MUSTER_RETURN_IF_ERROR(
      checkpoints_.Commit(step, is_whole ? Share::kWhole : Share::kPart, served, stop_));
  return Json::object();
}

absl::StatusOr<Json> ProgramCalls::ReportCollectives(const Json& request) {
  MUSTER_RETURN_IF_ERROR(CheckFields(request, {"calls"}));
  const auto calls = request.find("calls");
  if (calls == request.end() || !calls->is_array() || calls->size() > kMostCalls) {
    return absl::InvalidArgumentError(
        absl::StrCat("calls must be an array of at most ", kMostCalls, " collective calls"));
  }
  v1::ReportCollectivesRequest report;
  for (const Json& call : *calls) {
    MUSTER_ASSIGN_OR_RETURN(*report.add_calls(), RecordOf(call));
  }
  reporter_.TellCollectives(std::move(report));
  return Json::object();
}

Json ProgramCalls::Endpoint() const {
  const HostEndpointOptions& endpoint = facts_.endpoint;
  return {{"host", endpoint.host},
          {"first_port", endpoint.first_port},
          {"last_port", endpoint.last_port},
          {"advertised_host", endpoint.advertised_host},
          {"shared_memory", endpoint.shared_memory},
          {"tls", endpoint.tls},
          {"connections", endpoint.connections},
          {"round_secret", absl::BytesToHexString(facts_.round_secret)}};
}

Json ProgramCalls::Info() const {
  return {{"job", facts_.job_id}, {"worker", facts_.worker_id},      {"slot", facts_.slot},
          {"rank", facts_.rank},  {"world_size", facts_.world_size}, {"restarts", facts_.restarts}};
}

absl::StatusOr<Json> ProgramCalls::CallServers() const {
  if (!facts_.servers.has_value()) {
    return absl::FailedPreconditionError(
        "this job has no servers for the program's parameters; submit it with update.dense "
        "PARAMETER_SERVER");
  }
  Json answer = {{"order", absl::Base64Escape(facts_.servers->order)},
                 {"begins", facts_.servers->begins},
                 {"tls", nullptr}};
  if (const TlsFiles& tls = facts_.servers->tls; !tls.None()) {
    answer["tls"] = {
        {"authority", tls.authority}, {"certificate", tls.certificate}, {"key", tls.key}};
  }
  return answer;
}

absl::StatusOr<Json> ProgramCalls::CallShardMap() const {
  MUSTER_RETURN_IF_ERROR(CallServers().status());
  MUSTER_ASSIGN_OR_RETURN(const std::string map, facts_.servers->shard_map());
  Json answer = Json::object();
  answer["map"] = absl::Base64Escape(map);
  return answer;
}

Json ProgramCalls::Resume() const {
  Json answer = {{"folder", nullptr}, {"step", facts_.resume_step}};
  if (!facts_.resume_folder.empty()) answer["folder"] = facts_.resume_folder;
  return answer;
}

}  // namespace muster
