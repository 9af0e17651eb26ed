#include "worker/runtime/task_table.h"

#include <utility>

#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

bool IsRunning(const v1::TaskReport& report) { return report.state() == v1::TaskReport::RUNNING; }

}  // namespace

TaskTable::TaskTable(TaskStarter start, std::function<void()> changed)
    : start_(std::move(start)), changed_(std::move(changed)) {}

TaskTable::~TaskTable() { StopAll(); }

TaskTable::Key TaskTable::KeyOf(const v1::TaskOrder& order) {
  return {order.job_id(), order.generation(), order.slot(), order.incarnation()};
}

void TaskTable::Reconcile(const v1::HeartbeatReply& orders) {
  std::vector<const v1::TaskOrder*> missing;
  std::vector<std::unique_ptr<RunningTask>> forgotten;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, entry] : entries_) entry.ordered = false;
    for (const v1::TaskOrder& order : orders.tasks()) {
      auto [it, added] = entries_.try_emplace(KeyOf(order));
      it->second.ordered = true;
      if (added) missing.push_back(&order);
    }
    for (auto& [key, entry] : entries_) {
      if (!entry.ordered && entry.task != nullptr && IsRunning(*entry.report)) entry.task->Kill();
    }
    // What is new is running as far as the coordinator is concerned.
    for (const v1::TaskOrder* order : missing) {
      auto report = std::make_unique<v1::TaskReport>();
      report->set_job_id(order->job_id());
      report->set_generation(order->generation());
      report->set_slot(order->slot());
      report->set_incarnation(order->incarnation());
      report->set_state(v1::TaskReport::RUNNING);
      entries_[KeyOf(*order)].report = std::move(report);
    }
    forgotten = ForgetLocked();
  }
  forgotten.clear();
  for (const v1::TaskOrder* order : missing) Start(*order);
}

void TaskTable::Start(const v1::TaskOrder& order) {
  const Key key = KeyOf(order);
  absl::StatusOr<std::unique_ptr<RunningTask>> task =
      start_(order, [this, key](const v1::TaskReport& report) { Ended(key, report); });
  if (task.ok()) {
    absl::MutexLock lock(&mutex_);
    entries_[key].task = *std::move(task);
    return;
  }
  v1::TaskReport report;
  report.set_job_id(order.job_id());
  report.set_generation(order.generation());
  report.set_slot(order.slot());
  report.set_incarnation(order.incarnation());
  report.set_state(v1::TaskReport::DIED);
  report.set_message(std::string(task.status().message()));
  Ended(key, report);
}

void TaskTable::Ended(const Key& key, const v1::TaskReport& report) {
  {
    absl::MutexLock lock(&mutex_);
    *entries_.at(key).report = report;
  }
  changed_();
}

std::vector<std::unique_ptr<RunningTask>> TaskTable::ForgetLocked() {
  std::vector<std::unique_ptr<RunningTask>> forgotten;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.ordered || IsRunning(*it->second.report)) {
      ++it;
      continue;
    }
    forgotten.push_back(std::move(it->second.task));
    it = entries_.erase(it);
  }
  return forgotten;
}

void TaskTable::Report(v1::HeartbeatRequest& heartbeat) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, entry] : entries_) {
    if (!entry.ordered && !IsRunning(*entry.report)) continue;
    *heartbeat.add_tasks() = *entry.report;
  }
}

int TaskTable::running() const {
  absl::MutexLock lock(&mutex_);
  int running = 0;
  for (const auto& [key, entry] : entries_) running += IsRunning(*entry.report);
  return running;
}

void TaskTable::StopAll() {
  std::vector<std::unique_ptr<RunningTask>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [key, entry] : entries_) {
      entry.ordered = false;
      if (entry.task == nullptr) continue;
      entry.task->Kill();
      tasks.push_back(std::move(entry.task));
    }
  }
  // Each destruction waits for the end, which is still told to the entry.
  tasks.clear();
  absl::MutexLock lock(&mutex_);
  entries_.clear();
}

}  // namespace muster
