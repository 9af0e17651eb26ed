#include "client/prove/proof_jobs.h"

#include <string>

#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::JobSpec Job(const std::string& changes = "") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(name: "j"
           model { transformer { layers: 2 width: 16 heads: 2 context: 8 } }
           data {
             sequences { path: "t.txt" }
             holdout: 0.1
           }
           optimizer { name: "adamw" learning_rate: 0.001 weight_decay: 0.1 }
           schedule { name: "cosine" warmup_steps: 5 }
           clipping { by_global_norm: 1 }
           update { dense: ALL_REDUCE sparse: ALL_REDUCE }
           batch_size: 8
           stop { epochs: 2 patience: 3 }
           evaluation { every_steps: 10 }
           seed: 7)pb",
      &spec));
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(changes, &spec)) << changes;
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus()) << changes;
  FillDefaults(spec);
  return spec;
}

TEST(ProofJobsTest, AreOneStepOfPlainSgd) {
  const auto proof = MakeProofJobs(Job("workers: 4 micro_batches: 2"), ProofClipping::kNone);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_THAT(proof->notes, IsEmpty());
  EXPECT_EQ(proof->tolerance, 1e-5);
  for (const v1::JobSpec* job : {&proof->mesh, &proof->one}) {
    EXPECT_EQ(job->optimizer().name(), "sgd");
    EXPECT_EQ(job->optimizer().learning_rate(), kProofRate);
    EXPECT_EQ(job->optimizer().weight_decay(), 0);
    EXPECT_FALSE(job->has_schedule());
    EXPECT_EQ(job->clipping().by_global_norm(), 0);
    EXPECT_TRUE(job->clipping().measure_norm());
    EXPECT_EQ(job->stop().steps(), 1u);
    EXPECT_EQ(job->stop().epochs(), 0);
    EXPECT_EQ(job->data().holdout(), 0);
    EXPECT_EQ(job->seed(), 7u);
    EXPECT_EQ(job->batch_size(), 8u);
  }
  EXPECT_EQ(proof->mesh.workers(), 4u);
  EXPECT_EQ(proof->mesh.micro_batches(), 2u);
  EXPECT_EQ(proof->one.workers(), 1u);
  EXPECT_EQ(proof->one.micro_batches(), 8u) << "as many at a time as a data rank has";
}

TEST(ProofJobsTest, HaveTheSharesOfTheFirstStep) {
  const auto balanced = MakeProofJobs(Job("workers: 2 balance {}"), ProofClipping::kNone);
  ASSERT_TRUE(balanced.ok()) << balanced.status();
  EXPECT_FALSE(balanced->mesh.has_balance()) << "one step measures no speeds";
  const auto shared = MakeProofJobs(Job("workers: 2 share_changes { shares: 1 shares: 3 }"
                                        "share_changes { step: 5 shares: 2 shares: 1 }"),
                                    ProofClipping::kNone);
  ASSERT_TRUE(shared.ok()) << shared.status();
  ASSERT_EQ(shared->mesh.share_changes_size(), 1);
  EXPECT_THAT(shared->mesh.share_changes(0).shares(), ElementsAre(1, 3));
  EXPECT_TRUE(shared->one.share_changes().empty());
}

TEST(ProofJobsTest, LeaveOutWhatNeedsSeveralStepsOrOtherWorkers) {
  const std::string on_servers =
      "workers: 4 stop { epochs: 0 steps: 9 } update { dense: PARAMETER_SERVER sparse: "
      "PARAMETER_SERVER ";
  for (const std::string& job :
       {on_servers + "backup_workers: 1 }",
        on_servers + "durability: EVERY_PUSH move_hot_partitions: true }",
        std::string("workers: 2 min_workers: 1 max_workers: 4 scale_batch: true verify_every: 3 "
                    "stop { epochs: 0 steps: 9 }")}) {
    const auto proof = MakeProofJobs(Job(job), ProofClipping::kNone);
    ASSERT_TRUE(proof.ok()) << job << ": " << proof.status();
    EXPECT_EQ(ValidateJob(proof->mesh), absl::OkStatus()) << job;
    EXPECT_EQ(ValidateJob(proof->one), absl::OkStatus()) << job;
    EXPECT_EQ(proof->mesh.verify_every(), 0u);
  }
}

TEST(ProofJobsTest, MayClipAsTheJobDoes) {
  const auto proof = MakeProofJobs(Job(), ProofClipping::kAsTheJob);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->mesh.clipping().by_global_norm(), 1);
  EXPECT_EQ(proof->one.clipping().by_global_norm(), 1);
}

TEST(ProofJobsTest, OneProcessHasNoMesh) {
  for (const char* changes :
       {"workers: 8 parallelism { tensor: 2 context: 2 pipeline: 2 }",
        "workers: 4 parallelism { zero { stage: 3 redundancy: 1 } }",
        "workers: 2 update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER }",
        "workers: 2 update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER } "
        "parallelism { zero { stage: 3 } }"}) {
    const auto proof = MakeProofJobs(Job(changes), ProofClipping::kNone);
    ASSERT_TRUE(proof.ok()) << changes << proof.status();
    EXPECT_LE(proof->one.parallelism().tensor(), 1u);
    EXPECT_LE(proof->one.parallelism().pipeline(), 1u);
    EXPECT_LE(proof->one.parallelism().context(), 1u);
    EXPECT_EQ(proof->one.parallelism().zero().stage(), 0u);
    EXPECT_EQ(proof->one.update().dense(), v1::UpdateSpec::ALL_REDUCE);
    EXPECT_EQ(proof->mesh.parallelism().zero().stage(), Job(changes).parallelism().zero().stage());
  }
}

TEST(ProofJobsTest, PartsWhoseChoicesAreCountedTogetherAreOne) {
  const auto proof =
      MakeProofJobs(Job("workers: 4 micro_batches: 2 model { transformer { no_biases: true "
                        "moe { experts: 4 top_k: 2 capacity_factor: 1.5 } } }"),
                    ProofClipping::kNone);
  ASSERT_TRUE(proof.ok()) << proof.status();
  EXPECT_EQ(proof->mesh.micro_batches(), 1u);
  EXPECT_EQ(proof->one.micro_batches(), 1u);
  EXPECT_THAT(proof->notes, ElementsAre(HasSubstr("micro_batches is 1")));
}

TEST(ProofJobsTest, WhatIsOtherwiseIsNoted) {
  const auto notes = [](const std::string& changes) {
    const auto proof = MakeProofJobs(Job(changes), ProofClipping::kNone);
    EXPECT_TRUE(proof.ok()) << changes << proof.status();
    return proof.ok() ? proof->notes : std::vector<std::string>();
  };
  const std::string served = "update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER ";
  EXPECT_THAT(notes(served + "staleness_bound: 4 } clipping { by_global_norm: 0 }"),
              ElementsAre(HasSubstr("staleness is left out")));
  EXPECT_THAT(notes("initial_weights: 'another@best'"), ElementsAre(HasSubstr("another@best")));
  EXPECT_THAT(notes("resume_from: 'another'"), ElementsAre(HasSubstr("another")));
  EXPECT_THAT(notes("parallelism { zero { stage: 1 offload: OPTIMIZER_STATE } }"),
              ElementsAre(HasSubstr("zero.offload is left out")));
  EXPECT_THAT(notes("compute { device: CUDA }"), ElementsAre(HasSubstr("processors")));
  EXPECT_THAT(notes("workers: 2 min_workers: 1"), IsEmpty());
}

TEST(ProofJobsTest, FrozenTensorsStaySo) {
  const auto proof =
      MakeProofJobs(Job("optimizer { groups { names: 'head*' rate: 0.1 weight_decay: 0 } "
                        "groups { names: 'embedding.weight' frozen: true } }"),
                    ProofClipping::kNone);
  ASSERT_TRUE(proof.ok()) << proof.status();
  for (const v1::JobSpec* job : {&proof->mesh, &proof->one}) {
    ASSERT_EQ(job->optimizer().groups_size(), 2);
    EXPECT_EQ(job->optimizer().groups(0).rate(), 1);
    EXPECT_FALSE(job->optimizer().groups(0).has_weight_decay());
    EXPECT_TRUE(job->optimizer().groups(1).frozen());
  }
}

TEST(ProofJobsTest, SixteenBitsMayDifferByMore) {
  for (const char* changes :
       {"compute { type: BF16 }", "compute { type: F16 }", "update { wire: BF16 } workers: 2"}) {
    const auto proof = MakeProofJobs(Job(changes), ProofClipping::kNone);
    ASSERT_TRUE(proof.ok()) << changes << proof.status();
    EXPECT_EQ(proof->tolerance, 3e-2) << changes;
    EXPECT_EQ(proof->one.update().wire(), v1::UpdateSpec::F32);
  }
}

TEST(ProofJobsTest, JobsWithoutAStepAreRefused) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->Clear();
  spec.mutable_stop()->set_evaluate_only(true);
  EXPECT_THAT(std::string(MakeProofJobs(spec, ProofClipping::kNone).status().message()),
              HasSubstr("stop.steps"));
  spec = Job();
  spec.mutable_model()->mutable_program();
  EXPECT_THAT(std::string(MakeProofJobs(spec, ProofClipping::kNone).status().message()),
              HasSubstr("runs a program"));
}

}  // namespace
}  // namespace muster
