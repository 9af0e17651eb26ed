// Measures what browsers cost a large cluster of 200 workers, 20 servers and 1,000 jobs, of which
// 800 are placed. A poll is what the page asks for each second: all jobs in short, the daemons, and
// one running job whole. Case: number of browsers that poll at once. `logic_ms` is the longest time
// that other work, such as a heartbeat, had to wait for the coordinator's logic thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/job/test_jobs.h"
#include "httplib.h"
#include "server/coordinator/page/page_test_coordinator.h"

namespace muster {
namespace {

constexpr int kWorkers = 200;
constexpr int kServers = 20;
constexpr int kJobs = 1000;

class LargeCluster {
 public:
  LargeCluster() {
    coordinator_.Start({});
    for (int i = 0; i < kServers; ++i) {
      coordinator_.Register(v1::SERVER, absl::StrCat("server-", i), /*slots=*/0);
    }
    for (int i = 0; i < kWorkers; ++i) {
      coordinator_.Register(v1::WORKER, absl::StrCat("worker-", i), /*slots=*/8);
    }
    for (int i = 0; i < kJobs; ++i) {
      v1::JobSpec spec = SmallJob();
      spec.set_name(absl::StrCat("job-", i));
      job_ = coordinator_.Submit(spec, spec.name());
    }
  }

  // Makes one poll; returns the bytes that came.
  size_t Poll() {
    httplib::Client client("http://" + coordinator_.address());
    size_t bytes = 0;
    const auto get = [&](const std::string& target) {
      const httplib::Result got = client.Get(target.c_str(), {{"Accept-Encoding", "gzip"}});
      if (!got || got->status != 200) std::abort();
      bytes += got->body.size();
      return got->body;
    };
    const std::string first = get("/api/v1/jobs?view=SHORT");
    const std::string token = "\"nextPageToken\":\"";
    const size_t at = first.find(token) + token.size();
    get("/api/v1/jobs?view=SHORT&pageToken=" + first.substr(at, first.find('"', at) - at));
    get("/api/v1/cluster");
    get("/api/v1/jobs/" + job_);
    return bytes;
  }

  // Returns the time that the logic thread takes for work that is posted now.
  absl::Duration Wait() {
    const absl::Time begin = absl::Now();
    absl::Notification done;
    coordinator_.loop().Post([&done](Coordinator&) { done.Notify(); });
    done.WaitForNotification();
    return absl::Now() - begin;
  }

 private:
  PageTestCoordinator coordinator_;
  std::string job_;
};

void BM_Polls(benchmark::State& state) {
  static LargeCluster& cluster = *new LargeCluster();
  std::atomic<bool> over = false;
  absl::Duration longest;
  std::thread other_work([&] {
    while (!over) {
      longest = std::max(longest, cluster.Wait());
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  std::atomic<size_t> bytes = 0;
  for (auto _ : state) {
    std::vector<std::thread> browsers;
    for (int i = 0; i < state.range(0); ++i)
      browsers.emplace_back([&] { bytes += cluster.Poll(); });
    for (std::thread& browser : browsers) browser.join();
  }
  over = true;
  other_work.join();
  state.counters["logic_ms"] = absl::ToDoubleMilliseconds(longest);
  state.counters["bytes"] = static_cast<double>(bytes) / state.iterations() / state.range(0);
}
BENCHMARK(BM_Polls)->Arg(1)->Arg(5)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace muster
