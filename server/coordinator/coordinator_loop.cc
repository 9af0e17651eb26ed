#include "server/coordinator/coordinator_loop.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Longest delay with which leases and deadlines are noticed.
constexpr absl::Duration kTick = absl::Milliseconds(50);

// Returns when all that was posted before has run.
void Flush(ThreadExecutor& executor) {
  absl::Notification done, done_ahead;
  executor.Post([&done] { done.Notify(); });
  executor.PostAhead([&done_ahead] { done_ahead.Notify(); });
  done.WaitForNotification();
  done_ahead.WaitForNotification();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorLoop>> CoordinatorLoop::Create(JobStore& store,
                                                                         CheckpointArchive& archive,
                                                                         const Clock& clock,
                                                                         CoordinatorOptions options,
                                                                         Trouble trouble) {
  std::unique_ptr<CoordinatorLoop> loop(new CoordinatorLoop(archive, clock, std::move(trouble)));
  options.metric_sources.push_back([&rpcs = loop->rpc_metrics_] { return rpcs.Collect(); });
  // The logic thread sees this through the queue's lock: it runs nothing before the first post.
  MUSTER_ASSIGN_OR_RETURN(loop->coordinator_,
                          Coordinator::Create(store, archive, clock, *loop->logic_, *loop->disk_,
                                              *loop->planning_, std::move(options)));
  loop->ticker_ = std::thread([loop = loop.get()] { loop->RunTicks(); });
  return loop;
}

CoordinatorLoop::CoordinatorLoop(CheckpointArchive& archive, const Clock& clock, Trouble trouble)
    : archive_(archive),
      trouble_(std::move(trouble)),
      rpc_metrics_(clock),
      logic_(std::make_unique<ThreadExecutor>()),
      disk_(std::make_unique<ThreadExecutor>()),
      exports_(std::make_unique<ThreadExecutor>()),
      planning_(std::make_unique<ThreadExecutor>()) {}

CoordinatorLoop::~CoordinatorLoop() {
  if (coordinator_ != nullptr) Shutdown();
  // Work under way goes on from exports to the logic thread, from there to planning or the disk,
  // and back. Each thread must stay until the others have posted to it for the last time.
  for (ThreadExecutor* executor :
       {exports_.get(), logic_.get(), planning_.get(), disk_.get(), logic_.get(), disk_.get()}) {
    Flush(*executor);
  }
  exports_.reset();
  planning_.reset();
  disk_.reset();
  logic_.reset();
}

void CoordinatorLoop::Post(std::function<void(Coordinator&)> work) {
  logic_->Post([this, work = std::move(work)] {
    work(*coordinator_);
    if (shut_down_) {
      coordinator_->Shutdown();
    } else {
      SettleSoon();
    }
  });
}

void CoordinatorLoop::PostReport(std::function<void(Coordinator&)> work) {
  logic_->Post([this, work = std::move(work)] {
    work(*coordinator_);
    if (shut_down_) {
      coordinator_->Shutdown();
    } else if (!coordinator_->settled()) {
      SettleSoon();
    }
  });
}

void CoordinatorLoop::SettleSoon() {
  if (std::exchange(settles_soon_, true)) return;
  logic_->Post([this] {
    settles_soon_ = false;
    if (!shut_down_) Note(coordinator_->Settle());
  });
}

void CoordinatorLoop::PostRead(std::function<void(Coordinator&)> work) {
  logic_->PostAhead([this, work = std::move(work)] {
    work(*coordinator_);
    if (shut_down_) coordinator_->Shutdown();
  });
}

void CoordinatorLoop::PostExport(std::function<void(const CheckpointArchive&)> work) {
  exports_->Post([this, work = std::move(work)] { work(archive_); });
}

void CoordinatorLoop::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  if (ticker_.joinable()) ticker_.join();
  absl::Notification done;
  logic_->Post([&] {
    shut_down_ = true;
    coordinator_->Shutdown();
    done.Notify();
  });
  done.WaitForNotification();
}

void CoordinatorLoop::RunTicks() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kTick)) return;
    }
    // One tick at a time: a slow disk must not pile them up.
    absl::Notification ticked;
    logic_->Post([&] {
      Note(coordinator_->Tick());
      ticked.Notify();
    });
    ticked.WaitForNotification();
  }
}

void CoordinatorLoop::Note(const absl::Status& status) {
  if (!status.ok() && status != last_trouble_) trouble_(status);
  last_trouble_ = status;
}

}  // namespace muster
