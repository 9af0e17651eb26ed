#include "server/coordinator/page/page_api.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/catch_out_of_memory.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/job/request_limits.h"
#include "server/coordinator/metrics/gathered_metrics.h"
#include "server/coordinator/page/ask.h"
#include "server/coordinator/page/query_fields.h"

namespace muster {
namespace {

// Points of each series that a call gets if it does not say how many.
constexpr uint32_t kUsualPoints = 1000;
// Most bytes of series in one answer, as protobuf; its JSON is some three times as long.
constexpr size_t kMostSeriesBytes = 4 << 20;

struct JobPart {
  absl::string_view name;
  absl::string_view method;
};
// The parts that a job has below its own path.
constexpr JobPart kJobParts[] = {{"metrics", "GET"},     {"events", "GET"},      {"log", "GET"},
                                 {"checkpoints", "GET"}, {"collectives", "GET"}, {"cancel", "POST"},
                                 {"describe", "POST"}};

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message) {
  return CatchOutOfMemory("the answer", [&]() -> absl::StatusOr<std::string> {
    std::string json;
    const auto made = google::protobuf::util::MessageToJsonString(message, &json);
    if (made.ok()) return json;
    return absl::InternalError(absl::StrCat("the answer cannot be written: ", made.ToString()));
  });
}

template <typename Reply>
absl::StatusOr<std::string> ToJson(const absl::StatusOr<Reply>& reply) {
  MUSTER_RETURN_IF_ERROR(reply.status());
  return ToJson(static_cast<const google::protobuf::Message&>(*reply));
}

absl::Status CheckNoQuery(const QueryFields& query) {
  v1::GetClusterRequest no_fields;
  return SetFields(query, {}, no_fields);
}

}  // namespace

absl::string_view PageApi::MethodOf(absl::Span<const std::string> path) {
  if (path.size() == 1) return path[0] == "cluster" || path[0] == "jobs" ? "GET" : "";
  if (path.size() < 2 || path.size() > 3 || path[0] != "jobs" || path[1].empty()) return "";
  if (path.size() == 2) return "GET";
  const auto* part = std::find_if(std::begin(kJobParts), std::end(kJobParts),
                                  [&](const JobPart& known) { return known.name == path[2]; });
  return part == std::end(kJobParts) ? "" : part->method;
}

absl::StatusOr<std::string> PageApi::Answer(absl::Span<const std::string> path,
                                            const QueryFields& query, const std::string& body) {
  if (path.size() == 1 && path[0] == "jobs") {
    v1::ListJobsRequest request;
    MUSTER_RETURN_IF_ERROR(SetFields(query, {}, request));
    return ToJson(AskRead<v1::ListJobsReply>(
        loop_, [request](Coordinator& coordinator) { return coordinator.jobs().List(request); }));
  }
  const std::string part = path.size() == 3 ? path[2] : "";
  if (part == "metrics") return ReadMetrics(path[1], query);
  if (part == "log") return ReadLog(path[1], query);
  MUSTER_RETURN_IF_ERROR(CheckNoQuery(query));
  if (path[0] == "cluster") {
    return ToJson(AskRead<v1::GetClusterReply>(
        loop_, [](Coordinator& coordinator) { return coordinator.Cluster(); }));
  }
  if (part == "cancel") return Cancel(path[1], body);
  if (part == "describe") return Describe(path[1], body);
  return OfJob(path[1], part);
}

absl::StatusOr<std::string> PageApi::OfJob(const std::string& job, absl::string_view what) {
  // The limits are those of calls over gRPC.
  v1::GetJobRequest request;
  request.set_job_id(job);
  MUSTER_RETURN_IF_ERROR(CheckLimits(request));
  if (what == "events") {
    return ToJson(AskRead<v1::ListEventsReply>(
        loop_, [job](Coordinator& coordinator) { return coordinator.jobs().Events(job); }));
  }
  if (what == "checkpoints") {
    return ToJson(AskParkedRead<v1::ListCheckpointsReply>(
        loop_, [job](Coordinator& coordinator, Call<v1::ListCheckpointsReply> call) {
          coordinator.checkpoints().List(job, std::move(call));
        }));
  }
  if (what == "collectives") {
    return ToJson(AskParkedRead<v1::ListCollectivesReply>(
        loop_, [job](Coordinator& coordinator, Call<v1::ListCollectivesReply> call) {
          coordinator.jobs().ListCollectives(job, std::move(call));
        }));
  }
  return ToJson(AskRead<v1::JobStatus>(
      loop_, [job](Coordinator& coordinator) { return coordinator.jobs().Get(job); }));
}

absl::StatusOr<std::string> PageApi::ReadMetrics(const std::string& job, const QueryFields& query) {
  v1::ReadMetricsRequest request;
  request.set_job_id(job);
  MUSTER_RETURN_IF_ERROR(SetFields(query, {"jobId", "follow"}, request));
  if (request.max_points() == 0) request.set_max_points(kUsualPoints);
  v1::MetricsChunk all;
  MetricsRequests::Update update;
  size_t bytes = 0;
  while (!update.last) {
    MUSTER_ASSIGN_OR_RETURN(
        update, AskParkedRead<MetricsRequests::Update>(
                    loop_, [request, position = update.position](
                               Coordinator& coordinator, Call<MetricsRequests::Update> call) {
                      coordinator.metrics().Next(request, position, std::move(call));
                    }));
    bytes += update.chunk.ByteSizeLong();
    if (bytes > kMostSeriesBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the series have more than ", kMostSeriesBytes >> 20,
                       " MiB; ask for fewer of them by name, or for a smaller maxPoints"));
    }
    // A later chunk has a series again only if it changed meanwhile; that one counts.
    for (v1::Series& series : *update.chunk.mutable_series()) {
      const auto known =
          std::find_if(all.mutable_series()->begin(), all.mutable_series()->end(),
                       [&](const v1::Series& earlier) { return earlier.name() == series.name(); });
      if (known == all.mutable_series()->end()) {
        *all.add_series() = std::move(series);
      } else {
        *known = std::move(series);
      }
    }
    if (!update.chunk.marks().empty())
      *all.mutable_marks() = std::move(*update.chunk.mutable_marks());
  }
  return ToJson(all);
}

absl::StatusOr<std::string> PageApi::ReadLog(const std::string& job, const QueryFields& query) {
  v1::ReadLogsRequest request;
  request.set_job_id(job);
  MUSTER_RETURN_IF_ERROR(SetFields(query, {"jobId", "follow"}, request));
  MUSTER_ASSIGN_OR_RETURN(
      const JobRequests::LogUpdate update,
      AskParkedRead<JobRequests::LogUpdate>(
          loop_, [request](Coordinator& coordinator, Call<JobRequests::LogUpdate> call) {
            coordinator.jobs().NextLog(request, std::move(call));
          }));
  return ToJson(update.chunk);
}

absl::StatusOr<std::string> PageApi::Cancel(const std::string& job, const std::string& body) {
  v1::CancelJobRequest request;
  const auto read = google::protobuf::util::JsonStringToMessage(body, &request);
  if (!read.ok() || !request.job_id().empty()) {
    return absl::InvalidArgumentError(
        R"(the body must be {} or {"reason": "..."}, which says who cancels the job and why)");
  }
  request.set_job_id(job);
  if (request.reason().empty()) request.set_reason("cancelled on the page");
  MUSTER_RETURN_IF_ERROR(CheckLimits(request));
  return ToJson(AskParked<v1::JobStatus>(
      loop_, [request](Coordinator& coordinator, Call<v1::JobStatus> call) {
        call.done(CatchOutOfMemory("the call", [&] { return coordinator.jobs().Cancel(request); }));
      }));
}

absl::StatusOr<std::string> PageApi::Describe(const std::string& job, const std::string& body) {
  v1::DescribeJobRequest request;
  const auto read = google::protobuf::util::JsonStringToMessage(body, &request);
  if (!read.ok() || !request.job_id().empty()) {
    return absl::InvalidArgumentError(
        R"(the body must be {"description": "..."}, or {}, which removes the description)");
  }
  request.set_job_id(job);
  MUSTER_RETURN_IF_ERROR(CheckLimits(request));
  return ToJson(AskParked<v1::JobStatus>(loop_, [request](Coordinator& coordinator,
                                                          Call<v1::JobStatus> call) {
    call.done(CatchOutOfMemory("the call", [&] { return coordinator.jobs().Describe(request); }));
  }));
}

absl::StatusOr<std::string> PageApi::Metrics() {
  MUSTER_ASSIGN_OR_RETURN(GatheredMetrics gathered,
                          AskRead<GatheredMetrics>(loop_, [](Coordinator& coordinator) {
                            return coordinator.jobs().GatherMetrics();
                          }));
  return CatchOutOfMemory(
      "the metrics", [&]() -> absl::StatusOr<std::string> { return std::move(gathered).Text(); });
}

}  // namespace muster
