#ifndef MUSTER_CLIENT_COMMANDS_HOSTILE_COORDINATOR_FOR_TESTING_H_
#define MUSTER_CLIENT_COMMANDS_HOSTILE_COORDINATOR_FOR_TESTING_H_

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/examination.grpc.pb.h"
#include "proto/job_service.grpc.pb.h"

namespace muster {

// Valid UTF-8, as all that a message can carry, and everything that must not reach a terminal: an
// escape code, C0, DEL, C1, bidirectional controls, a line of its own.
inline constexpr char kHostile[] =
    "evil\x1b[2J\x07\x7f\xc2\x9b"
    "31m\xe2\x80\xae"
    "cod\xe2\x81\xa6.exe\r\nmuster: all is well";

// Puts the text into every string of a message, numbers that are none into every double, and one
// element into every list.
inline void Fill(google::protobuf::Message& message, int depth = 0) {
  using google::protobuf::FieldDescriptor;
  const auto& reflection = *message.GetReflection();
  const auto& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (depth == 4 || field->is_map()) continue;
      Fill(field->is_repeated() ? *reflection.AddMessage(&message, field)
                                : *reflection.MutableMessage(&message, field),
           depth + 1);
    } else if (field->type() == FieldDescriptor::TYPE_DOUBLE && !field->is_repeated()) {
      constexpr double kNone[] = {std::numeric_limits<double>::quiet_NaN(),
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity()};
      reflection.SetDouble(&message, field, kNone[i % 3]);
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (field->is_repeated()) {
        reflection.AddString(&message, field, kHostile);
      } else {
        reflection.SetString(&message, field, kHostile);
      }
    }
  }
}

// Examines a cluster of one daemon, whose every word is hostile.
class HostileExaminations final : public v1::ExaminationService::Service {
 public:
  grpc::Status ReadClock(grpc::ServerContext*, const v1::ReadClockRequest*,
                         v1::ReadClockReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status Examine(grpc::ServerContext*, const v1::ExamineRequest*,
                       grpc::ServerWriter<v1::ExaminationUpdate>* updates) override {
    v1::ExaminationUpdate daemons, report, last;
    Fill(*daemons.add_daemons());
    daemons.mutable_daemons(0)->set_live(true);
    Fill(*report.mutable_report());
    Fill(*last.mutable_last());
    for (const v1::ExaminationUpdate* update : {&daemons, &report, &last}) updates->Write(*update);
    return grpc::Status::OK;
  }
};

class HostileCoordinator final : public v1::JobService::Service {
 public:
  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*,
                         v1::SubmitJobReply* reply) override {
    reply->set_job_id("e1");
    return grpc::Status::OK;
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*,
                      v1::JobStatus* reply) override {
    const grpc::Status filled = Filled(*reply);
    reply->mutable_spec()->MergeFrom(spec);
    // A program is not evaluated by others.
    if (reply->spec().model().has_program()) {
      Fill(*reply->mutable_spec()->mutable_model()->mutable_transformer());
    }
    return filled;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsReply* reply) override {
    Fill(*reply);
    // One that waits.
    reply->mutable_jobs(0)->set_state(v1::PENDING);
    reply->clear_next_page_token();
    if (!request->job().empty()) {
      reply->mutable_jobs(0)->set_job_id(request->job());
      return grpc::Status::OK;
    }
    const v1::JobStatus first = reply->jobs(0);
    while (reply->jobs_size() < jobs) *reply->add_jobs() = first;
    return grpc::Status::OK;
  }
  grpc::Status RebalanceJob(grpc::ServerContext*, const v1::GetJobRequest*,
                            v1::JobStatus* reply) override {
    return Filled(*reply);
  }
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::GetJobRequest*,
                         v1::DeleteJobReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::GetJobRequest*,
                        grpc::ServerWriter<v1::JobStatus>* writer) override {
    v1::JobStatus status;
    Fill(status);
    status.set_job_id("e1");
    status.mutable_best()->set_clock(4);
    status.set_state(v1::PENDING);
    writer->Write(status);
    if (watched != nullptr) {
      watched();
      while (!context->IsCancelled()) usleep(1000);
      return grpc::Status::CANCELLED;
    }
    status.set_state(v1::FAILED);
    writer->Write(status);
    return grpc::Status::OK;
  }
  grpc::Status ReadLogs(grpc::ServerContext*, const v1::ReadLogsRequest*,
                        grpc::ServerWriter<v1::LogChunk>* writer) override {
    v1::LogChunk chunk;
    chunk.set_text(absl::StrCat("epoch 1\t0.5\n", kHostile, "\n"));
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status ReadMetrics(grpc::ServerContext*, const v1::ReadMetricsRequest* request,
                           grpc::ServerWriter<v1::MetricsChunk>* writer) override {
    read_metrics = *request;
    if (history.has_value()) {
      writer->Write(*history);
      return grpc::Status::OK;
    }
    v1::MetricsChunk chunk;
    Fill(chunk);
    for (v1::Series& series : *chunk.mutable_series()) {
      v1::SeriesPoint& point = *series.add_points();
      point.set_first_step(7);
      point.set_last_step(7);
      point.set_values(1);
      point.set_last(0.125);
    }
    writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status TraceJob(grpc::ServerContext*, const v1::TraceJobRequest*,
                        grpc::ServerWriter<v1::TraceChunk>* writer) override {
    v1::TraceChunk filled, first, piece, last;
    Fill(filled);
    *first.mutable_order() = filled.order();
    *piece.mutable_source() = filled.source();
    *piece.mutable_piece() = filled.piece();
    *last.mutable_missing() = filled.missing();
    last.set_ended_because(filled.ended_because());
    for (const v1::TraceChunk& chunk : {first, piece, last}) writer->Write(chunk);
    return grpc::Status::OK;
  }
  grpc::Status ListEvents(grpc::ServerContext*, const v1::GetJobRequest*,
                          v1::ListEventsReply* reply) override {
    return Filled(*reply);
  }
  grpc::Status ListCollectives(grpc::ServerContext*, const v1::GetJobRequest*,
                               v1::ListCollectivesReply* reply) override {
    return Filled(*reply);
  }
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest* request,
                         v1::JobStatus* reply) override {
    cancelled.push_back(request->job_id());
    return Filled(*reply);
  }
  grpc::Status DescribeJob(grpc::ServerContext*, const v1::DescribeJobRequest*,
                           v1::JobStatus* reply) override {
    return Filled(*reply);
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::GetJobRequest*,
                               v1::ListCheckpointsReply* reply) override {
    if (!checkpoints.has_value()) return Filled(*reply);
    *reply = *checkpoints;
    return grpc::Status::OK;
  }
  grpc::Status VerifyCheckpoint(grpc::ServerContext*, const v1::CheckpointRequest*,
                                v1::VerifyCheckpointReply* reply) override {
    return Filled(*reply);
  }
  grpc::Status DeleteCheckpoint(grpc::ServerContext*, const v1::DeleteCheckpointRequest*,
                                v1::DeleteCheckpointReply*) override {
    return {grpc::StatusCode::FAILED_PRECONDITION, kHostile};
  }
  grpc::Status DrainServer(grpc::ServerContext*, const v1::DrainServerRequest*,
                           v1::DrainServerReply* reply) override {
    Fill(*reply);
    reply->mutable_drain()->set_partitions(2);
    return grpc::Status::OK;
  }
  grpc::Status GetCluster(grpc::ServerContext*, const v1::GetClusterRequest*,
                          v1::GetClusterReply* reply) override {
    return Filled(*reply);
  }
  grpc::Status GetMetrics(grpc::ServerContext*, const v1::GetMetricsRequest*,
                          v1::GetMetricsReply* reply) override {
    return Filled(*reply);
  }

  // Called when somebody watches a job, which then goes on until nobody does.
  std::function<void()> watched;
  std::vector<std::string> cancelled;
  v1::ReadMetricsRequest read_metrics;
  // The answer of ReadMetrics, if set.
  std::optional<v1::MetricsChunk> history;
  std::optional<v1::ListCheckpointsReply> checkpoints;
  // The number of jobs that ListJobs lists.
  int jobs = 1;
  // Merged into the specification of the job that GetJob answers with.
  v1::JobSpec spec;

 private:
  static grpc::Status Filled(google::protobuf::Message& reply) {
    Fill(reply);
    return grpc::Status::OK;
  }
};

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_HOSTILE_COORDINATOR_FOR_TESTING_H_
