// Sends extremes to every field of what tasks ask a parameter server for, and expects an answer to
// each, and that an honest job trains on to the right values. One thread, so a failure repeats
// itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/extreme_messages.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

// By seed.
class ShardEnginePropertyTest : public TestEngine, public testing::WithParamInterface<uint64_t> {
 protected:
  // A valid operation of one of the strangers' jobs, and a payload that fits it.
  std::pair<v1::ExchangeRequest, Payload> Operation(const std::string& job, uint64_t clock) {
    std::pair<v1::ExchangeRequest, Payload> made;
    switch (extremes_.Draw(7)) {
      case 0:
        made = {TestDensePush(0, clock, 0, 2), Floats(std::vector<float>(8, 1))};
        break;
      case 1:
        made = {TestSparsePush(0, clock, 0, 2), KeysAndRows({1, 2}, {1, 2, 3, 4})};
        break;
      case 2:
        made = {TestClose(0, clock, 1), {}};
        break;
      case 3:
        made = {TestDensePull(0, clock, 0, 2), {}};
        break;
      case 4:
        made = {TestSparsePull(0, clock, 2), KeysAndRows({1, 2}, {})};
        break;
      case 5:
        made = {TestCut(0, clock), {}};
        break;
      default:
        made = {TestClip(0, clock, 0.5), {}};
    }
    made.first.set_job_id(job);
    return made;
  }

  v1::OpenTablesRequest Tables(const std::string& job) {
    v1::OpenTablesRequest request =
        extremes_.Draw(2) == 0 ? TestDurableRequest() : TestOpenRequest(1 + extremes_.Draw(3));
    request.set_job_id(job);
    return request;
  }

  Extremes extremes_{GetParam()};
};

TEST_P(ShardEnginePropertyTest, EveryRequestIsAnsweredAndAnHonestJobTrainsOn) {
  LimitMemory(uint64_t{2} << 30);
  ShardEngine::Options options = Options();
  options.memory_budget_bytes = uint64_t{64} << 20;
  options.queue_bytes = 1 << 20;
  Start(options);
  Open(TestOpenRequest(1));
  const std::vector<std::string> jobs = {"stranger", "other", "victim"};
  extremes_.known = jobs;
  std::vector<std::pair<uint64_t, TestAnswer>> asked;
  uint64_t clock = 0;
  int opened = 0, done = 0;
  for (uint64_t number = 0; number < 6000; ++number) {
    const std::string& job = jobs[extremes_.Draw(jobs.size())];
    const uint64_t rarity = 2 + extremes_.Draw(30);
    const uint64_t kind = extremes_.Draw(20);
    if (kind == 0) {
      v1::DropTablesRequest request;
      request.set_job_id(job);
      extremes_.Fill(request, rarity);
      if (request.job_id() != "job") engine_->DropTables(request).IgnoreError();
    } else if (kind < 4) {
      v1::OpenTablesRequest request = Tables(job);
      if (extremes_.Draw(3) != 0) extremes_.Fill(request, rarity * 4);
      if (request.job_id() != "job") opened += engine_->OpenTables(request).ok();
    } else {
      auto [request, payload] = Operation(job, extremes_.Draw(3));
      if (extremes_.Draw(3) != 0) extremes_.Fill(request, rarity);
      if (extremes_.Draw(8) == 0) payload = Floats(std::vector<float>(extremes_.Draw(40)));
      if (request.job_id() == "job") continue;
      TestAnswer answer = Call(request, std::move(payload));
      done += answer.arrived() && answer.code() == absl::StatusCode::kOk;
      asked.emplace_back(number, answer);
    }
    executor_.RunAll();
    if (number % 500 != 0) continue;
    Step(clock++, 1);
    ExpectValues(clock, 1.f - clock, 0.5f - clock);
  }
  EXPECT_GT(opened, 50) << "not all is refused at once";
  EXPECT_GT(done, 50);
  executor_.RunAll();
  // What waits for others is told so when it is over.
  engine_.reset();
  for (const auto& [number, answer] : asked) EXPECT_TRUE(answer.arrived()) << number;
}

INSTANTIATE_TEST_SUITE_P(Seeds, ShardEnginePropertyTest, testing::Range<uint64_t>(1, 33));

}  // namespace
}  // namespace muster
