#include "server/shard/service/drop_orders.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

// Pauses before what failed is tried again: the first one, and the longest.
constexpr absl::Duration kFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

}  // namespace

DropOrders::DropOrders(Server server) : server_(std::move(server)), thread_([this] { Run(); }) {}

DropOrders::~DropOrders() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void DropOrders::SetReportSoon(std::function<void()> report_soon) {
  absl::MutexLock lock(&mutex_);
  report_soon_ = std::move(report_soon);
}

void DropOrders::TakeOrders(const v1::HeartbeatReply& orders) {
  absl::MutexLock lock(&mutex_);
  ordered_.clear();
  Jobs done;
  for (const v1::DropOrder& drop : orders.drops()) {
    ordered_[drop.job_id()] = drop.generation();
    const auto known = done_.find(drop.job_id());
    if (known != done_.end() && known->second == drop.generation()) done.insert(*known);
  }
  done_ = std::move(done);
  ++version_;
}

void DropOrders::Report(v1::HeartbeatRequest& request) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [job_id, generation] : done_) {
    v1::DropOrder& drop = *request.add_drops();
    drop.set_job_id(job_id);
    drop.set_generation(generation);
  }
  for (const std::string& job_id : held_jobs_) request.add_held_jobs(job_id);
}

void DropOrders::LogOnce(std::string line) {
  if (line != last_trouble_) server_.log(line);
  last_trouble_ = std::move(line);
}

void DropOrders::NoteHeldJobs() {
  absl::StatusOr<std::vector<std::string>> held = server_.held_jobs();
  if (!held.ok()) {
    LogOnce(absl::StrCat("cannot tell which jobs' tables are here: ", held.status().message()));
    return;
  }
  std::sort(held->begin(), held->end());
  absl::MutexLock lock(&mutex_);
  held_jobs_ = *std::move(held);
}

bool DropOrders::DropAll() {
  Jobs open;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& order : ordered_) {
      if (done_.find(order.first) == done_.end()) open.insert(order);
    }
  }
  Jobs dropped;
  for (const auto& [job_id, generation] : open) {
    const absl::Status status = server_.drop(job_id, generation);
    if (status.ok()) {
      dropped[job_id] = generation;
      continue;
    }
    LogOnce(absl::StrCat("tables of job ", job_id,
                         " are not dropped yet, and it is tried again: ", status.message()));
  }
  // Before they are reported as dropped, or they would be ordered again.
  NoteHeldJobs();
  absl::MutexLock lock(&mutex_);
  for (const auto& [job_id, generation] : dropped) {
    // The orders may have changed meanwhile.
    const auto order = ordered_.find(job_id);
    if (order != ordered_.end() && order->second == generation) done_[job_id] = generation;
  }
  return dropped.size() == open.size();
}

void DropOrders::Run() {
  uint64_t seen = 0;
  bool all_dropped = true;
  absl::Duration pause = kFirstPause;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto any = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || version_ != seen;
      };
      if (all_dropped) {
        mutex_.Await(absl::Condition(&any));
      } else if (!mutex_.AwaitWithTimeout(absl::Condition(&any), pause)) {
        pause = std::min(2 * pause, kLongestPause);
      }
      if (stopping_) return;
      if (version_ != seen) pause = kFirstPause;
      seen = version_;
    }
    all_dropped = DropAll();
    std::function<void()> report_soon;
    {
      absl::MutexLock lock(&mutex_);
      report_soon = report_soon_;
    }
    if (all_dropped && report_soon) report_soon();
  }
}

}  // namespace muster
