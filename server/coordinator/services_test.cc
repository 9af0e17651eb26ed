// The coordinator over gRPC: registration, a parked rendezvous, streams, errors and shutdown.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/job/test_jobs.h"
#include "common/program/content_hash.h"
#include "common/program/program_proof.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/services_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class ServicesTest : public ServicesFixture {};

TEST_F(ServicesTest, AFolderIsShippedOverTheWireOnce) {
  const std::string content(3 << 20, 'x');
  ContentHash hash;
  hash.Add(content);
  v1::ShipFolderRequest first;
  v1::ShippedFolder& folder = *first.mutable_folder();
  folder.set_name(hash.Name());
  folder.set_bytes(content.size());
  folder.set_proof(ProofOfShipped(folder, kServiceToken));
  const auto ship = [&](size_t bytes) {
    v1::ShipFolderReply reply;
    const auto context = Context();
    const auto stream = jobs_->ShipFolder(context.get(), &reply);
    bool goes_on = stream->Write(first);
    for (size_t at = 0; goes_on && at < bytes; at += 1 << 20) {
      v1::ShipFolderRequest part;
      part.set_data(content.substr(at, std::min<size_t>(1 << 20, bytes - at)));
      goes_on = stream->Write(part);
    }
    stream->WritesDone();
    return stream->Finish();
  };
  const auto found = [&] {
    v1::FindShippedFolderReply reply;
    const grpc::Status status = jobs_->FindShippedFolder(Context().get(), folder, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return reply.found();
  };
  EXPECT_THAT(ship(content.size() - 1).error_message(), HasSubstr("lacks 1 of the bytes"));
  EXPECT_FALSE(found());
  const grpc::Status shipped = ship(content.size());
  EXPECT_TRUE(shipped.ok()) << shipped.error_message();
  EXPECT_TRUE(found());
  // The coordinator does not wait for what it has.
  EXPECT_TRUE(ship(0).ok());
  folder.set_proof("forged");
  EXPECT_EQ(ship(content.size()).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  // A stream without anything, and a caller that goes away.
  v1::ShipFolderReply reply;
  const auto context = Context();
  const auto empty = jobs_->ShipFolder(context.get(), &reply);
  empty->WritesDone();
  EXPECT_EQ(empty->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto gone = Context();
  const auto cancelled = jobs_->ShipFolder(gone.get(), &reply);
  gone->TryCancel();
  EXPECT_EQ(cancelled->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(ServicesTest, AJobRunsOverTheWire) {
  Register(v1::SERVER, "s0");
  const uint64_t worker = Register(v1::WORKER, "w0");
  const std::string job = Submit();

  // Watched from beginning to end.
  std::vector<v1::JobState> seen;
  std::thread watcher([&] {
    v1::GetJobRequest request;
    request.set_job_id(job);
    auto context = Context();
    auto stream = jobs_->WatchJob(context.get(), request);
    v1::JobStatus status;
    while (stream->Read(&status)) seen.push_back(status.state());
    EXPECT_TRUE(stream->Finish().ok());
  });

  const v1::HeartbeatReply orders = Beat("w0", worker);
  ASSERT_EQ(orders.tasks_size(), 2);
  std::vector<std::thread> tasks;
  for (const v1::TaskOrder& order : orders.tasks()) {
    tasks.emplace_back([&, order] {
      v1::RendezvousRequest request;
      request.mutable_task()->set_job_id(job);
      request.mutable_task()->set_generation(order.generation());
      request.mutable_task()->set_slot(order.slot());
      request.mutable_task()->set_incarnation(order.incarnation());
      request.set_total_steps(10);
      v1::RendezvousReply reply;
      const grpc::Status status = tasks_->Rendezvous(Context().get(), request, &reply);
      EXPECT_TRUE(status.ok()) << status.error_message();
    });
  }
  for (std::thread& task : tasks) task.join();
  EXPECT_EQ(State(job), v1::RUNNING);

  v1::ReportCollectivesRequest told;
  told.mutable_task()->set_job_id(job);
  told.mutable_task()->set_generation(1);
  told.mutable_task()->set_slot(1);
  told.mutable_task()->set_incarnation(1);
  told.add_calls()->set_label("bucket 0");
  v1::ReportCollectivesReply taken;
  EXPECT_TRUE(tasks_->ReportCollectives(Context().get(), told, &taken).ok());
  v1::GetJobRequest shown;
  shown.set_job_id(job);
  v1::ListCollectivesReply collectives;
  EXPECT_TRUE(jobs_->ListCollectives(Context().get(), shown, &collectives).ok());
  ASSERT_EQ(collectives.slots_size(), 1);
  EXPECT_EQ(collectives.slots(0).calls(0).label(), "bucket 0");

  v1::AppendLogsRequest append;
  append.set_job_id(job);
  append.set_text("a line\n");
  v1::AppendLogsReply appended;
  EXPECT_TRUE(cluster_->AppendLogs(Context().get(), append, &appended).ok());

  v1::CommitCheckpointRequest commit;
  commit.mutable_task()->set_job_id(job);
  commit.mutable_task()->set_generation(1);
  commit.mutable_task()->set_incarnation(1);
  commit.set_clock(10);
  v1::CommitCheckpointReply committed;
  EXPECT_TRUE(tasks_->CommitCheckpoint(Context().get(), commit, &committed).ok());

  v1::HeartbeatRequest ended;
  ended.set_id("w0");
  ended.set_incarnation(worker);
  for (const v1::TaskOrder& order : orders.tasks()) {
    v1::TaskReport& report = *ended.add_tasks();
    report.set_job_id(job);
    report.set_generation(order.generation());
    report.set_slot(order.slot());
    report.set_incarnation(order.incarnation());
    report.set_state(v1::TaskReport::ENDED);
  }
  v1::HeartbeatReply after;
  ASSERT_TRUE(cluster_->Heartbeat(Context().get(), ended, &after).ok());
  EXPECT_EQ(after.tasks_size(), 0);
  watcher.join();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back(), v1::SUCCEEDED);

  v1::ReadMetricsRequest series;
  series.set_job_id(job);
  series.set_follow(true);
  const auto series_context = Context();
  auto metrics = jobs_->ReadMetrics(series_context.get(), series);
  v1::MetricsChunk metrics_chunk;
  while (metrics->Read(&metrics_chunk)) {
  }
  EXPECT_TRUE(metrics->Finish().ok());

  v1::ReadLogsRequest read;
  read.set_job_id(job);
  read.set_follow(true);
  auto logs_context = Context();
  auto logs = jobs_->ReadLogs(logs_context.get(), read);
  std::string text;
  v1::LogChunk chunk;
  while (logs->Read(&chunk)) text += chunk.text();
  EXPECT_TRUE(logs->Finish().ok());
  EXPECT_EQ(text, "a line\n");

  v1::GetJobRequest by_id;
  by_id.set_job_id(job);
  auto export_context = Context();
  v1::CheckpointRequest export_request;
  export_request.set_job_id(job);
  export_request.set_clock(10);
  auto exported = jobs_->ExportJob(export_context.get(), export_request);
  std::string bytes;
  v1::ExportChunk piece;
  while (exported->Read(&piece)) bytes += piece.data();
  EXPECT_TRUE(exported->Finish().ok());
  EXPECT_THAT(bytes, HasSubstr("weights of /checkpoints/" + job + "/10"));

  v1::ListCheckpointsReply listed;
  EXPECT_TRUE(jobs_->ListCheckpoints(Context().get(), by_id, &listed).ok());
  ASSERT_EQ(listed.checkpoints_size(), 1);
  EXPECT_EQ(listed.checkpoints(0).clock(), 10);
  v1::CheckpointRequest last;
  last.set_job_id(job);
  v1::VerifyCheckpointReply intact, damaged;
  EXPECT_TRUE(jobs_->VerifyCheckpoint(Context().get(), last, &intact).ok());
  EXPECT_EQ(intact.damage_size(), 0);
  archive_.damaged.insert("/checkpoints/" + job + "/10");
  EXPECT_TRUE(jobs_->VerifyCheckpoint(Context().get(), last, &damaged).ok());
  ASSERT_EQ(damaged.damage_size(), 1);
  EXPECT_THAT(damaged.damage(0), HasSubstr("/10/p0"));
  // A checkpoint that there is no memory for costs its caller the answer, and nobody else anything.
  archive_.out_of_memory = true;
  v1::VerifyCheckpointReply none;
  EXPECT_EQ(jobs_->VerifyCheckpoint(Context().get(), last, &none).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(jobs_->ListCheckpoints(Context().get(), by_id, &listed).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  auto exporting = Context();
  EXPECT_EQ(jobs_->ExportJob(exporting.get(), last)->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  archive_.out_of_memory = false;
  v1::DeleteCheckpointRequest remove;
  remove.set_job_id(job);
  remove.set_clock(10);
  v1::DeleteCheckpointReply removed;
  EXPECT_TRUE(jobs_->DeleteCheckpoint(Context().get(), remove, &removed).ok());
  EXPECT_EQ(removed.clocks_size(), 1);
  last.set_clock(10);
  EXPECT_EQ(jobs_->VerifyCheckpoint(Context().get(), last, &intact).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);

  v1::DescribeJobRequest describe;
  describe.set_job_id(job);
  describe.set_description("kept as the baseline");
  v1::JobStatus described;
  EXPECT_TRUE(jobs_->DescribeJob(Context().get(), describe, &described).ok());
  EXPECT_EQ(described.spec().description(), "kept as the baseline");
  describe.set_description(std::string(4097, 'd'));
  const grpc::Status too_long = jobs_->DescribeJob(Context().get(), describe, &described);
  EXPECT_EQ(too_long.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(too_long.error_message(), HasSubstr("description has 4097 bytes; the limit is 4096"));

  v1::DeleteJobReply deleted;
  EXPECT_TRUE(jobs_->DeleteJob(Context().get(), by_id, &deleted).ok());
  v1::JobStatus gone;
  EXPECT_EQ(jobs_->GetJob(Context().get(), by_id, &gone).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServicesTest, ErrorsArriveWithCodeAndMessage) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  request.mutable_spec()->mutable_update()->set_staleness_bound(-1);
  request.set_request_id("r");
  v1::SubmitJobReply reply;
  const grpc::Status status = jobs_->SubmitJob(Context().get(), request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("update.staleness_bound is -1"));

  v1::GetJobRequest none;
  none.set_job_id("j0-none");
  auto context = Context();
  auto stream = jobs_->WatchJob(context.get(), none);
  v1::JobStatus unused;
  EXPECT_FALSE(stream->Read(&unused));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ServicesTest, WhatIsTooLargeIsRefusedByNameAndOthersAreServed) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  request.set_request_id("r");
  v1::SubmitJobReply reply;
  // A request with 60 MB of names is not even read.
  const std::string name(600, 'c');
  for (int i = 0; i < 100'000; ++i) {
    request.mutable_spec()->mutable_data()->mutable_csv()->add_categorical(name);
  }
  const grpc::Status large = jobs_->SubmitJob(Context().get(), request, &reply);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(large.error_message(), HasSubstr("the SubmitJobRequest has 60"));
  EXPECT_THAT(large.error_message(), HasSubstr("the limit is 262144"));

  *request.mutable_spec() = SmallJob();
  request.mutable_spec()->set_name(std::string(100'000, 'n'));
  EXPECT_THAT(jobs_->SubmitJob(Context().get(), request, &reply).error_message(),
              HasSubstr("spec.name has 100000 bytes"));
  v1::CancelJobRequest cancel;
  cancel.set_job_id("j1");
  cancel.set_reason(std::string(2000, 'r'));
  v1::JobStatus status;
  EXPECT_THAT(jobs_->CancelJob(Context().get(), cancel, &status).error_message(),
              HasSubstr("reason has 2000 bytes"));
  v1::RegisterDaemonRequest daemon;
  daemon.set_id(std::string(5000, 'd'));
  v1::RegisterDaemonReply registered;
  EXPECT_THAT(cluster_->RegisterDaemon(Context().get(), daemon, &registered).error_message(),
              HasSubstr("id has 5000 bytes"));
  v1::GetJobRequest by_id;
  by_id.set_job_id(std::string(1000, 'j'));
  auto context = Context();
  EXPECT_THAT(jobs_->WatchJob(context.get(), by_id)->Finish().error_message(),
              HasSubstr("job_id has 1000 bytes"));

  Register(v1::SERVER, "s0");
  const uint64_t worker = Register(v1::WORKER, "w0");
  const std::string job = Submit();
  Beat("w0", worker);
  EXPECT_EQ(State(job), v1::PLACING);
}

TEST_F(ServicesTest, RpcsAreMeasured) {
  v1::GetJobRequest request;
  request.set_job_id("nobody");
  v1::JobStatus status;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(jobs_->GetJob(Context().get(), request, &status).error_code(),
              grpc::StatusCode::NOT_FOUND);
  }
  v1::GetMetricsReply metrics;
  ASSERT_TRUE(jobs_->GetMetrics(Context().get(), {}, &metrics).ok());
  const std::string labels = "{daemon=\"coordinator\",method=\"JobService/GetJob\"";
  EXPECT_THAT(metrics.text(), HasSubstr("\nmuster_rpc_seconds_count" + labels + "} 2\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("\nmuster_rpc_failures_total{daemon=\"coordinator\",code="
                                        "\"NOT_FOUND\",method=\"JobService/GetJob\"} 2\n"));
}

// An error is delivered however long the text is that it quotes.
TEST_F(ServicesTest, LongErrorsAreCut) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = SmallJob();
  request.mutable_spec()->mutable_optimizer()->set_name("sgd");
  request.mutable_spec()->set_initial_weights(std::string(4000, 'w'));
  request.set_request_id("r");
  v1::SubmitJobReply reply;
  const grpc::Status status = jobs_->SubmitJob(Context().get(), request, &reply);
  EXPECT_THAT(status.error_message(), HasSubstr("initial_weights is \"www"));
  EXPECT_LE(status.error_message().size(), 4096u);
}

TEST_F(ServicesTest, ListsJobsInPages) {
  Register(v1::SERVER, "s0");
  Register(v1::WORKER, "w0");
  std::vector<std::string> jobs;
  for (const char* id : {"a", "b", "c"}) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = SmallJob();
    request.set_request_id(id);
    v1::SubmitJobReply reply;
    ASSERT_TRUE(jobs_->SubmitJob(Context().get(), request, &reply).ok());
    jobs.push_back(reply.job_id());
  }
  v1::ListJobsRequest request;
  request.set_page_size(2);
  v1::ListJobsReply first, second;
  ASSERT_TRUE(jobs_->ListJobs(Context().get(), request, &first).ok());
  ASSERT_EQ(first.jobs_size(), 2);
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(jobs_->ListJobs(Context().get(), request, &second).ok());
  ASSERT_EQ(second.jobs_size(), 1);
  EXPECT_EQ(second.jobs(0).job_id(), jobs[2]);
  EXPECT_EQ(second.next_page_token(), "");
  request.set_page_token("second");
  EXPECT_EQ(jobs_->ListJobs(Context().get(), request, &second).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServicesTest, ShutdownEndsParkedCallsAndStreams) {
  const uint64_t worker = Register(v1::WORKER, "w0");
  const std::string job = Submit();
  const v1::HeartbeatReply first = Beat("w0", worker);
  grpc::Status heartbeat, watch;
  absl::Notification watching;
  std::thread beating([&] {
    v1::HeartbeatRequest request;
    request.set_id("w0");
    request.set_incarnation(worker);
    request.set_seen_orders_version(first.orders_version());
    request.set_poll_ms(60000);
    v1::HeartbeatReply reply;
    heartbeat = cluster_->Heartbeat(Context().get(), request, &reply);
  });
  std::thread watcher([&] {
    v1::GetJobRequest request;
    request.set_job_id(job);
    auto context = Context();
    auto stream = jobs_->WatchJob(context.get(), request);
    v1::JobStatus status;
    EXPECT_TRUE(stream->Read(&status));
    watching.Notify();
    while (stream->Read(&status)) {
    }
    watch = stream->Finish();
  });
  watching.WaitForNotification();
  loop_->Shutdown();
  watcher.join();
  beating.join();
  EXPECT_EQ(watch.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(heartbeat.error_code(), grpc::StatusCode::UNAVAILABLE);

  // Later calls that would be parked are answered at once.
  v1::HeartbeatRequest late;
  late.set_id("w0");
  late.set_incarnation(worker);
  late.set_seen_orders_version(first.orders_version());
  late.set_poll_ms(60000);
  v1::HeartbeatReply reply;
  EXPECT_EQ(cluster_->Heartbeat(Context().get(), late, &reply).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  v1::GetJobRequest late_watch;
  late_watch.set_job_id(job);
  auto context = Context();
  auto stream = jobs_->WatchJob(context.get(), late_watch);
  v1::JobStatus status;
  EXPECT_TRUE(stream->Read(&status));
  EXPECT_FALSE(stream->Read(&status));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServicesTest, ACancelledCallIsLetGo) {
  const uint64_t worker = Register(v1::WORKER, "w0");
  const v1::HeartbeatReply first = Beat("w0", worker);
  auto context = Context();
  std::thread beating([&] {
    v1::HeartbeatRequest request;
    request.set_id("w0");
    request.set_incarnation(worker);
    request.set_seen_orders_version(first.orders_version());
    request.set_poll_ms(60000);
    v1::HeartbeatReply reply;
    EXPECT_EQ(cluster_->Heartbeat(context.get(), request, &reply).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  context->TryCancel();
  beating.join();
  EXPECT_EQ(Beat("w0", worker).tasks_size(), 0) << "others are served";
}

}  // namespace
}  // namespace muster
