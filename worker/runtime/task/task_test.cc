#include "worker/runtime/task/task.h"

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/checkpoint/memory_storage.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "worker/runtime/coordinator_client/fake_meeting.h"
#include "worker/runtime/task/job_in_threads_for_testing.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

v1::JobSpec DenseSpec() {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model { mlp { hidden: 4 classes: 3 } }
        data { synthetic_classification { examples: 100 features: 8 classes: 3 seed: 5 } }
        optimizer { name: "sgd" learning_rate: 0.01 }
        update { dense: ALL_REDUCE sparse: ALL_REDUCE }
        workers: 2
        batch_size: 10
        stop { steps: 5 }
      )pb",
      &spec));
  return spec;
}

// Nobody can be reached.
class UnreachableEndpoint final : public CollectiveEndpoint {
 public:
  std::string address() const override { return "nowhere"; }
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const Group&, absl::Duration) override {
    return absl::UnavailableError("slot 1 could not be reached");
  }
  void Abort(const std::string& reason) override {}
};

class UnreachableTest : public ::testing::Test {
 protected:
  UnreachableTest() {
    meeting_.GoOnWithout(1);
    coordinator_ = meeting_.StartTask(0);
    dependencies_.coordinator = coordinator_.get();
    dependencies_.clock = &clock_;
    dependencies_.waiter = &waiter_;
    dependencies_.storage = &storage_;
    dependencies_.make_endpoint = [] { return std::make_unique<UnreachableEndpoint>(); };
    dependencies_.log = [](absl::string_view) {};
    order_.set_job_id("job");
  }

  FakeMeeting meeting_{DenseSpec()};
  std::unique_ptr<CoordinatorClient> coordinator_;
  RealClock clock_;
  ImmediateWaiter waiter_;
  MemoryStorage storage_;
  TaskDependencies dependencies_;
  v1::TaskOrder order_;
};

TEST_F(UnreachableTest, RoundsWithoutAStepComeToAnEnd) {
  *order_.mutable_spec() = DenseSpec();
  const absl::Status end = RunTask(order_, dependencies_);
  EXPECT_EQ(end.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(end.message(), HasSubstr("no step was finished in 10 rounds"));
  EXPECT_THAT(end.message(), HasSubstr("slot 1 could not be reached"));
  EXPECT_EQ(meeting_.rounds().size(), 10);
  // The coordinator is told each time.
  EXPECT_THAT(meeting_.rounds().front().failures, IsEmpty());
  EXPECT_THAT(meeting_.rounds().back().failures,
              ElementsAre(Pair(0, "slot 1 could not be reached")));
}

TEST_F(UnreachableTest, TheFirstSlotTellsWhatIsLeftOutOfFolders) {
  const TempFolder training;
  training.Write("a.txt", std::string(50, 'a'));
  training.Write(".DS_Store", std::string(50, '\0'));
  const TempFolder validation;
  validation.Write("b.txt", std::string(50, 'b'));
  validation.Write("b.txt~", std::string(50, 'c'));
  v1::JobSpec& spec = *order_.mutable_spec();
  spec = DenseSpec();
  spec.mutable_model()->mutable_transformer()->set_layers(1);
  spec.mutable_model()->mutable_transformer()->set_width(4);
  spec.mutable_model()->mutable_transformer()->set_heads(1);
  spec.mutable_model()->mutable_transformer()->set_context(4);
  spec.mutable_data()->mutable_sequences()->set_path(training.path());
  spec.mutable_validation()->mutable_sequences()->set_path(validation.path());
  std::vector<std::string> log;
  dependencies_.log = [&log](absl::string_view line) { log.emplace_back(line); };
  EXPECT_EQ(RunTask(order_, dependencies_).code(), absl::StatusCode::kUnavailable);
  const std::string left_out = "': left out 1 hidden file: ";
  EXPECT_THAT(log, Contains("data folder '" + training.path() + left_out + ".DS_Store"));
  EXPECT_THAT(log, Contains("data folder '" + validation.path() + left_out + "b.txt~"));

  order_.set_slot(1);
  log.clear();
  EXPECT_FALSE(RunTask(order_, dependencies_).ok());
  EXPECT_THAT(log, Contains(HasSubstr("examples to train on")));
  EXPECT_THAT(log, Not(Contains(HasSubstr("left out"))));
}

// Where losses are final, tasks come to meet again, too. This coordinator does not take them back.
TEST_F(UnreachableTest, AHybridJobTellsWhyItsRoundEnded) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model { logistic_regression {} }
        data { synthetic_clicks { examples: 100 fields: 2 cardinality: 5 seed: 1 } }
        optimizer { name: "sgd" learning_rate: 0.1 }
        update { dense: ALL_REDUCE sparse: PARAMETER_SERVER }
        workers: 2
        batch_size: 10
        stop { steps: 5 }
      )pb",
      order_.mutable_spec()));
  EXPECT_EQ(RunTask(order_, dependencies_).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(meeting_.rounds().back().failures,
              ElementsAre(Pair(0, "slot 1 could not be reached")));
}

TEST_F(UnreachableTest, AShardGroupTellsWhyItsRoundEnded) {
  *order_.mutable_spec() = DenseSpec();
  order_.mutable_spec()->mutable_parallelism()->mutable_zero()->set_stage(1);
  EXPECT_EQ(RunTask(order_, dependencies_).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(meeting_.rounds().back().failures,
              ElementsAre(Pair(0, "slot 1 could not be reached")));
}

TEST_F(UnreachableTest, SparseByAllReduceNeedsDenseByAllReduce) {
  *order_.mutable_spec() = DenseSpec();
  order_.mutable_spec()->mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  const absl::Status end = RunTask(order_, dependencies_);
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(end.message(), HasSubstr("update.sparse is ALL_REDUCE"));
}

}  // namespace
}  // namespace muster
