// Jobs train by all-reduce on clusters of real processes, with servers for their rows and without
// any server at all.

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"
#include "tests/harness/safetensors_reader.h"
#include "tests/harness/shared_cluster.h"
#include "tests/integration/relative_distance_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The small job's dense parameters.
constexpr double kElements = 20 * 32 + 32 + 32 * 4 + 4;

v1::JobSpec AllReduce(v1::JobSpec spec) {
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  return spec;
}

// A small language model: rows in sparse tables, and dense layers over them.
v1::JobSpec SmallLanguageModel() {
  return ParseJobOrDie(absl::StrCat(R"pb(
    name: "words"
    workers: 2
    batch_size: 64
    seed: 3
    model { ngram { orders: 2 embedding_dim: 4 hidden: 16 } }
    data {
      text { path: "/usr/share/common-licenses/Apache-2.0" }
      holdout: 0.1
    }
    optimizer { name: "adagrad" learning_rate: 0.1 }
    stop { steps: 60 }
    update {
      dense: PARAMETER_SERVER
      sparse: PARAMETER_SERVER
      durability: CHECKPOINT
      deterministic: true
    }
  )pb"));
}

class AllReduceTest : public SharedClusterTest {
 protected:
  ExportedTensors Weights(const v1::JobStatus& job) {
    const auto weights = cluster_->Export(job.job_id());
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : ExportedTensors();
  }
};

TEST_F(AllReduceTest, TrainsWithoutServersAndReportsWhatItMoved) {
  const v1::JobStatus job = Train(AllReduce(SmallJob()));
  EXPECT_EQ(job.progress().step(), 100u);
  EXPECT_EQ(job.partitions_size(), 0);
  EXPECT_EQ(job.predicted_server_bytes(), 0u);
  EXPECT_EQ(job.progress().bytes_pushed_per_step(), 0);
  // 2(W-1)/W of the gradients, for W = 2.
  EXPECT_EQ(job.progress().bytes_sent_per_step(), 4 * kElements);
  ASSERT_EQ(job.tasks_size(), 2);
  for (const v1::TaskStatus& task : job.tasks()) {
    EXPECT_EQ(task.steps(), 100u);
    EXPECT_EQ(task.bytes_sent(), 100 * 4 * kElements);
    EXPECT_GT(task.compute_seconds(), 0);
    EXPECT_GT(task.process_cpu_seconds(), 0);
    EXPECT_GT(task.process_peak_bytes(), 1u << 20);
    EXPECT_LE(
        task.compute_seconds() + task.exposed_communication_seconds() + task.waiting_seconds(),
        task.training_seconds() * 1.001);
  }
  ASSERT_GE(job.evaluations_size(), 1);
  EXPECT_GT(job.evaluations().rbegin()->value(), 0.9);
  EXPECT_GT(job.evaluations().rbegin()->training_seconds(), 0);
  EXPECT_EQ(job.checkpoint_clock(), 100u);
}

TEST_F(AllReduceTest, DeterministicRunsEqualParameterServersBitForBit) {
  const ExportedTensors servers = Weights(Train(SmallJob()));
  ASSERT_FALSE(servers.empty());
  EXPECT_TRUE(Weights(Train(AllReduce(SmallJob()))) == servers);
}

TEST_F(AllReduceTest, FreeOrderAgreesWithinRounding) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_stop()->set_steps(50);
  EXPECT_LE(RelativeDistance(Weights(Train(AllReduce(spec))), Weights(Train(spec))), 1e-5);
}

TEST_F(AllReduceTest, RowsAreGatheredOrStayOnServers) {
  const ExportedTensors servers = Weights(Train(SmallLanguageModel()));
  ASSERT_FALSE(servers.empty());
  EXPECT_LE(RelativeDistance(Weights(Train(AllReduce(SmallLanguageModel()))), servers), 1e-5);
  v1::JobSpec hybrid = SmallLanguageModel();
  hybrid.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  const v1::JobStatus job = Train(hybrid);
  EXPECT_GT(job.partitions_size(), 0);
  EXPECT_GT(job.progress().bytes_pushed_per_step(), 0);
  EXPECT_GT(job.progress().bytes_sent_per_step(), 0);
  EXPECT_LE(RelativeDistance(Weights(job), servers), 1e-5);
}

TEST_F(AllReduceTest, MicroBatchesAndScalingAndWireTypesTrain) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_deterministic(false);
  spec.mutable_stop()->set_steps(50);
  const ExportedTensors whole = Weights(Train(spec));
  for (bool all_reduce : {false, true}) {
    v1::JobSpec parts = all_reduce ? AllReduce(spec) : spec;
    parts.set_micro_batches(4);
    EXPECT_LE(RelativeDistance(Weights(Train(parts)), whole), 1e-5) << all_reduce;
  }
  v1::JobSpec scaled = AllReduce(spec);
  scaled.mutable_schedule()->set_scaling("linear");
  scaled.mutable_schedule()->set_base_batch_size(2 * spec.batch_size());
  v1::JobSpec by_hand = AllReduce(spec);
  by_hand.mutable_optimizer()->set_learning_rate(spec.optimizer().learning_rate() / 2);
  EXPECT_TRUE(Weights(Train(scaled)) == Weights(Train(by_hand)));
  v1::JobSpec narrow = AllReduce(spec);
  narrow.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  const v1::JobStatus job = Train(narrow);
  EXPECT_EQ(job.progress().bytes_sent_per_step(), 2 * kElements);
  EXPECT_LE(RelativeDistance(Weights(job), whole), 0.05);
}

TEST_F(AllReduceTest, AJobOfOneRoadGivesItsWeightsToTheOther) {
  v1::JobSpec first = SmallJob();
  first.mutable_stop()->set_steps(20);
  const v1::JobStatus servers = Train(first);
  v1::JobSpec second = AllReduce(SmallJob());
  second.mutable_stop()->set_steps(20);
  second.set_initial_weights(servers.job_id());
  const v1::JobStatus reduced = Train(second);
  v1::JobSpec third = SmallJob();
  third.mutable_stop()->set_steps(20);
  third.set_initial_weights(reduced.job_id());
  const ExportedTensors there_and_back = Weights(Train(third));
  // The same three jobs without leaving the servers.
  second = SmallJob();
  second.mutable_stop()->set_steps(20);
  second.set_initial_weights(servers.job_id());
  third.set_initial_weights(Train(second).job_id());
  EXPECT_TRUE(there_and_back == Weights(Train(third)));
}

TEST_F(AllReduceTest, AveragesAreTheSameOnBothRoadsAndTakeTheWeightsPlace) {
  const auto exported = [](const v1::JobStatus& job, bool averaged) {
    v1::CheckpointRequest request;
    request.set_job_id(job.job_id());
    request.set_averaged(averaged);
    return cluster_->Export(request);
  };
  v1::JobSpec spec = SmallJob();
  spec.mutable_stop()->set_steps(20);
  const v1::JobStatus plain = Train(spec);
  const absl::Status none = exported(plain, true).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("kept no averages"));

  spec.mutable_optimizer()->set_average_decay(0.9);
  const v1::JobStatus served = Train(spec);
  const v1::JobStatus reduced = Train(AllReduce(spec));
  EXPECT_TRUE(Weights(served) == Weights(plain));
  const ExportedTensors averages = exported(served, true).value();
  EXPECT_FALSE(averages == Weights(served));
  EXPECT_TRUE(averages == exported(reduced, true).value());

  for (const v1::JobSpec& road : {spec, AllReduce(spec)}) {
    v1::JobSpec next = road;
    next.set_initial_weights(served.job_id());
    next.set_averaged_weights(true);
    // It is as small as makes no difference.
    next.mutable_optimizer()->set_learning_rate(1e-30f);
    next.mutable_stop()->set_steps(1);
    EXPECT_TRUE(Weights(Train(next)) == averages);
  }
}

TEST_F(AllReduceTest, GoingOnFromACheckpointGivesTheBitsOfOneLongJob) {
  v1::JobSpec dense = SmallJob();
  dense.mutable_optimizer()->set_name("adam");
  dense.mutable_optimizer()->set_learning_rate(0.01);
  dense.mutable_schedule()->set_name("cosine");
  dense.mutable_schedule()->set_total_steps(40);
  v1::JobSpec rows = SmallLanguageModel();
  rows.mutable_update()->set_deterministic(true);
  v1::JobSpec durable = dense;
  durable.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
  struct Case {
    const char* name;
    v1::JobSpec first, second;
  };
  for (Case& job : std::vector<Case>{{"servers", dense, dense},
                                     {"durable servers", durable, durable},
                                     {"all-reduce", AllReduce(dense), AllReduce(dense)},
                                     {"from servers to all-reduce", dense, AllReduce(dense)},
                                     {"rows on servers", rows, rows}}) {
    SCOPED_TRACE(job.name);
    job.first.mutable_stop()->set_steps(40);
    const ExportedTensors whole = Weights(Train(job.first));
    job.first.mutable_stop()->set_steps(20);
    const v1::JobStatus half = Train(job.first);
    job.second.mutable_stop()->set_steps(40);
    job.second.set_resume_from(absl::StrCat(half.job_id(), "@20"));
    const v1::JobStatus rest = Train(job.second);
    EXPECT_EQ(rest.progress().step(), 40u);
    EXPECT_EQ(rest.tasks(0).steps(), 20u) << "of its own";
    ASSERT_FALSE(whole.empty());
    EXPECT_FALSE(Weights(half) == whole);
    EXPECT_TRUE(Weights(rest) == whole);
  }
}

// Each token of each block with experts is in the status once, whatever the ranks divide.
TEST_F(AllReduceTest, LoadsOfExpertsAreThoseOfAllTasks) {
  constexpr uint64_t kSteps = 4, kBatch = 8, kContext = 16, kTopK = 2;
  for (const char* const parallelism : {"", "pipeline: 2", "tensor: 2", "tensor: 2 sequence: false",
                                        "context: 2", "zero { stage: 2 }"}) {
    SCOPED_TRACE(parallelism);
    const v1::JobStatus job = Train(ParseJobOrDie(absl::StrCat(
        R"pb(
          name: "experts"
          workers: 4
          batch_size: 8
          micro_batches: 2
          model {
            transformer {
              layers: 3
              width: 16
              heads: 2
              context: 16
              feed_forward: 32
              no_biases: true
              moe { experts: 4 top_k: 2 expert_width: 8 dense_layers: 1 auxiliary_loss: 0.01 }
            }
          }
          data { sequences { path: "/usr/share/common-licenses/Apache-2.0" } }
          optimizer { name: "sgd" learning_rate: 0.1 }
          update { dense: ALL_REDUCE sparse: ALL_REDUCE }
          stop { steps: 4 }
          parallelism {)pb",
        parallelism, "}")));
    const v1::ExpertLoads& loads = job.expert_loads();
    EXPECT_EQ(loads.experts(), 4);
    EXPECT_THAT(loads.blocks(), ElementsAre(0, 2));
    ASSERT_EQ(loads.tokens_size(), 8);
    for (const int first : {0, 4}) {
      const auto begin = loads.tokens().begin() + first;
      EXPECT_EQ(std::accumulate(begin, begin + 4, uint64_t{0}), kSteps * kBatch * kContext * kTopK);
    }
  }
}

TEST_F(AllReduceTest, GoesOnFromNothingThatIsAnotherModels) {
  v1::JobSpec first = SmallJob();
  first.mutable_stop()->set_steps(5);
  v1::JobSpec next = SmallJob();
  next.set_resume_from(Train(first).job_id());
  // All of its tensors would fit into those of the checkpoint.
  next.mutable_model()->mutable_mlp()->set_hidden(0, 16);
  for (const v1::JobSpec& spec : {next, AllReduce(next)}) {
    const auto id = cluster_->Submit(spec);
    ASSERT_TRUE(id.ok()) << id.status();
    const auto job = cluster_->AwaitEnd(*id);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state(), v1::FAILED);
    EXPECT_THAT(job->message(), HasSubstr("has shape [32, 20] in the checkpoint"));
    EXPECT_THAT(job->message(), HasSubstr("[16, 20]"));
  }
}

TEST_F(AllReduceTest, RefusalsNameTheField) {
  struct Case {
    void (*change)(v1::JobSpec&);
    const char* text;
  };
  for (const Case& refused : {
           Case{[](v1::JobSpec& spec) { spec.mutable_update()->set_staleness_bound(2); },
                "update.staleness_bound"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
                },
                "update.durability"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                },
                "update.sparse"},
           Case{[](v1::JobSpec& spec) { spec.set_min_workers(3); }, "min_workers"},
           Case{[](v1::JobSpec& spec) { spec.set_micro_batches(1000000); }, "micro_batches"},
           Case{[](v1::JobSpec& spec) { spec.mutable_schedule()->set_scaling("cubic"); },
                "schedule.scaling"},
       }) {
    v1::JobSpec spec = AllReduce(SmallJob());
    refused.change(spec);
    const auto job_id = cluster_->Submit(spec);
    EXPECT_EQ(job_id.status().code(), absl::StatusCode::kInvalidArgument) << refused.text;
    EXPECT_THAT(std::string(job_id.status().message()), HasSubstr(refused.text));
  }
}

TEST_F(AllReduceTest, ShowsTheLastCollectiveCalls) {
  v1::JobSpec endless = AllReduce(SmallJob());
  endless.mutable_stop()->set_steps(100000000);
  const auto id = cluster_->Submit(endless);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto running = cluster_->Await(
      *id, [](const v1::JobStatus& status) { return status.progress().step() > 0; });
  ASSERT_TRUE(running.ok()) << running.status();
  v1::ListCollectivesReply reply;
  const absl::Status listed = cluster_->jobs().Collectives(*id, reply);
  ASSERT_TRUE(listed.ok()) << listed;
  ASSERT_EQ(reply.slots_size(), 2);
  for (const v1::SlotCollectives& slot : reply.slots()) {
    ASSERT_GT(slot.calls_size(), 0) << slot.slot();
    bool reduced = false;
    for (const v1::CollectiveRecord& call : slot.calls()) {
      reduced |= call.operation() == "all_reduce" && call.dtype() == "f32" && call.count() > 0;
    }
    EXPECT_TRUE(reduced) << slot.slot();
  }
  v1::JobStatus cancelled;
  EXPECT_TRUE(cluster_->jobs().Cancel(*id, "the test is over", cancelled).ok());
}

TEST(AllReduceClusterTest, NeedsNoServerAtAll) {
  auto cluster = ProcessCluster::Start({.servers = 0, .workers = 3});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  v1::JobSpec spec = AllReduce(SmallJob());
  spec.set_workers(3);
  const auto id = (*cluster)->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto status = (*cluster)->AwaitEnd(*id);
  ASSERT_TRUE(status.ok()) << status.status() << (*cluster)->Diagnose(*id);
  EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message();
}

// Tensor ranks as processes, joined by shared memory or by TCP.
class TensorProcessesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TensorProcessesTest, TrainAsOneProcessUnderEveryStage) {
  const bool share_memory = std::string(GetParam()) == "shared_memory";
  auto cluster = ProcessCluster::Start(
      {.servers = 0,
       .workers = 2,
       .slots_per_worker = 2,
       .worker_arguments = {absl::StrCat("--collectives-transport=", GetParam())}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto train = [&](const v1::JobSpec& spec, v1::JobStatus& job) {
    const auto id = (*cluster)->Submit(spec);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return ExportedTensors();
    const auto end = (*cluster)->AwaitEnd(*id);
    EXPECT_TRUE(end.ok() && end->state() == v1::SUCCEEDED)
        << end.status() << (*cluster)->Diagnose(*id);
    if (!end.ok()) return ExportedTensors();
    job = *end;
    const auto weights = (*cluster)->Export(*id);
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? *weights : ExportedTensors();
  };
  v1::JobSpec spec = AllReduce(ParseJobOrDie(R"pb(
    name: "tensor"
    model { transformer { layers: 2 width: 32 heads: 4 context: 16 dropout: 0.1 } }
    data { sequences { path: "/usr/share/common-licenses/Apache-2.0" } }
    optimizer { name: "momentum" learning_rate: 0.02 }
    workers: 1
    batch_size: 8
    micro_batches: 2
    seed: 5
    stop { steps: 10 }
  )pb"));
  v1::JobStatus job;
  const ExportedTensors alone = train(spec, job);
  ASSERT_FALSE(alone.empty());
  spec.set_workers(4);
  spec.mutable_parallelism()->set_tensor(2);
  for (const uint32_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(absl::StrCat("stage ", stage));
    spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
    EXPECT_LE(RelativeDistance(train(spec, job), alone), 1e-5);
    ASSERT_EQ(job.tasks_size(), 4);
    for (const v1::TaskStatus& task : job.tasks()) {
      EXPECT_EQ(task.process_mapped_bytes() > 0, share_memory) << task.slot();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, TensorProcessesTest, ::testing::Values("shared_memory", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace muster
