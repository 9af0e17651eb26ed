// Tasks of a real cluster take as much memory at their peak as their plan says, within 5 % of what
// can be known beforehand:
// - How much of the messages with servers is there at once depends on how fast both sides go; two
//   thirds are what was seen at the least.
// - What oneDNN packs of f32 products it gives back to the heap, where the next product finds it in
//   one piece or not: the same job took 313 to 342 MiB. As much again as is planned is allowed for.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/multiplies_bfloat16.h"
#include "common/plan/data_size.h"
#include "common/plan/memory_plan.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr double kTolerance = 0.05;
// What the program itself takes differs by this much from one version of the system's libraries to
// another.
constexpr double kProgramDifference = 4 << 20;
constexpr char kText[] = "It was the best of times, it was the worst of times; ";

std::string Compared(const v1::TaskStatus& task, const MemoryPlan& plan) {
  return absl::StrCat("peak ", PlanBytes(task.process_peak_bytes()), ", planned\n",
                      MemoryTable(plan.worker, "  "));
}

// 0 if there is no such part.
double BytesOf(absl::string_view part_name, const MemoryPlan& plan) {
  for (const MemoryPart& part : plan.worker) {
    if (part.name == part_name) return static_cast<double>(part.bytes);
  }
  return 0;
}

// How much of a plan may not be there.
double Unneeded(const MemoryPlan& plan) { return BytesOf("messages with servers", plan) / 3; }

double Tolerance(double peak) { return std::max(kTolerance * peak, kProgramDifference); }

constexpr int kRuns = 4;

// How much more than planned the heap may hold in pieces.
double InPieces(const v1::JobSpec& spec, const MemoryPlan& plan) {
  return spec.compute().type() == v1::ComputeSpec::BF16 ? 0 : BytesOf("kernels' scratch", plan);
}

class PeakMemoryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::ofstream file(TextPath());
    for (int i = 0; i < 20000; ++i) file << kText;
  }
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "sanitizers take memory of their own";
    auto cluster = ProcessCluster::Start({.servers = 1, .workers = 2});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  static std::string TextPath() { return ::testing::TempDir() + "/text"; }

  void ExpectAsPlanned(const std::string& job) {
    SCOPED_TRACE(job);
    const v1::JobSpec spec = ParseJobOrDie(absl::StrCat(
        job, " optimizer { name: 'adamw' learning_rate: 1e-4 } seed: 1 stop { steps: 4 }"));
    DataSize data = SizeOfData(spec.data());
    if (data.vocabulary > 0) data.bytes = 20000 * (sizeof(kText) - 1);
    const MemoryPlan plan = PlanMemory(spec, data, {.multiply_bf16 = MultipliesBFloat16()});
    const auto planned = static_cast<double>(plan.worker_bytes());
    v1::JobStatus status;
    // How the heap is cut in pieces is chance: of some runs, one takes no more than planned.
    for (int run = 0; run < kRuns; ++run) {
      const auto id = cluster_->Submit(spec);
      ASSERT_TRUE(id.ok()) << id.status();
      const auto ended = cluster_->AwaitEnd(*id, absl::Minutes(4));
      ASSERT_TRUE(ended.ok() && ended->state() == v1::SUCCEEDED)
          << ended.status() << cluster_->Diagnose(*id);
      status = *ended;
      bool within = true;
      for (const v1::TaskStatus& task : status.tasks()) {
        std::cout << PlanBytes(task.process_peak_bytes()) << " at the peak, planned "
                  << PlanBytes(plan.worker_bytes()) << ": " << job.substr(0, 40) << "…"
                  << job.substr(job.rfind("batch_size")) << std::endl;
        const auto peak = static_cast<double>(task.process_peak_bytes());
        within = within && peak <= planned + InPieces(spec, plan) + Tolerance(peak);
      }
      if (within) break;
    }
    for (const v1::TaskStatus& task : status.tasks()) {
      const auto peak = static_cast<double>(task.process_peak_bytes());
      EXPECT_LE(peak, planned + InPieces(spec, plan) + Tolerance(peak)) << Compared(task, plan);
      EXPECT_GE(peak, planned - Unneeded(plan) - Tolerance(peak)) << Compared(task, plan);
    }
  }

  // 10.8 million parameters over bytes.
  void ExpectTransformerAsPlanned(const std::string& more) {
    ExpectAsPlanned(
        absl::StrCat("model { transformer { layers: 6 width: 384 heads: 6 context: 256 } } ",
                     "data { sequences { path: '", TextPath(), "' } } batch_size: 4 ", more));
  }

  std::unique_ptr<ProcessCluster> cluster_;
};

constexpr char kAllReduce[] = " update { dense: ALL_REDUCE sparse: ALL_REDUCE } ";
constexpr char kServers[] = " update { dense: PARAMETER_SERVER sparse: PARAMETER_SERVER } ";

TEST_F(PeakMemoryTest, OfTransformersByAllReduce) {
  for (const std::string type : {"F32", "BF16"}) {
    for (const std::string recompute : {"NONE", "SELECTIVE", "FULL"}) {
      ExpectTransformerAsPlanned(absl::StrCat("workers: 1 compute { type: ", type,
                                              " recompute: ", recompute, " }", kAllReduce));
    }
  }
}

TEST_F(PeakMemoryTest, OfTransformersOnServers) {
  ExpectTransformerAsPlanned(absl::StrCat("workers: 1", kServers));
  ExpectTransformerAsPlanned(
      absl::StrCat("workers: 1 compute { type: BF16 recompute: SELECTIVE }", kServers));
}

TEST_F(PeakMemoryTest, OfTwoReplicas) {
  ExpectTransformerAsPlanned(absl::StrCat("workers: 2", kAllReduce));
}

TEST_F(PeakMemoryTest, OfASmallTransformer) {
  ExpectAsPlanned(absl::StrCat(
      "model { transformer { layers: 2 width: 64 heads: 2 context: 64 norm: RMS_NORM positions: "
      "ROTARY activation: SWIGLU } } data { sequences { path: '",
      TextPath(), "' } } batch_size: 4 workers: 1", kAllReduce));
}

// One head's probabilities alone would be 64 MiB, three times what is allowed for.
TEST_F(PeakMemoryTest, OfALongContext) {
  ExpectAsPlanned(absl::StrCat(
      "model { transformer { layers: 1 width: 256 heads: 4 context: 4096 } } ",
      "data { sequences { path: '", TextPath(), "' } } batch_size: 1 workers: 1", kAllReduce));
}

TEST_F(PeakMemoryTest, OfAPerceptron) {
  const std::string job =
      "model { mlp { hidden: [2048, 2048] classes: 10 } } batch_size: 256 workers: 1 "
      "data { synthetic_classification { examples: 4000 features: 784 classes: 10 seed: 1 } }";
  ExpectAsPlanned(job + kAllReduce);
  ExpectAsPlanned(job + kServers);
}

TEST_F(PeakMemoryTest, OfAnNgramModel) {
  ExpectAsPlanned(absl::StrCat(
      "model { ngram { orders: 4 embedding_dim: 32 hidden: 256 } } data { text { path: '",
      TextPath(), "' } } batch_size: 512 workers: 1", kServers));
}

TEST_F(PeakMemoryTest, OfDeepFm) {
  ExpectAsPlanned(absl::StrCat(
      "model { deep_fm { embedding_dim: 16 hidden: [400, 400] } } batch_size: 2048 workers: 1 "
      "data { synthetic_clicks { examples: 100000 fields: 26 cardinality: 100000 numeric: 4 "
      "seed: 3 } }",
      kServers));
}

}  // namespace
}  // namespace muster
