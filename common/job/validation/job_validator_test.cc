// What ValidateJob says of how a job trains: optimizer, schedule, updates, workers and end.
#include "common/job/validation/job_validator.h"

#include "common/job/job_road.h"
#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void AllReduce(v1::JobSpec& spec) { spec = AllReduceJob(); }

// A model with sparse tables, which are on servers.
void Hybrid(v1::JobSpec& spec) { spec = HybridJob(); }

class BadJobTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadJobTest, IsRefusedByName) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, BadJobTest,
    ::testing::Values(
        BadJob{"UnknownOptimizer", [](v1::JobSpec& s) { s.mutable_optimizer()->set_name("sdg"); },
               AllOf(HasSubstr("optimizer.name is \"sdg\""), HasSubstr("adamw"),
                     HasSubstr("; did you mean \"sgd\"?"))},
        BadJob{"MisspeltSchedule", [](v1::JobSpec& s) { s.mutable_schedule()->set_name("cosin"); },
               HasSubstr("; did you mean \"cosine\"?")},
        BadJob{"UnknownSchedule", [](v1::JobSpec& s) { s.mutable_schedule()->set_name("up"); },
               HasSubstr("schedule.name is \"up\"")},
        BadJob{"NormOfStalePushes",
               [](v1::JobSpec& s) {
                 s.mutable_clipping()->set_measure_norm(true);
                 s.mutable_update()->set_staleness_bound(4);
               },
               AllOf(HasSubstr("clipping.measure_norm is true"), HasSubstr("SSP with bound 4"))},
        BadJob{"NegativeClip", [](v1::JobSpec& s) { s.mutable_clipping()->set_by_value(-1); },
               HasSubstr("clipping.by_value is -1")},
        BadJob{"NormClipUnderSsp",
               [](v1::JobSpec& s) {
                 s.mutable_clipping()->set_by_global_norm(2);
                 s.mutable_update()->set_staleness_bound(4);
               },
               AllOf(HasSubstr("clipping.by_global_norm is 2"), HasSubstr("SSP with bound 4"),
                     HasSubstr("no one gradient"))},
        BadJob{"NormClipUnderAsp",
               [](v1::JobSpec& s) {
                 s.mutable_clipping()->set_by_global_norm(2);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               HasSubstr("ASP")},
        BadJob{"SparseAloneByAllReduce",
               [](v1::JobSpec& s) { s.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE); },
               AllOf(HasSubstr("update.sparse is ALL_REDUCE; but update.dense is PARAMETER_SERVER"),
                     HasSubstr("hybrid"))},
        BadJob{"NoSuchRoad",
               [](v1::JobSpec& s) {
                 s.mutable_update()->set_dense(static_cast<v1::UpdateSpec::Road>(7));
               },
               HasSubstr("update.dense is 7; it must be PARAMETER_SERVER or ALL_REDUCE")},
        BadJob{"StaleAllReduce",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_staleness_bound(4);
               },
               HasSubstr("update.staleness_bound is 4; but update.dense is ALL_REDUCE")},
        BadJob{"UnlimitedAllReduce",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_deterministic(true);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               HasSubstr("update.unlimited_staleness is true; but update.dense is ALL_REDUCE")},
        BadJob{"EveryPushOfNothing",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
               },
               AllOf(HasSubstr("update.durability is EVERY_PUSH"), HasSubstr("nothing is pushed"))},
        BadJob{"EveryPushOfAHybrid",
               [](v1::JobSpec& s) {
                 Hybrid(s);
                 s.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
               },
               AllOf(HasSubstr("update.durability is EVERY_PUSH"), HasSubstr("last checkpoint"))},
        BadJob{"HotPartitionsOfAllReduce",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_move_hot_partitions(true);
               },
               HasSubstr("update.move_hot_partitions is true; but update.dense is ALL_REDUCE")},
        BadJob{"HotPartitionsUnderCheckpoint",
               [](v1::JobSpec& s) { s.mutable_update()->set_move_hot_partitions(true); },
               AllOf(HasSubstr("update.move_hot_partitions is true"), HasSubstr("CHECKPOINT"),
                     HasSubstr("take EVERY_PUSH"))},
        BadJob{"NobodyToReplaceWhereNobodyTrains",
               [](v1::JobSpec& s) {
                 s.set_replace_slow(true);
                 s.clear_stop();
                 s.mutable_stop()->set_evaluate_only(true);
               },
               HasSubstr("replace_slow is true; but the job only evaluates")},
        BadJob{"F16BetweenWorkers",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_wire(v1::UpdateSpec::F16);
               },
               AllOf(HasSubstr("update.wire is F16"), HasSubstr("take BF16"))},
        BadJob{"F16InAHybrid",
               [](v1::JobSpec& s) {
                 Hybrid(s);
                 s.mutable_update()->set_wire(v1::UpdateSpec::F16);
               },
               HasSubstr("update.wire is F16; but update.dense is ALL_REDUCE")},
        BadJob{"BucketsOnServers",
               [](v1::JobSpec& s) { s.mutable_update()->set_bucket_bytes(4096); },
               HasSubstr("update.bucket_bytes is 4096; but update.dense is PARAMETER_SERVER")},
        BadJob{"FirstBucketOnServers",
               [](v1::JobSpec& s) { s.mutable_update()->set_first_bucket_bytes(4096); },
               HasSubstr("update.first_bucket_bytes is 4096; but update.dense")},
        BadJob{"OddBuckets",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_bucket_bytes(4097);
               },
               HasSubstr("update.bucket_bytes is 4097; it must be a multiple of 4")},
        BadJob{"NoSuchWire",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_update()->set_wire(static_cast<v1::UpdateSpec::WireType>(9));
               },
               HasSubstr("update.wire is 9; it must be F32, BF16 or F16")},
        BadJob{"ServersForNothing",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_servers(1);
               },
               HasSubstr("servers is 1; but the job trains by all-reduce and needs none")},
        BadJob{"MoreMinWorkersThanWorkers",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_min_workers(3);
               },
               HasSubstr("min_workers is 3; it must be at most workers, which is 2")},
        BadJob{"MinWorkersOfAHybrid",
               [](v1::JobSpec& s) {
                 Hybrid(s);
                 s.set_min_workers(1);
               },
               AllOf(HasSubstr("min_workers is 1"), HasSubstr("hybrid"))},
        BadJob{"MaxWorkersOnServersAlone", [](v1::JobSpec& s) { s.set_max_workers(4); },
               HasSubstr("max_workers is 4; but min_workers is not set")},
        BadJob{"MaxWorkersAlone",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_max_workers(4);
               },
               HasSubstr("max_workers is 4; but min_workers is not set")},
        BadJob{"FewerMaxWorkersThanWorkers",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_min_workers(1);
                 s.set_max_workers(1);
               },
               HasSubstr("max_workers is 1; it must be at least workers, which is 2")},
        BadJob{"MoreMaxWorkersThanAnyJobHas",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_min_workers(1);
                 s.set_max_workers(1000000);
               },
               HasSubstr("max_workers is 1000000; it must be at most ")},
        BadJob{"MaxWorkersWithLessThanAnExampleEach",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.set_min_workers(1);
                 s.set_max_workers(8);
                 s.set_batch_size(8);
                 s.set_micro_batches(2);
               },
               HasSubstr("max_workers is 8; with so many workers a data rank's share of a step is 1 "
                         "of its 8 examples")},
        BadJob{"MaxWorkersInPartsOfADataRank",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_parallelism()->set_tensor(2);
                 s.set_min_workers(2);
                 s.set_max_workers(3);
               },
               HasSubstr("max_workers is 3; but a data rank of this job is 2 workers")},
        BadJob{"MaxWorkersOfShardsThatAreNotDivided",
               [](v1::JobSpec& s) {
                 AllReduce(s);
                 s.mutable_parallelism()->mutable_zero()->set_stage(1);
                 s.set_workers(1);
                 s.set_min_workers(1);
                 s.set_max_workers(2);
               },
               HasSubstr("max_workers is 2; but parallelism.zero divides nothing")},
        BadJob{"MicroBatchesOfLessThanAnExample",
               [](v1::JobSpec& s) {
                 s.set_batch_size(9);
                 s.set_micro_batches(5);
               },
               HasSubstr("micro_batches is 5; a data rank's share of a step is 4 of its 9 examples")},
        BadJob{"UnknownScaling", [](v1::JobSpec& s) { s.mutable_schedule()->set_scaling("cubic"); },
               AllOf(HasSubstr("schedule.scaling is \"cubic\""), HasSubstr("square_root"))},
        BadJob{"ScalingFromNothing",
               [](v1::JobSpec& s) { s.mutable_schedule()->set_scaling("linear"); },
               HasSubstr("schedule.base_batch_size is 0")},
        BadJob{"BaseOfNoScaling",
               [](v1::JobSpec& s) { s.mutable_schedule()->set_base_batch_size(8); },
               HasSubstr("schedule.base_batch_size is 8")},
        BadJob{"NegativeStaleness",
               [](v1::JobSpec& s) { s.mutable_update()->set_staleness_bound(-1); },
               AllOf(HasSubstr("update.staleness_bound is -1"), HasSubstr("unlimited_staleness"))},
        BadJob{"BoundAndUnlimited",
               [](v1::JobSpec& s) {
                 s.mutable_update()->set_staleness_bound(3);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               HasSubstr("set one of the two")},
        BadJob{"DeterministicAsp",
               [](v1::JobSpec& s) {
                 s.mutable_update()->set_deterministic(true);
                 s.mutable_update()->set_unlimited_staleness(true);
               },
               AllOf(HasSubstr("update.deterministic is true"), HasSubstr("left to chance"))},
        BadJob{"OddBlocks", [](v1::JobSpec& s) { s.mutable_update()->set_block_bytes(1022); },
               HasSubstr("update.block_bytes is 1022")},
        BadJob{"TooManyWorkers", [](v1::JobSpec& s) { s.set_workers(5000); },
               HasSubstr("workers is 5000; it must be at most 4096")},
        BadJob{"BatchBelowWorkers", [](v1::JobSpec& s) { s.set_batch_size(1); },
               AllOf(HasSubstr("batch_size is 1; "), HasSubstr("data ranks, which are 2 (workers 2)"))},
        BadJob{"BatchBelowDataRanks",
               [](v1::JobSpec& s) {
                 s.set_batch_size(1);
                 s.mutable_parallelism()->set_data(2);
               },
               AllOf(HasSubstr("batch_size is 1; "), HasSubstr("data ranks, which are 2 (parallelism.data)"))},
        BadJob{"MoreServersThanPartitions", [](v1::JobSpec& s) { s.set_servers(3); },
               HasSubstr("servers is 3; each server holds at least one of the job's 2 partitions")},
        BadJob{"ProductIsNotWorkers",
               [](v1::JobSpec& s) { s.mutable_parallelism()->set_data(4); },
               HasSubstr("parallelism.data is 4; with 2 workers it must be 2")},
        BadJob{"AxesThatDoNotDivideWorkers",
               [](v1::JobSpec& s) { s.mutable_parallelism()->set_tensor(3); },
               HasSubstr("tensor 3 must divide the number of workers, which is 2")},
        BadJob{"ExpertParallel", [](v1::JobSpec& s) { s.mutable_parallelism()->set_expert(2); },
               HasSubstr("parallelism.expert is 2; but the model has no experts")},
        BadJob{"AxesWhoseProductOverflows",
               [](v1::JobSpec& s) {
                 s.mutable_parallelism()->set_tensor(1u << 31);
                 s.mutable_parallelism()->set_pipeline(1u << 31);
                 s.mutable_parallelism()->set_context(8);
               },
               HasSubstr("must divide the number of workers, which is 2")},
        BadJob{"TensorParallel",
               [](v1::JobSpec& s) {
                 s.mutable_parallelism()->set_data(1);
                 s.mutable_parallelism()->set_tensor(2);
                 s.mutable_update()->set_staleness_bound(1);
               },
               HasSubstr("parallelism.tensor is 2; but the workers of a data rank")},
        BadJob{"StepsAndEpochs", [](v1::JobSpec& s) { s.mutable_stop()->set_epochs(2); },
               HasSubstr("stop.steps is 10 and stop.epochs is 2")},
        BadJob{"MoreStepsThanCanBeCounted",
               [](v1::JobSpec& s) { s.mutable_stop()->set_steps(uint64_t{1} << 62); },
               AllOf(HasSubstr("stop.steps is 4611686018427387904"), HasSubstr("at most"))},
        BadJob{"NoStop", [](v1::JobSpec& s) { s.clear_stop(); }, HasSubstr("stop says no end")},
        BadJob{"NegativeEpochs",
               [](v1::JobSpec& s) {
                 s.mutable_stop()->set_steps(0);
                 s.mutable_stop()->set_epochs(-1);
               },
               HasSubstr("stop.epochs is -1")},
        BadJob{"NothingToTrainOn", [](v1::JobSpec& s) { s.mutable_data()->set_holdout(1); },
               HasSubstr("nothing to train on")},
        BadJob{"TargetNan", [](v1::JobSpec& s) { s.mutable_stop()->set_target(kNan); },
               HasSubstr("stop.target is nan")}),
    [](const auto& info) { return info.param.name; });

TEST(JobValidatorTest, TakesGoodJobs) {
  EXPECT_TRUE(ValidateJob(SmallJob()).ok()) << ValidateJob(SmallJob());

  v1::JobSpec clicks = SmallJob();
  clicks.mutable_model()->mutable_deep_fm()->set_embedding_dim(4);
  v1::SyntheticClicksData& data = *clicks.mutable_data()->mutable_synthetic_clicks();
  data.set_examples(1000);
  data.set_fields(3);
  data.set_cardinality(50);
  clicks.mutable_evaluation()->set_metric("auc");
  clicks.mutable_update()->set_unlimited_staleness(true);
  EXPECT_TRUE(ValidateJob(clicks).ok()) << ValidateJob(clicks);

  v1::JobSpec only_evaluates = SmallJob();
  only_evaluates.clear_stop();
  only_evaluates.mutable_stop()->set_evaluate_only(true);
  EXPECT_TRUE(ValidateJob(only_evaluates).ok()) << ValidateJob(only_evaluates);
  EXPECT_TRUE(OnlyEvaluates(only_evaluates));
}

TEST(JobValidatorTest, DefaultsAreWrittenOut) {
  v1::JobSpec spec = SmallJob();
  spec.clear_update();
  FillDefaults(spec);
  EXPECT_EQ(spec.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(spec.update().durability(), v1::UpdateSpec::CHECKPOINT);
  EXPECT_EQ(spec.update().partitions(), 8);
  EXPECT_EQ(spec.update().block_bytes(), 1 << 20);
  EXPECT_EQ(spec.parallelism().data(), 2);
  EXPECT_EQ(spec.checkpoint().keep(), 2);
  EXPECT_TRUE(spec.checkpoint().keep_best());
  EXPECT_EQ(spec.micro_batches(), 1);
  EXPECT_EQ(spec.update().bucket_bytes(), 0) << "there are no buckets on servers";
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(JobValidatorTest, AllReduceHasDefaultsOfItsOwn) {
  v1::JobSpec spec = SmallJob();
  AllReduce(spec);
  // A model without sparse tables needs no servers for them.
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  spec.set_min_workers(1);
  spec.set_micro_batches(4);
  spec.mutable_schedule()->set_scaling("linear");
  spec.mutable_schedule()->set_base_batch_size(4);
  ASSERT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  EXPECT_FALSE(NeedsServers(spec));
  FillDefaults(spec);
  EXPECT_EQ(spec.update().sparse(), v1::UpdateSpec::ALL_REDUCE);
  EXPECT_EQ(spec.update().wire(), v1::UpdateSpec::F32);
  EXPECT_EQ(spec.update().first_bucket_bytes(), 1 << 20);
  EXPECT_EQ(spec.update().bucket_bytes(), 25 << 20);
  EXPECT_EQ(PolicyName(spec), "all-reduce");
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(JobValidatorTest, ServersTakeHalves) {
  for (const v1::UpdateSpec::WireType wire : {v1::UpdateSpec::BF16, v1::UpdateSpec::F16}) {
    v1::JobSpec spec = SmallJob();
    spec.mutable_update()->set_wire(wire);
    EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
    FillDefaults(spec);
    EXPECT_EQ(spec.update().wire(), wire);
  }
}

TEST(JobValidatorTest, AHybridKeepsItsServers) {
  v1::JobSpec spec = SmallJob();
  Hybrid(spec);
  spec.set_servers(2);
  ASSERT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  FillDefaults(spec);
  EXPECT_EQ(spec.update().sparse(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_TRUE(IsHybrid(spec));
  EXPECT_TRUE(NeedsServers(spec));
  EXPECT_EQ(PolicyName(spec), "all-reduce with sparse tables on servers");
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);

  // Left out, the sparse tables go the way of the dense ones.
  spec.mutable_update()->clear_sparse();
  spec.clear_servers();
  FillDefaults(spec);
  EXPECT_FALSE(NeedsServers(spec));
}

TEST(JobValidatorTest, RefusesByNameWhatItsTasksCannotDo) {
  v1::JobSpec deltas = SmallJob();
  deltas.mutable_checkpoint()->set_full_every(1);
  EXPECT_EQ(ValidateJob(deltas), absl::OkStatus());
  deltas.mutable_checkpoint()->set_full_every(4);
  EXPECT_EQ(ValidateJob(deltas), absl::OkStatus());
  deltas.mutable_checkpoint()->set_full_every(65);
  EXPECT_THAT(ValidateJob(deltas).message(), testing::HasSubstr("at most 64"));
  v1::JobSpec whole = AllReduceJob();
  whole.mutable_checkpoint()->set_full_every(4);
  EXPECT_THAT(ValidateJob(whole).message(), testing::HasSubstr("checkpoint.full_every"));
  v1::JobSpec resumed = SmallJob();
  resumed.set_resume_from("j1@40");
  EXPECT_EQ(ValidateJob(resumed), absl::OkStatus());
  resumed.set_initial_weights("j2");
  EXPECT_THAT(ValidateJob(resumed).message(), testing::HasSubstr("initial_weights is j2"));
  resumed.clear_initial_weights();
  resumed.set_averaged_weights(true);
  EXPECT_THAT(ValidateJob(resumed).message(),
              testing::HasSubstr("averaged_weights is true; but initial_weights is empty"));
  resumed.clear_averaged_weights();
  resumed.set_resume_from("j1@last");
  EXPECT_THAT(ValidateJob(resumed).message(), testing::HasSubstr("resume_from is \"j1@last\""));
  resumed.set_resume_from("j1");
  EXPECT_EQ(ValidateJob(resumed), absl::OkStatus());
  resumed.mutable_stop()->clear_steps();
  resumed.mutable_stop()->set_evaluate_only(true);
  EXPECT_THAT(ValidateJob(resumed).message(), testing::HasSubstr("evaluate_only"));
}

}  // namespace
}  // namespace muster
