#include "common/search/trial_table.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/philox.h"
#include "common/search/search_for_testing.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr char kAsha[] =
    "trials: 1000 parallel: 8 asha { min_steps: 1 } job { stop { steps: 64 } } "
    "parameters { field: 'optimizer.learning_rate' log_uniform { min: 0.01 max: 1 } }";

v1::SearchRecord NewRecord(const std::string& fields) {
  v1::SearchRecord record;
  record.set_search_id("s-1");
  *record.mutable_spec() = SmallSearch(fields);
  record.set_state(v1::SEARCH_RUNNING);
  return record;
}

// A service of jobs that survives its caller: it submits by request id, and ends jobs in an order
// that follows from their ids alone.
class FakeJobs {
 public:
  std::string Submit(const std::string& request_id, const v1::JobSpec& spec) {
    const auto [job, is_new] = by_request_.insert({request_id, {}});
    if (is_new) {
      job->second = absl::StrCat("j-", by_request_.size());
      running_[Fingerprint(request_id)] = job->second;
      if (spec.stop().steps() > 1) EXPECT_TRUE(ended_.count(spec.resume_from()) > 0);
    }
    return job->second;
  }

  // The job that ends next, and how; it stays the same until Forget.
  std::pair<std::string, TrialEnd> NextEnd() const {
    const auto& [hash, job] = *running_.begin();
    if (hash % 16 == 0) return {job, {.failure = "diverged"}};
    return {job, {.last_step = 64, .objective = static_cast<double>(hash % 1000)}};
  }

  void Forget() {
    ended_.insert(running_.begin()->second);
    running_.erase(running_.begin());
  }

  size_t submitted() const { return by_request_.size(); }

 private:
  std::map<std::string, std::string> by_request_;
  std::map<uint64_t, std::string> running_;
  std::set<std::string> ended_;
};

// Runs a search to its end. At each transition its process is killed with a chance of one in
// `kill_one_in` (0: never), which loses all that is not stored.
v1::SearchRecord RunSearch(uint64_t kill_one_in, uint64_t seed, FakeJobs& jobs) {
  const Philox random(seed);
  uint64_t drawn = 0;
  const auto killed = [&] { return kill_one_in > 0 && random.Below(kill_one_in, drawn++) == 0; };
  v1::SearchRecord stored = NewRecord(kAsha);
  while (true) {
    v1::SearchRecord record = stored;
    const SearchStep step = NextStep(record);
    if (step.kind == SearchStep::Kind::kComplete) return stored;
    if (step.kind == SearchStep::Kind::kWait) {
      const auto [job, end] = jobs.NextEnd();
      EXPECT_TRUE(RecordEnd(job, end, record));
      if (killed()) continue;
      stored = record;
      // After a kill the end is told once more, and changes nothing.
      if (killed()) EXPECT_FALSE(RecordEnd(job, end, stored));
      jobs.Forget();
      continue;
    }
    const TrialJob job = JobOfStep(record, step);
    google::protobuf::RepeatedPtrField<v1::Draw> draws;
    const std::vector<v1::Draw> drawn_values = *TrialDraws(record.spec(), step.trial);
    for (const v1::Draw& draw : drawn_values) *draws.Add() = draw;
    const auto spec = SpecOfTrial(record.spec(), draws, job);
    EXPECT_TRUE(spec.ok()) << spec.status();
    if (killed()) continue;
    const std::string id = jobs.Submit(TrialRequestId("s-1", step.trial, step.rung), *spec);
    if (killed()) continue;
    RecordJob(step, id, record);
    if (killed()) continue;
    stored = record;
  }
}

TEST(TrialTableTest, AThousandTrialsUnderKillsMakeTheSameTable) {
  FakeJobs undisturbed;
  const v1::SearchRecord expected = RunSearch(0, 0, undisturbed);
  ASSERT_EQ(expected.trials_size(), 1000);
  FakeJobs jobs;
  const v1::SearchRecord record = RunSearch(4, 1, jobs);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(record, expected));
  EXPECT_EQ(jobs.submitted(), undisturbed.submitted());
  // Each submitted job is in the table once.
  std::set<std::string> ids;
  size_t promoted = 0;
  for (const v1::SearchTrial& trial : expected.trials()) {
    EXPECT_EQ(trial.draws_size(), 1);
    for (const v1::TrialRung& rung : trial.rungs()) {
      EXPECT_TRUE(ids.insert(rung.job_id()).second);
    }
    promoted += trial.rungs_size() > 1;
  }
  EXPECT_EQ(ids.size(), undisturbed.submitted());
  EXPECT_GT(promoted, 200u);
  EXPECT_LE(promoted, 300u);
}

TEST(TrialTableTest, AnEndIsRecordedOnceAndWithItsReason) {
  v1::SearchRecord record = NewRecord(kAsha);
  for (const std::string job : {"j-1", "j-2", "j-3"}) RecordJob(NextStep(record), job, record);
  EXPECT_FALSE(RecordEnd("j-9", {.last_step = 1, .objective = 1.0}, record));
  EXPECT_TRUE(RecordEnd("j-1", {.last_step = 1, .objective = 1.0}, record));
  EXPECT_FALSE(RecordEnd("j-1", {.last_step = 1, .objective = 2.0}, record));
  EXPECT_EQ(record.trials(0).rungs(0).objective(), 1.0);
  EXPECT_TRUE(RecordEnd("j-2", {.last_step = 1, .objective = std::nan("")}, record));
  EXPECT_EQ(record.trials(1).failure(), "its objective is nan");
  EXPECT_TRUE(RecordEnd("j-3", {.failure = "worker lost"}, record));
  EXPECT_EQ(record.trials(2).failure(), "worker lost");
  EXPECT_EQ(record.trials(2).rungs(0).last_step(), 0);
}

}  // namespace
}  // namespace muster
