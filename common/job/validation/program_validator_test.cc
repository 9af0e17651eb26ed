#include <string>

#include "common/job/job_road.h"
#include "common/job/test_jobs.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using testing::HasSubstr;

v1::ProgramSpec& ProgramOf(v1::JobSpec& spec) { return *spec.mutable_model()->mutable_program(); }

TEST(ProgramValidatorTest, TakesAProgramAndWhatMeansSomethingToIt) {
  v1::JobSpec spec = ProgramJob();
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  spec.set_owner("me");
  spec.set_description("what it is for");
  (*spec.mutable_labels())["team"] = "vision";
  spec.set_threads_per_worker(2);
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  spec.mutable_checkpoint()->set_keep(5);
  spec.set_resume_from("j1-0000@5");
  (*ProgramOf(spec).mutable_environment())["HOME"] = "/home/me";
  ProgramOf(spec).set_working_folder("/srv/code");
  ProgramOf(spec).set_elastic(true);
  ProgramOf(spec).set_max_restarts(0);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(ProgramValidatorTest, TheJobMayNameLibrariesOfThePythonPackage) {
  v1::JobSpec spec = ProgramJob();
  for (const char* name : {"MUSTER_NATIVE_LIBRARY", "MUSTER_SERVERS_LIBRARY"}) {
    (*ProgramOf(spec).mutable_environment())[name] = "/srv/lib.so";
  }
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(ProgramValidatorTest, RefusesByName) {
  struct Case {
    void (*change)(v1::JobSpec&);
    const char* text;
  };
  for (const Case& wrong : {
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).clear_command(); },
                "model.program.command is empty"},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).add_command(std::string("a\0b", 3)); },
                "model.program.command[1] has a NUL byte"},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).clear_memory_bytes(); },
                "model.program.memory_bytes is 0"},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).set_working_folder("code"); },
                "model.program.working_folder is \"code\""},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).set_shipped("sha256-../"); },
                "model.program.shipped is \"sha256-../\""},
           Case{[](v1::JobSpec& spec) {
                  ProgramOf(spec).set_shipped("sha256-" + std::string(64, '0'));
                  ProgramOf(spec).set_working_folder("/srv/code");
                },
                "model.program.working_folder is \"/srv/code\""},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).set_max_restarts(1001); },
                "model.program.max_restarts is 1001"},
           Case{[](v1::JobSpec& spec) { ProgramOf(spec).set_grace_seconds(3601); },
                "model.program.grace_seconds is 3601"},
           Case{[](v1::JobSpec& spec) { (*ProgramOf(spec).mutable_environment())["RANK"] = "1"; },
                "model.program.environment is for RANK"},
           Case{[](v1::JobSpec& spec) {
                  (*ProgramOf(spec).mutable_environment())["MUSTER_TASK"] = "1";
                },
                "model.program.environment is for MUSTER_TASK"},
           Case{[](v1::JobSpec& spec) {
                  (*ProgramOf(spec).mutable_environment())["TORCHELASTIC_RUN_ID"] = "1";
                },
                "model.program.environment is for TORCHELASTIC_RUN_ID"},
           Case{[](v1::JobSpec& spec) { (*ProgramOf(spec).mutable_environment())["A B"] = "1"; },
                "model.program.environment is for \"A B\""},
           Case{[](v1::JobSpec& spec) { (*ProgramOf(spec).mutable_environment())["Größe"] = "1"; },
                "model.program.environment is for \"Größe\""},
           Case{[](v1::JobSpec& spec) { spec.mutable_data()->mutable_text()->set_path("/d"); },
                "data is set"},
           Case{[](v1::JobSpec& spec) { spec.mutable_stop()->set_steps(5); }, "stop is set"},
           Case{[](v1::JobSpec& spec) { spec.set_batch_size(5); }, "batch_size is set"},
           Case{[](v1::JobSpec& spec) { spec.set_min_workers(1); }, "min_workers is set"},
           Case{[](v1::JobSpec& spec) { spec.set_replace_slow(true); }, "replace_slow is set"},
           Case{[](v1::JobSpec& spec) { spec.set_initial_weights("j1"); },
                "initial_weights is set"},
           Case{[](v1::JobSpec& spec) { spec.mutable_checkpoint()->set_every_steps(5); },
                "checkpoint.every_steps is set"},
           Case{[](v1::JobSpec& spec) { spec.mutable_checkpoint()->set_keep_best(false); },
                "checkpoint.keep_best is set"},
           Case{[](v1::JobSpec& spec) { spec.mutable_compute()->set_type(v1::ComputeSpec::BF16); },
                "compute.type is set"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
                },
                "update.dense is ALL_REDUCE"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                  spec.mutable_update()->set_staleness_bound(2);
                },
                "update.staleness_bound is set"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                  spec.mutable_update()->set_partitions(5000);
                },
                "update.partitions is 5000"},
           Case{[](v1::JobSpec& spec) { spec.set_servers(2); }, "update.dense is ROAD_UNSPECIFIED"},
           Case{[](v1::JobSpec& spec) {
                  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                  spec.set_servers(9);
                },
                "servers is 9"},
           Case{[](v1::JobSpec& spec) { spec.set_workers(4097); }, "workers is 4097"},
           Case{[](v1::JobSpec& spec) { spec.set_threads_per_worker(kMaxThreads + 1); },
                "threads_per_worker is"},
       }) {
    v1::JobSpec spec = ProgramJob();
    wrong.change(spec);
    EXPECT_EQ(ValidateJob(spec).code(), absl::StatusCode::kInvalidArgument) << wrong.text;
    EXPECT_THAT(std::string(ValidateJob(spec).message()), HasSubstr(wrong.text));
  }
}

TEST(ProgramValidatorTest, FillsOnlyAProgramsFields) {
  v1::JobSpec spec = ProgramJob();
  spec.clear_workers();
  FillDefaults(spec);
  EXPECT_EQ(spec.workers(), 1u);
  EXPECT_EQ(spec.checkpoint().keep(), 2u);
  EXPECT_EQ(ProgramOf(spec).max_restarts(), 3u);
  EXPECT_EQ(ProgramOf(spec).grace_seconds(), 10u);
  EXPECT_FALSE(spec.has_update());
  EXPECT_FALSE(spec.has_parallelism());
  // A job that is submitted again as it is shown.
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(ProgramValidatorTest, FillsWhatAProgramOnServersLeavesOut) {
  v1::JobSpec spec = ProgramJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.set_servers(8);
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
  FillDefaults(spec);
  EXPECT_EQ(spec.update().sparse(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(spec.update().durability(), v1::UpdateSpec::CHECKPOINT);
  EXPECT_EQ(spec.update().partitions(), 8u);
  EXPECT_EQ(spec.update().block_bytes(), uint64_t{1} << 20);
  EXPECT_TRUE(NeedsServers(spec));
  // Its processes meet and are lost like those of any program.
  EXPECT_TRUE(TrainsByAllReduce(spec));
  EXPECT_FALSE(IsHybrid(spec));
  EXPECT_TRUE(LossIsFinal(spec));
  EXPECT_TRUE(ValidateJob(spec).ok()) << ValidateJob(spec);
}

TEST(ProgramValidatorTest, OnlyAnElasticProgramSurvivesALossInPlace) {
  v1::JobSpec spec = ProgramJob();
  EXPECT_FALSE(NeedsServers(spec));
  EXPECT_TRUE(TrainsByAllReduce(spec));
  EXPECT_TRUE(LossIsFinal(spec));
  ProgramOf(spec).set_elastic(true);
  EXPECT_FALSE(NeedsServers(spec));
  EXPECT_FALSE(TrainsByAllReduce(spec));
  EXPECT_FALSE(LossIsFinal(spec));
}

}  // namespace
}  // namespace muster
