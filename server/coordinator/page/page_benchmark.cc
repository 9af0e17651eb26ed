// What browsers cost a large cluster: 200 workers, 20 servers and 1,000 jobs, of which 800 are
// placed. A poll is what the page asks for each second: all jobs in short, the daemons, and one
// running job whole. Case: number of browsers that poll at once. `logic_ms` is the longest time
// that other work, such as a heartbeat, had to wait for the coordinator's logic thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/job/test_jobs.h"
#include "common/rpc/membership/protocol.h"
#include "httplib.h"
#include "proto/cluster_service.pb.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/checkpoints/fake_checkpoint_archive.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/coordinator/page/ask.h"
#include "server/coordinator/page/page_service.h"
#include "server/coordinator/store/memory_job_store.h"
#include "server/page/http_listener.h"

namespace muster {
namespace {

constexpr int kWorkers = 200;
constexpr int kServers = 20;
constexpr int kJobs = 1000;

class LargeCluster {
 public:
  LargeCluster() {
    CoordinatorOptions options;
    options.lease = absl::Hours(1);
    options.max_unfinished_jobs = kJobs;
    loop_ = *CoordinatorLoop::Create(store_, archive_, clock_, options, [](const absl::Status&) {});
    for (int i = 0; i < kServers; ++i) Register(v1::SERVER, absl::StrCat("server-", i));
    for (int i = 0; i < kWorkers; ++i) Register(v1::WORKER, absl::StrCat("worker-", i));
    for (int i = 0; i < kJobs; ++i) job_ = Submit(absl::StrCat("job-", i));
    service_ = MakePageService(*loop_, {});
    listener_ = *HttpListener::Create({.listen = "127.0.0.1:0"}, *service_);
  }

  // Makes one poll; returns the bytes that came.
  size_t Poll() {
    httplib::Client client("http://" + listener_->address());
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
    loop_->Post([&done](Coordinator&) { done.Notify(); });
    done.WaitForNotification();
    return absl::Now() - begin;
  }

 private:
  void Register(v1::DaemonKind kind, const std::string& id) {
    v1::RegisterDaemonRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_kind(kind);
    request.set_id(id);
    request.set_process_nonce(1);
    request.set_address(id + ":1");
    request.set_slots(kind == v1::WORKER ? 8 : 0);
    const auto registered = AskParked<v1::RegisterDaemonReply>(
        *loop_, [request](Coordinator& c, Call<v1::RegisterDaemonReply> call) {
          call.done(c.daemons().Register(request));
        });
    if (!registered.ok()) std::abort();
  }

  std::string Submit(const std::string& name) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = SmallJob();
    request.mutable_spec()->set_name(name);
    request.set_request_id(name);
    const auto reply = AskParked<v1::SubmitJobReply>(
        *loop_, [request](Coordinator& c, Call<v1::SubmitJobReply> call) {
          c.jobs().Submit(request, std::move(call));
        });
    if (!reply.ok()) std::abort();
    return reply->job_id();
  }

  RealClock clock_;
  MemoryJobStore store_;
  FakeCheckpointArchive archive_;
  std::unique_ptr<CoordinatorLoop> loop_;
  std::unique_ptr<HttpService> service_;
  std::unique_ptr<HttpListener> listener_;
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
