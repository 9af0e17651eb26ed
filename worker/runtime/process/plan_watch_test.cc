#include "worker/runtime/process/plan_watch.h"

#include <atomic>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

TEST(PlanWatchTest, EndsWhoTakesMoreThanIsAllowedAndNamesPlanAndPeak) {
  std::atomic<uint64_t> taken{100 * kMiB};
  std::atomic<int> looks{0};
  absl::Notification exceeded;
  absl::Status status;
  PlanWatch watch(
      {.allowance =
           [] { return TaskAllowance{.planned_bytes = 32 * kMiB, .most_bytes = 104 * kMiB}; },
       .taken_bytes =
           [&] {
             // What is allowed is let pass, however often it is seen.
             if (++looks == 5) taken = 104 * kMiB + 1;
             return taken.load();
           },
       .period = absl::Milliseconds(1),
       .exceeded =
           [&](const absl::Status& error) {
             status = error;
             exceeded.Notify();
           }});
  exceeded.WaitForNotification();
  EXPECT_EQ(looks, 5);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has taken 104.0 MiB"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("its plan is at most 32.0 MiB"));
}

v1::JobSpec Spec(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

TEST(PlanWatchTest, AllowsAQuarterMoreThanPlannedAndWhatReadersNeed) {
  const std::string path = ::testing::TempDir() + "/rows.csv";
  {
    std::ofstream file(path);
    file << "label,a\n";
    for (int i = 0; i < 100000; ++i) file << i % 2 << "," << i << "\n";
  }
  const std::string model = "model { mlp { hidden: [64] classes: 2 } } batch_size: 8 workers: 1 ";
  const TaskAllowance synthetic = AllowanceOf(Spec(absl::StrCat(
      model,
      "data { synthetic_classification { examples: 100 features: 4 classes: 2 seed: 1 } }")));
  EXPECT_GT(synthetic.planned_bytes, 20 * kMiB);
  const uint64_t quarter_more = synthetic.planned_bytes + synthetic.planned_bytes / 4 + 64 * kMiB;
  EXPECT_GE(synthetic.most_bytes, quarter_more);
  EXPECT_LT(synthetic.most_bytes, quarter_more + 1024);
  const TaskAllowance csv = AllowanceOf(
      Spec(absl::StrCat(model, "data { csv { path: '", path, "' label: 'label' numeric: 'a' } }")));
  EXPECT_GT(csv.most_bytes - csv.planned_bytes - csv.planned_bytes / 4, 64 * kMiB);
}

TEST(PlanWatchTest, HoldsNoJobOnDevicesToAGuess) {
  const TaskAllowance allowance = AllowanceOf(
      Spec("model { mlp { hidden: [64] classes: 2 } } batch_size: 8 workers: 1 "
           "data { synthetic_classification { examples: 100 features: 4 classes: 2 seed: 1 } } "
           "compute { device: CUDA }"));
  EXPECT_EQ(allowance.planned_bytes, 0u);
}

}  // namespace
}  // namespace muster
