#include "worker/runtime/coordinator_client/collective_records.h"

#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(CollectiveRecordsTest, CallsUnderWayFailedAndEndedAreToldApart) {
  FlightRecorder recorder("world");
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.dtype = DType::kBf16;
  call.count = 12;
  call.label = "bucket 3";
  recorder.Begin(1, call);
  recorder.End(1, absl::OkStatus());
  recorder.Begin(2, call);
  recorder.End(2, absl::UnavailableError("slot 1 died"));
  call = CollectiveCall();
  recorder.Begin(3, call);

  v1::ReportCollectivesRequest request;
  AddCollectiveRecords({&recorder}, request);
  ASSERT_EQ(request.calls_size(), 3);
  const v1::CollectiveRecord& ended = request.calls(0);
  EXPECT_EQ(ended.sequence(), 1);
  EXPECT_EQ(ended.group(), "world");
  EXPECT_EQ(ended.operation(), "all_reduce");
  EXPECT_EQ(ended.dtype(), "bf16");
  EXPECT_EQ(ended.reduction(), "sum");
  EXPECT_EQ(ended.count(), 12);
  EXPECT_EQ(ended.label(), "bucket 3");
  EXPECT_GT(ended.started_unix_us(), 0);
  EXPECT_GE(ended.duration_us(), 0);
  EXPECT_EQ(ended.error(), "");
  EXPECT_THAT(request.calls(1).error(), HasSubstr("slot 1 died"));
  EXPECT_EQ(request.calls(2).operation(), "barrier");
  EXPECT_EQ(request.calls(2).duration_us(), -1);
  EXPECT_EQ(request.calls(2).error(), "");
}

TEST(CollectiveRecordsTest, TheOldestCallUnderWayIsTold) {
  FlightRecorder world("world");
  FlightRecorder shards("world/3");
  CollectiveCall call;
  call.label = "gather";
  shards.Begin(1, call);
  const absl::Time between = shards.Calls()[0].started;
  call.label = "bucket 3";
  world.Begin(7, call);

  v1::ReportProgressRequest request;
  AddCallUnderWay({&world, &shards}, between - absl::Seconds(1), request);
  EXPECT_FALSE(request.has_call_under_way()) << "none lasts so long";
  AddCallUnderWay({&world, &shards}, between, request);
  EXPECT_EQ(request.call_under_way().group(), "world/3");
  EXPECT_EQ(request.call_under_way().label(), "gather");
  EXPECT_EQ(request.call_under_way().duration_us(), -1);

  shards.End(1, absl::OkStatus());
  v1::ReportProgressRequest later;
  AddCallUnderWay({&world, &shards}, absl::InfiniteFuture(), later);
  EXPECT_EQ(later.call_under_way().sequence(), 7);
  world.End(7, absl::OkStatus());
  v1::ReportProgressRequest last;
  AddCallUnderWay({&world, &shards}, absl::InfiniteFuture(), last);
  EXPECT_FALSE(last.has_call_under_way());
}

TEST(CollectiveRecordsTest, TheLastCallsOfAllGroupsAreToldInTheirOrder) {
  FlightRecorder world("world");
  FlightRecorder shards("world/3");
  CollectiveCall call;
  call.label = "old";
  for (uint64_t i = 1; i <= FlightRecorder::kCalls; ++i) world.Begin(i, call);
  call.label = "stuck";
  shards.Begin(1, call);
  call.label = "last";
  world.Begin(FlightRecorder::kCalls + 1, call);

  v1::ReportCollectivesRequest request;
  AddCollectiveRecords({&shards, &world}, request);
  ASSERT_EQ(request.calls_size(), 1000);
  EXPECT_EQ(request.calls(0).label(), "old");
  EXPECT_EQ(request.calls(0).sequence(), 3);
  // They may have started at the same time by the clock.
  std::vector<std::string> last;
  for (int i : {998, 999}) {
    last.push_back(absl::StrCat(request.calls(i).group(), " ", request.calls(i).label()));
  }
  EXPECT_THAT(last, UnorderedElementsAre("world/3 stuck", "world last"));
}

TEST(CollectiveRecordsTest, TimesAreThoseOfAllGroups) {
  FlightRecorder world("world");
  FlightRecorder shards("world/3");
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  for (FlightRecorder* recorder : {&world, &shards}) {
    for (uint64_t sequence : {1, 2}) {
      recorder->Begin(sequence, call);
      recorder->End(sequence, absl::OkStatus());
    }
    recorder->Begin(3, call);
    recorder->End(3, absl::UnavailableError("slot 1 died"));
  }
  v1::ReportProgressRequest request;
  AddCollectiveTimes({&world, &shards}, request);
  ASSERT_EQ(request.collective_times_size(), 1);
  const v1::CollectiveTimes& times = request.collective_times(0);
  EXPECT_EQ(times.operation(), "all_reduce");
  EXPECT_EQ(std::accumulate(times.counts().begin(), times.counts().end(), uint64_t{0}), 4);
  EXPECT_GE(times.seconds(), 0);
}

}  // namespace
}  // namespace muster
