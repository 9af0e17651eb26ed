#include "server/measured_host.h"

#include <memory>
#include <string>

#include "common/base/fake_clock_for_testing.h"
#include "common/metrics/metric_families.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/fake_partition_host.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

ExchangeCall Pull(uint64_t clock, int& answers) {
  auto request = std::make_shared<v1::ExchangeRequest>();
  request->set_clock(clock);
  request->mutable_dense_pull();
  ExchangeCall call;
  call.request = std::move(request);
  call.done = [&answers](const v1::ExchangeReply&, const Payload&) { ++answers; };
  return call;
}

TEST(MeasuredHostTest, CountsAnOperationWhenItIsAnswered) {
  FakeClock clock;
  FakePartitionHost host(/*size=*/4);
  MeasuredHost measured(host, clock);
  int answers = 0;
  measured.Execute(Pull(/*clock=*/0, answers));
  // Waits for AnswerParked.
  measured.Execute(Pull(/*clock=*/1, answers));
  EXPECT_EQ(answers, 1);
  clock.Advance(absl::Seconds(2));
  host.AnswerParked();
  EXPECT_EQ(answers, 2);
  MetricFamilies families;
  families.Add(measured.Metrics());
  const std::string text = std::move(families).Text();
  const std::string seconds = "muster_server_operation_seconds_";
  EXPECT_THAT(text, HasSubstr(seconds + "count{operation=\"dense_pull\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(seconds + "sum{operation=\"dense_pull\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(seconds + "bucket{operation=\"dense_pull\",le=\"1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr(seconds + "bucket{operation=\"dense_pull\",le=\"3\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(seconds + "count{operation=\"dense_push\"} 0\n"));
}

}  // namespace
}  // namespace muster
