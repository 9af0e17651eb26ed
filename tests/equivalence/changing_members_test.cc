// Jobs on servers whose slots come and go: each generation's tasks end between two steps or in one,
// and those of the next go on with the tables where they are.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/base/philox.h"
#include "common/files/temp_folder.h"
#include "common/rpc/retry.h"
#include "common/step/step_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "tests/equivalence/in_process_servers.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/slot_training.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/data/sampling/sampler.h"
#include "worker/runtime/coordinator_client/fake_coordinator_client.h"
#include "worker/runtime/task/task.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/servers/takeover.h"

namespace muster {
namespace {

// The tasks of one generation.
struct Generation {
  std::vector<uint32_t> slots;
  // The clock after which they end; 0: at the job's end.
  uint64_t end_after = 0;
  // The first of them ends so many clocks earlier: the others have begun steps that none completes.
  uint64_t first_ends_earlier = 0;
};

// Brings one generation's tasks together, as the coordinator does.
class MemberMeeting {
 public:
  explicit MemberMeeting(size_t members) : members_(members) {}

  uint64_t Arrive(const v1::RendezvousRequest& request) {
    absl::MutexLock lock(&mutex_);
    if (request.has_taken_over_clock()) start_clock_ = request.taken_over_clock();
    ++arrived_;
    const auto all = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return arrived_ >= members_; };
    mutex_.Await(absl::Condition(&all));
    return start_clock_;
  }

 private:
  const size_t members_;
  absl::Mutex mutex_;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t start_clock_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The coordinator of one task, which is told when to end.
class MemberClient final : public CoordinatorClient {
 public:
  MemberClient(MemberMeeting& meeting, uint64_t end_after) : meeting_(meeting) {
    v1::ReportProgressReply reply;
    reply.set_end_after_clock(end_after);
    told_.SetProgressReply(reply);
  }

  absl::StatusOr<v1::RendezvousReply> Rendezvous(v1::RendezvousRequest request) override {
    v1::RendezvousReply reply;
    reply.set_start_clock(meeting_.Arrive(request));
    return reply;
  }
  absl::StatusOr<v1::ReportProgressReply> ReportProgress(
      v1::ReportProgressRequest request) override {
    return told_.ReportProgress(std::move(request));
  }
  absl::Status ReportCollectives(v1::ReportCollectivesRequest request) override {
    return told_.ReportCollectives(std::move(request));
  }
  absl::StatusOr<v1::ReportEvaluationReply> ReportEvaluation(
      v1::ReportEvaluationRequest request) override {
    return told_.ReportEvaluation(std::move(request));
  }
  absl::StatusOr<v1::AdjustReply> Adjust(v1::AdjustRequest request) override {
    return told_.Adjust(std::move(request));
  }
  absl::StatusOr<v1::VerifyStepReply> VerifyStep(v1::VerifyStepRequest request) override {
    return told_.VerifyStep(std::move(request));
  }
  absl::Status CommitCheckpoint(v1::CommitCheckpointRequest request,
                                std::stop_token stop) override {
    return told_.CommitCheckpoint(std::move(request), stop);
  }
  absl::StatusOr<v1::ShardMap> GetShardMap(uint64_t min_version, absl::Duration wait) override {
    return told_.GetShardMap(min_version, wait);
  }

 private:
  MemberMeeting& meeting_;
  FakeCoordinatorClient told_;
};

class ChangingMembersTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder_));
    spec.mutable_stop()->set_steps(12);
    spec.set_workers(3);
    spec.set_min_workers(1);
    spec.set_max_workers(4);
    spec.mutable_clipping()->set_by_global_norm(0.5);
    // Before each evaluation a task reports, and hears when it is to end.
    spec.mutable_evaluation()->set_every_steps(1);
    return spec;
  }

  v1::TaskOrder Order(const v1::JobSpec& spec, uint64_t generation, const Generation& members,
                      const InProcessServers& servers) {
    v1::TaskOrder order;
    order.set_job_id("job");
    *order.mutable_spec() = spec;
    order.set_generation(generation);
    order.set_incarnation(generation);
    order.mutable_member_slots()->Assign(members.slots.begin(), members.slots.end());
    if (generation > 1) order.set_takes_over_generation(1);
    *order.mutable_shard_map() = servers.Deal("job", generation, spec.update().partitions());
    order.set_checkpoint_root(checkpoints_.root());
    return order;
  }

  // Trains the job by one generation after another, and returns what its tables come to.
  TrainedValues Train(const v1::JobSpec& spec, const std::vector<Generation>& generations,
                      const std::map<std::string, std::vector<uint64_t>>& keys) {
    InProcessServers servers(2, checkpoints_.storage(), Reach::kCalls);
    v1::TaskOrder last;
    for (uint64_t number = 1; number <= generations.size(); ++number) {
      const Generation& generation = generations[number - 1];
      last = Order(spec, number, generation, servers);
      RunGeneration(generation, last, servers);
    }
    const PreparedJob job = PrepareJob(spec).value();
    last.set_slot(generations.back().slots.front());
    last.set_incarnation(last.incarnation() + 1);
    ParameterServerStrategy::Options options;
    options.pull_f32 = true;
    const auto reader = ParameterServerStrategy::Create(OrderOfMember(last, 0), *job.schema,
                                                        options, RoutingOf(servers, last))
                            .value();
    EXPECT_EQ(reader->Start().status(), absl::OkStatus());
    return ReadValues(job, job.model->description().tensors, job.total_steps, *reader, keys);
  }

  ShardRouterDependencies RoutingOf(const InProcessServers& servers, const v1::TaskOrder& order) {
    ShardRouterDependencies routing = servers.Routing(order.shard_map(), nullptr);
    routing.log = [](absl::string_view) {};
    return routing;
  }

  void RunGeneration(const Generation& generation, const v1::TaskOrder& order,
                     const InProcessServers& servers) {
    MemberMeeting meeting(generation.slots.size());
    const bool ends = generation.end_after > 0;
    std::vector<absl::Status> statuses(generation.slots.size());
    std::vector<std::thread> tasks;
    for (size_t i = 0; i < generation.slots.size(); ++i) {
      tasks.emplace_back([&, i] {
        v1::TaskOrder own = order;
        own.set_slot(generation.slots[i]);
        const uint64_t earlier = i == 0 ? generation.first_ends_earlier : 0;
        MemberClient coordinator(meeting, ends ? generation.end_after - earlier : 0);
        const ShardRouterDependencies routing = RoutingOf(servers, own);
        TaskDependencies dependencies = {};
        dependencies.coordinator = &coordinator;
        dependencies.clock = &clock_;
        dependencies.waiter = &waiter_;
        dependencies.make_client = routing.make_client;
        dependencies.storage = &checkpoints_.storage();
        dependencies.log = [](absl::string_view) {};
        statuses[i] = RunTask(own, dependencies);
      });
    }
    for (std::thread& task : tasks) task.join();
    for (const absl::Status& status : statuses) {
      EXPECT_EQ(status.code(), ends ? absl::StatusCode::kCancelled : absl::StatusCode::kOk)
          << status << " in generation " << order.generation();
    }
  }

  const TempFolder folder_;
  RunCheckpoints checkpoints_;
  const RealClock clock_;
  RealWaiter waiter_;
};

TEST_P(ChangingMembersTest, ChangesBetweenStepsComeToWhatOneProcessTrains) {
  const v1::JobSpec spec = Job();
  const TrainedValues alone = TrainLocally(spec);
  const std::vector<Generation> generations = {{.slots = {0, 1, 2}, .end_after = 1},
                                               {.slots = {0, 2}, .end_after = 2},
                                               {.slots = {0, 1, 2, 3}}};
  ExpectClose(Train(spec, generations, alone.keys), alone, 1e-5);
}

TEST_P(ChangingMembersTest, AStepOfWhichASlotIsMissingIsMadeAgainByTheNextMembers) {
  v1::JobSpec spec = Job();
  for (const auto durability : {v1::UpdateSpec::CHECKPOINT, v1::UpdateSpec::EVERY_PUSH}) {
    spec.mutable_update()->set_durability(durability);
    const TrainedValues alone = TrainLocally(spec);
    const std::vector<Generation> generations = {
        {.slots = {0, 1, 2}, .end_after = 2, .first_ends_earlier = 1},
        {.slots = {1, 3}, .end_after = 3, .first_ends_earlier = 1},
        {.slots = {2}, .end_after = 3},
        {.slots = {0, 1, 2}}};
    ExpectClose(Train(spec, generations, alone.keys), alone, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, ChangingMembersTest, ::testing::ValuesIn(ModelNames()));

TEST(ExamplesOfChangingMembersTest, EachIsUsedOnceAnEpochThroughAHundredChanges) {
  constexpr int64_t kExamples = 80;
  constexpr int64_t kBatch = 8;
  const Philox random(1, "members", "examples");
  std::vector<int64_t> used;
  for (int64_t clock = 0; clock < 100; ++clock) {
    SamplerOptions options;
    options.seed = 5;
    // As many members as there are after each change, of a job of 4.
    options.data_ranks = 1 + static_cast<int64_t>(random.Below(6, clock, 0));
    options.job_data_ranks = 4;
    options.batches = StepBatches(kBatch);
    options.training_examples = kExamples;
    const auto sampler = Sampler::Create(options).value();
    for (int64_t rank = 0; rank < options.data_ranks; ++rank) {
      for (int64_t part = 0; part < sampler->MicroBatches(clock); ++part) {
        std::vector<int64_t> examples;
        sampler->MicroBatchExamples(clock, rank, part, examples);
        used.insert(used.end(), examples.begin(), examples.end());
      }
    }
  }
  ASSERT_EQ(used.size(), 10 * kExamples);
  for (auto epoch = used.begin(); epoch != used.end(); epoch += kExamples) {
    std::vector<int64_t> sorted(epoch, epoch + kExamples);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < kExamples; ++i) EXPECT_EQ(sorted[i], i);
  }
}

}  // namespace
}  // namespace muster
