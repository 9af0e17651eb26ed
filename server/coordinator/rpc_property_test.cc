// Sends extremes to every field of every rpc of the coordinator, and expects an answer to each, and
// that an honest job is served meanwhile. Everything runs on one thread and by a fake clock, so a
// failure repeats itself.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/test_jobs.h"
#include "common/rpc/extreme_messages.h"
#include "common/rpc/membership/protocol.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/cluster_service.pb.h"
#include "proto/examination.pb.h"
#include "proto/job_service.pb.h"
#include "proto/task_service.pb.h"
#include "server/coordinator/rpc_edge.h"
#include "server/coordinator/simulation/simulated_cluster.h"

namespace muster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A call that was made: whether it has been answered.
using Answered = std::function<bool()>;
// Hands a request to the coordinator, as its service does.
using Serve = std::function<Answered(Coordinator&, const Message&)>;

template <typename Request, typename Reply>
Serve Park(std::function<void(Coordinator&, const Request&, Call<Reply>)> work) {
  return [work](Coordinator& coordinator, const Message& request) -> Answered {
    Answer<Reply> answer;
    work(coordinator, static_cast<const Request&>(request), answer.call());
    return [answer] { return answer.came(); };
  };
}

template <typename Request>
Serve AtOnce(std::function<void(Coordinator&, const Request&)> work) {
  return [work](Coordinator& coordinator, const Message& request) -> Answered {
    work(coordinator, static_cast<const Request&>(request));
    return [] { return true; };
  };
}

// Returns all methods by their full names; EveryMethodIsServed compares them with the services.
const std::map<std::string, Serve>& Methods() {
  using C = Coordinator;
  static const auto& methods = *new std::map<std::string, Serve>{
      {"JobService.SubmitJob",
       Park<v1::SubmitJobRequest, v1::SubmitJobReply>(
           [](C& c, const auto& r, auto call) { c.submits().Submit(r, std::move(call)); })},
      {"JobService.FindShippedFolder",
       Park<v1::ShippedFolder, v1::FindShippedFolderReply>(
           [](C& c, const auto& r, auto call) { c.shipped().Find(r, std::move(call)); })},
      {"JobService.ShipFolder",
       Park<v1::ShipFolderRequest, std::shared_ptr<FolderUpload>>(
           [](C& c, const auto& r, auto call) { c.shipped().Begin(r.folder(), std::move(call)); })},
      {"JobService.GetJob",
       AtOnce<v1::GetJobRequest>([](C& c, const auto& r) { c.jobs().Get(r.job_id()).ok(); })},
      {"JobService.ListJobs",
       AtOnce<v1::ListJobsRequest>([](C& c, const auto& r) { c.jobs().List(r).ok(); })},
      {"JobService.WatchJob",
       Park<v1::GetJobRequest, JobRequests::StatusUpdate>([](C& c, const auto& r, auto call) {
         c.jobs().NextStatus(r.job_id(), 0, std::move(call));
       })},
      {"JobService.ReadLogs",
       Park<v1::ReadLogsRequest, JobRequests::LogUpdate>(
           [](C& c, const auto& r, auto call) { c.jobs().NextLog(r, std::move(call)); })},
      {"JobService.ReadMetrics",
       Park<v1::ReadMetricsRequest, MetricsRequests::Update>(
           [](C& c, const auto& r, auto call) { c.metrics().Next(r, {}, std::move(call)); })},
      {"JobService.ListEvents",
       AtOnce<v1::GetJobRequest>([](C& c, const auto& r) { c.jobs().Events(r.job_id()).ok(); })},
      {"JobService.ListCollectives",
       Park<v1::GetJobRequest, v1::ListCollectivesReply>([](C& c, const auto& r, auto call) {
         c.jobs().ListCollectives(r.job_id(), std::move(call));
       })},
      {"JobService.TraceJob",
       Park<v1::TraceJobRequest, TraceRequests::Update>([](C& c, const auto& r, auto call) {
         const absl::StatusOr<TraceRequests::Ticket> ticket = c.traces().Begin(r);
         if (!ticket.ok()) return call.done(ticket.status());
         c.traces().Next(*ticket, std::move(call));
       })},
      {"JobService.CancelJob",
       AtOnce<v1::CancelJobRequest>([](C& c, const auto& r) { c.jobs().Cancel(r).ok(); })},
      {"JobService.DeleteJob",
       Park<v1::GetJobRequest, v1::DeleteJobReply>(
           [](C& c, const auto& r, auto call) { c.jobs().Delete(r.job_id(), std::move(call)); })},
      {"JobService.DescribeJob",
       AtOnce<v1::DescribeJobRequest>([](C& c, const auto& r) { c.jobs().Describe(r).ok(); })},
      {"JobService.ExportJob",
       AtOnce<v1::CheckpointRequest>([](C& c, const auto& r) { c.checkpoints().Folder(r).ok(); })},
      {"JobService.ListCheckpoints",
       Park<v1::GetJobRequest, v1::ListCheckpointsReply>([](C& c, const auto& r, auto call) {
         c.checkpoints().List(r.job_id(), std::move(call));
       })},
      {"JobService.VerifyCheckpoint",
       AtOnce<v1::CheckpointRequest>([](C& c, const auto& r) { c.checkpoints().Folder(r).ok(); })},
      {"JobService.DeleteCheckpoint",
       Park<v1::DeleteCheckpointRequest, v1::DeleteCheckpointReply>(
           [](C& c, const auto& r, auto call) { c.checkpoints().Delete(r, std::move(call)); })},
      {"JobService.DrainServer",
       AtOnce<v1::DrainServerRequest>([](C& c, const auto& r) { c.moves().Drain(r).ok(); })},
      {"JobService.RebalanceJob", AtOnce<v1::GetJobRequest>([](C& c, const auto& r) {
         c.moves().Rebalance(r.job_id()).IgnoreError();
       })},
      {"JobService.GetCluster",
       AtOnce<v1::GetClusterRequest>([](C& c, const auto&) { c.jobs().Cluster(); })},
      {"JobService.GetMetrics",
       AtOnce<v1::GetMetricsRequest>([](C& c, const auto&) { c.jobs().Metrics(); })},
      {"ClusterService.RegisterDaemon",
       Park<v1::RegisterDaemonRequest, v1::RegisterDaemonReply>(
           [](C& c, const auto& r, auto call) { c.daemons().Register(r, std::move(call)); })},
      {"ClusterService.Heartbeat",
       Park<v1::HeartbeatRequest, v1::HeartbeatReply>(
           [](C& c, const auto& r, auto call) { c.daemons().Heartbeat(r, std::move(call)); })},
      {"ClusterService.AppendLogs",
       AtOnce<v1::AppendLogsRequest>([](C& c, const auto& r) { c.daemons().AppendLogs(r).ok(); })},
      {"ClusterService.ReportServerTrace",
       AtOnce<v1::ReportServerTraceRequest>(
           [](C& c, const auto& r) { c.daemons().ReportServerTrace(r).ok(); })},
      {"TaskService.Rendezvous",
       Park<v1::RendezvousRequest, v1::RendezvousReply>(
           [](C& c, const auto& r, auto call) { c.tasks().Rendezvous(r, std::move(call)); })},
      {"TaskService.ReportProgress", AtOnce<v1::ReportProgressRequest>([](C& c, const auto& r) {
         c.tasks().ReportProgress(r).ok();
       })},
      {"TaskService.ReportEvaluation",
       Park<v1::ReportEvaluationRequest, v1::ReportEvaluationReply>(
           [](C& c, const auto& r, auto call) { c.tasks().ReportEvaluation(r, std::move(call)); })},
      {"TaskService.Adjust",
       Park<v1::AdjustRequest, v1::AdjustReply>(
           [](C& c, const auto& r, auto call) { c.tasks().Adjust(r, std::move(call)); })},
      {"TaskService.VerifyStep",
       Park<v1::VerifyStepRequest, v1::VerifyStepReply>(
           [](C& c, const auto& r, auto call) { c.tasks().VerifyStep(r, std::move(call)); })},
      {"TaskService.CommitCheckpoint",
       Park<v1::CommitCheckpointRequest, v1::CommitCheckpointReply>(
           [](C& c, const auto& r, auto call) { c.tasks().CommitCheckpoint(r, std::move(call)); })},
      {"TaskService.ReportCollectives",
       AtOnce<v1::ReportCollectivesRequest>(
           [](C& c, const auto& r) { c.tasks().ReportCollectives(r).ok(); })},
      {"TaskService.ReportTrace",
       AtOnce<v1::ReportTraceRequest>([](C& c, const auto& r) { c.tasks().ReportTrace(r).ok(); })},
      {"TaskService.GetShardMap",
       Park<v1::GetShardMapRequest, v1::ShardMap>(
           [](C& c, const auto& r, auto call) { c.tasks().GetShardMap(r, std::move(call)); })},
      {"ExaminationService.ReadClock",
       AtOnce<v1::ReadClockRequest>([](C& c, const auto&) { c.examinations().ReadClock(); })},
      {"ExaminationService.Examine",
       Park<v1::ExamineRequest, ExaminationRequests::Update>([](C& c, const auto& r, auto call) {
         const absl::StatusOr<ExaminationRequests::Ticket> ticket = c.examinations().Begin(r);
         if (!ticket.ok()) return call.done(ticket.status());
         c.examinations().Next(*ticket, std::move(call));
       })},
      {"ExaminationService.AwaitExamination",
       Park<v1::AwaitExaminationRequest, v1::ExaminationOrder>(
           [](C& c, const auto& r, auto call) { c.examinations().Await(r, std::move(call)); })},
      {"ExaminationService.ReportExamination",
       AtOnce<v1::ReportExaminationRequest>(
           [](C& c, const auto& r) { c.examinations().Report(r).ok(); })},
  };
  return methods;
}

std::vector<std::pair<std::string, const Descriptor*>> DescribedMethods() {
  std::vector<std::pair<std::string, const Descriptor*>> methods;
  for (const Descriptor* one :
       {v1::SubmitJobRequest::descriptor(), v1::HeartbeatRequest::descriptor(),
        v1::RendezvousRequest::descriptor(), v1::ExamineRequest::descriptor()}) {
    const auto& service = *one->file()->service(0);
    for (int i = 0; i < service.method_count(); ++i) {
      methods.emplace_back(absl::StrCat(service.name(), ".", service.method(i)->name()),
                           service.method(i)->input_type());
    }
  }
  return methods;
}

// A valid request, where only such a one gets further than to its first check.
void FillIn(Message& message, const v1::TaskOrder& victim, uint64_t number) {
  if (auto* submit = dynamic_cast<v1::SubmitJobRequest*>(&message)) {
    *submit->mutable_spec() = number % 3 == 0   ? AllReduceJob()
                              : number % 3 == 1 ? SmallJob()
                                                : HybridJob();
    submit->set_request_id(absl::StrCat("hostile-", number));
  } else if (auto* daemon = dynamic_cast<v1::RegisterDaemonRequest*>(&message)) {
    daemon->set_protocol_version(kProtocolVersion);
    daemon->set_kind(number % 2 == 0 ? v1::SERVER : v1::WORKER);
    daemon->set_id(absl::StrCat("stranger-", number % 7));
    daemon->set_process_nonce(number);
    daemon->set_address("stranger:1");
    daemon->set_slots(1);
  } else if (const FieldDescriptor* task = message.GetDescriptor()->FindFieldByName("task")) {
    const v1::TaskIdentity identity = SimulatedCluster::Identity(victim);
    message.GetReflection()->MutableMessage(&message, task)->CopyFrom(identity);
  }
}

// Brings a message over the edge as gRPC does. Returns false if it is refused there.
bool PassesTheEdge(const Message& sent, Message& received) {
  grpc::ByteBuffer bytes;
  EXPECT_TRUE(WriteReply(sent, bytes).ok());
  return ReadRequest(bytes, received).ok();
}

// The parameter is a seed.
class RpcPropertyTest : public ::testing::TestWithParam<uint64_t> {};

TEST(RpcCoverageTest, EveryMethodIsServed) {
  std::vector<std::string> described, served;
  for (const auto& [name, type] : DescribedMethods()) described.push_back(name);
  for (const auto& [name, serve] : Methods()) served.push_back(name);
  std::sort(described.begin(), described.end());
  EXPECT_EQ(described, served);
}

TEST_P(RpcPropertyTest, EveryRequestIsAnsweredAndAnHonestJobTrainsOn) {
  LimitMemory(uint64_t{1} << 30);
  Extremes extremes(GetParam());
  SimulatedCluster cluster;
  cluster.AddServer("s0");
  cluster.AddWorker("w0", 2);
  const std::string honest = *cluster.Submit(SmallJob());
  cluster.MeetAll(honest);
  // A job and a daemon that strangers know of and may do as they like with.
  cluster.AddServer("victim-s");
  cluster.AddWorker("victim-w", 2);
  const std::string victim = *cluster.Submit(SmallJob());
  const v1::TaskOrder order = *cluster.Order(victim, 0);
  extremes.known = {victim, absl::StrCat(victim, "@4"), "victim-s", "victim-w", "sgd", "accuracy"};

  const auto methods = DescribedMethods();
  std::vector<std::pair<std::string, Answered>> made;
  int passed = 0;
  for (uint64_t number = 0; number < 4000; ++number) {
    const auto& [name, type] = methods[extremes.Draw(methods.size())];
    auto* factory = google::protobuf::MessageFactory::generated_factory();
    const Message& prototype = *factory->GetPrototype(type);
    std::unique_ptr<Message> request(prototype.New()), received(prototype.New());
    if (extremes.Draw(4) != 0) FillIn(*request, order, number);
    extremes.Fill(*request, 1 + extremes.Draw(12));
    if (!PassesTheEdge(*request, *received)) continue;
    ++passed;
    made.emplace_back(absl::StrCat(name, " of number ", number),
                      Methods().at(name)(cluster.coordinator(), *received));
    cluster.Run();
    if (number % 100 != 0) continue;
    cluster.Pass(absl::Seconds(1));
    ASSERT_EQ(cluster.State(honest), v1::RUNNING) << "after " << name << " of number " << number;
  }
  EXPECT_GT(passed, 1000) << "not all is refused at the edge";
  cluster.Finish(honest);
  EXPECT_EQ(cluster.State(honest), v1::SUCCEEDED);
  EXPECT_TRUE(cluster.Submit(SmallJob()).status().code() != absl::StatusCode::kUnavailable);
  // What waits for others is told so when it is over.
  cluster.coordinator().Shutdown();
  for (const auto& [what, answered] : made) EXPECT_TRUE(answered()) << what;
}

INSTANTIATE_TEST_SUITE_P(Seeds, RpcPropertyTest, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace muster
