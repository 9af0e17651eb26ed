#include "server/coordinator/job/request_limits.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/eval/confusion.h"
#include "common/job/validation/name_validator.h"
#include "common/text/utf8.h"
#include "server/coordinator/job/evaluation_gatherer.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Defaults, for all that the tables below do not name.
constexpr size_t kRequestBytes = 64 << 10;
// The longest path that the system takes.
constexpr size_t kStringBytes = 4096;
constexpr size_t kBytesBytes = 64 << 10;
constexpr size_t kElements = 4096;

// The experts of all blocks of the largest model.
constexpr size_t kMostLoads = kMaxTransformerLayers * kMaxExperts;

struct Limit {
  absl::string_view name;
  size_t most;
};

// Most bytes of a request, by message.
constexpr Limit kRequests[] = {
    // Each task's order repeats the specification, and the answer to a heartbeat (at most 64 MiB)
    // holds the orders of all tasks of a daemon.
    {"SubmitJobRequest", 256 << 10},
    {"ShipFolderRequest", (1 << 20) + 1024},
    {"RegisterDaemonRequest", 8 << 10},
    {"HeartbeatRequest", 8 << 20},
    {"AppendLogsRequest", (1 << 20) + 1024},
    // Its expert_loads have up to eight bytes a number.
    {"ReportProgressRequest", 8 * kMostLoads + (64 << 10)},
    {"ReportEvaluationRequest", kMaxScoreBytes},
    {"CommitCheckpointRequest", 32 << 20},
    {"ReportCollectivesRequest", 4 << 20},
    {"ReportTraceRequest", 256 << 10},
    {"ReportServerTraceRequest", 256 << 10},
    {"ReportExaminationRequest", 128 << 10},
    // Each of a job's many series is compared with each pattern.
    {"ReadMetricsRequest", 1024},
};

// Most bytes of a string or byte array, or elements of a list. "message.field" takes precedence
// over "field", which names that field in any message.
constexpr Limit kFields[] = {
    {"id", 256},
    {"job_id", 256},
    {"server_id", 256},
    {"request_id", 256},
    {"reason", 1024},
    // A task's last error; the event that repeats it keeps less.
    {"message", 256 << 10},
    {"JobSpec.name", 256},
    {"JobSpec.owner", 256},
    {"JobSpec.namespace", 256},
    {"JobSpec.initial_weights", 4096},
    {"JobSpec.labels", kMostLabels},
    {"JobSpec.description", kMostDescriptionBytes},
    {"DescribeJobRequest.description", kMostDescriptionBytes},
    // These two hold for JobSpec.labels and ListJobsRequest.labels.
    {"LabelsEntry.key", kMostLabelNameBytes},
    {"LabelsEntry.value", kMostLabelValueBytes},
    {"ListJobsRequest.labels", kMostLabels},
    {"ListJobsRequest.job", 256},
    {"ListJobsRequest.name", 256},
    {"ListJobsRequest.owner", 256},
    {"ShippedFolder.name", 256},
    {"ShipFolderRequest.data", 1 << 20},
    {"OptimizerSpec.name", 64},
    {"ScheduleSpec.name", 64},
    {"RegisterDaemonRequest.address", 512},
    {"RegisterDaemonRequest.devices", 64},
    {"Device.name", 256},
    {"HeartbeatRequest.metrics", 256},
    {"MetricFamily.name", 256},
    {"MetricFamily.help", 1024},
    {"MetricFamily.bounds", 64},
    {"MetricFamily.metrics", 1 << 14},
    {"Metric.labels", 8},
    {"Metric.counts", 65},
    {"MetricLabel.name", 64},
    {"MetricLabel.value", 256},
    {"HeartbeatRequest.moves", 1 << 16},
    {"HeartbeatRequest.replays", 1 << 16},
    {"HeartbeatRequest.partition_loads", 1 << 16},
    {"AppendLogsRequest.text", 1 << 20},
    // A job's events are sent as one message.
    {"JobEvent.text", 16 << 10},
    {"CollectiveRecord.error", 64 << 10},
    {"ReportCollectivesRequest.calls", 1000},
    {"ReportProgressRequest.collective_times", 16},
    {"CollectiveTimes.counts", 64},
    {"ExpertLoads.tokens", kMostLoads},
    {"DaemonReport.probe_host", 256},
    {"DaemonReport.disks", 8},
    {"DaemonReport.folders", 32},
    {"DaemonReport.links", 64},
    {"TraceName.name", 128},
    {"TraceName.category", 32},
    {"TraceTrack.name", 64},
    {"ReportEvaluationRequest.scores", kMaxScoreBytes},
    {"ReportEvaluationRequest.labels", kMaxScoreBytes},
    {"ReportEvaluationRequest.positive_bins", 1 << 20},
    {"ReportEvaluationRequest.negative_bins", 1 << 20},
    {"Confusion.labels", kMostConfusionClasses},
    {"Confusion.counts", kMostConfusionCounts},
    {"CommitCheckpointRequest.files", 1 << 18},
    {"CommitCheckpointRequest.schema", 24 << 20},
    // Each task's order repeats it. 4,096 columns with as many classes need less.
    {"CommitCheckpointRequest.data_preparation", kMostPreparationBytes},
};

using Limits = absl::flat_hash_map<std::string, size_t>;

template <size_t N>
Limits MakeLimits(const Limit (&table)[N]) {
  Limits limits;
  for (const Limit& limit : table) limits.emplace(limit.name, limit.most);
  return limits;
}

size_t DefaultOf(const FieldDescriptor& field) {
  if (field.is_repeated()) return kElements;
  return field.type() == FieldDescriptor::TYPE_BYTES ? kBytesBytes : kStringBytes;
}

// Returns the most elements of a list, or the most bytes of any other field.
size_t LimitOf(const FieldDescriptor& field) {
  static const Limits& limits = *new Limits(MakeLimits(kFields));
  for (const std::string& name :
       {absl::StrCat(field.containing_type()->name(), ".", field.name()), field.name()}) {
    if (const auto it = limits.find(name); it != limits.end()) return it->second;
  }
  return DefaultOf(field);
}

bool IsText(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
}

absl::Status CheckSize(const std::string& path, size_t size, absl::string_view unit, size_t most) {
  if (size <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " has ", size, " ", unit, "; the limit is ", most, ": send less"));
}

absl::Status CheckMessage(const Message& message, const std::string& path);

absl::Status CheckList(const Message& message, const FieldDescriptor& field,
                       const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (absl::Status status = CheckSize(path, size, "elements", LimitOf(field)); !status.ok()) {
    return status;
  }
  const size_t most = field.type() == FieldDescriptor::TYPE_BYTES ? kBytesBytes : kStringBytes;
  for (int i = 0; i < size; ++i) {
    absl::Status status;
    const auto element = [&] { return absl::StrCat(path, "[", i, "]"); };
    if (IsText(field)) {
      std::string scratch;
      const size_t bytes =
          reflection.GetRepeatedStringReference(message, &field, i, &scratch).size();
      if (bytes > most) status = CheckSize(element(), bytes, "bytes", most);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      status = CheckMessage(reflection.GetRepeatedMessage(message, &field, i), element());
    } else {
      return absl::OkStatus();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    absl::Status status;
    const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    if (field->is_repeated()) {
      status = CheckList(message, *field, name);
    } else if (IsText(*field)) {
      std::string scratch;
      status = CheckSize(name, reflection.GetStringReference(message, field, &scratch).size(),
                         "bytes", LimitOf(*field));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      status = CheckMessage(reflection.GetMessage(message, field), name);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

size_t MaxRequestBytes(const Descriptor& request) {
  static const Limits& limits = *new Limits(MakeLimits(kRequests));
  const auto it = limits.find(request.name());
  return it == limits.end() ? kRequestBytes : it->second;
}

absl::Status CheckLimits(const Message& request) { return CheckMessage(request, ""); }

std::string Shortened(absl::string_view text, size_t most) {
  constexpr absl::string_view kCut = "…";
  if (text.size() <= most) return std::string(text);
  return absl::StrCat(CutUtf8(text, most - kCut.size()), kCut);
}

void ShortenStrings(Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_repeated() || field->type() != FieldDescriptor::TYPE_STRING) continue;
    std::string scratch;
    const std::string& text = reflection.GetStringReference(message, field, &scratch);
    if (text.size() <= LimitOf(*field)) continue;
    reflection.SetString(&message, field, Shortened(text, LimitOf(*field)));
  }
}

}  // namespace muster
