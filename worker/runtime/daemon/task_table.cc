#include "worker/runtime/daemon/task_table.h"

#include <algorithm>
#include <utility>

#include "common/text/utf8.h"
#include "proto/cluster_service.pb.h"

namespace muster {
namespace {

bool IsRunning(const v1::TaskReport& report) { return report.state() == v1::TaskReport::RUNNING; }

bool NeedsDevice(const v1::TaskOrder& order) {
  return order.spec().compute().device() == v1::ComputeSpec::CUDA;
}

v1::TaskReport ReportOf(const v1::TaskOrder& order, v1::TaskReport::State state) {
  v1::TaskReport report;
  report.set_job_id(order.job_id());
  report.set_generation(order.generation());
  report.set_slot(order.slot());
  report.set_incarnation(order.incarnation());
  report.set_state(state);
  return report;
}

}  // namespace

TaskTable::TaskTable(TaskStarter start, const std::vector<uint32_t>& devices,
                     std::function<void()> changed)
    : start_(std::move(start)),
      has_devices_(!devices.empty()),
      changed_(std::move(changed)),
      free_devices_(devices.begin(), devices.end()) {}

TaskTable::~TaskTable() { StopAll(); }

TaskTable::Key TaskTable::KeyOf(const v1::TaskOrder& order) {
  return {order.job_id(), order.generation(), order.slot(), order.incarnation()};
}

void TaskTable::Reconcile(const v1::HeartbeatReply& orders) {
  std::vector<std::unique_ptr<RunningTask>> forgotten;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    for (auto& [key, entry] : entries_) entry.ordered = false;
    for (const v1::TaskOrder& order : orders.tasks()) {
      auto [it, added] = entries_.try_emplace(KeyOf(order));
      Entry& entry = it->second;
      entry.ordered = true;
      if (!added) continue;
      // For the coordinator, a new task runs already.
      entry.report = std::make_unique<v1::TaskReport>(ReportOf(order, v1::TaskReport::RUNNING));
      entry.waiting = std::make_unique<v1::TaskOrder>(order);
      entry.runs_program = order.spec().model().has_program();
    }
    for (auto& [key, entry] : entries_) {
      if (entry.ordered || !IsRunning(*entry.report)) continue;
      if (entry.waiting != nullptr) entry.report->set_state(v1::TaskReport::DIED);
      if (entry.task != nullptr) entry.task->Kill();
    }
    forgotten = ForgetLocked();
  }
  forgotten.clear();
  StartWaiting();
}

std::vector<std::unique_ptr<v1::TaskOrder>> TaskTable::TakeStartableLocked() {
  std::vector<std::unique_ptr<v1::TaskOrder>> startable;
  for (auto& [key, entry] : entries_) {
    if (entry.waiting == nullptr || !entry.ordered) continue;
    if (entry.waiting->spec().model().has_program() && AnyEndsLocked(entry.waiting->job_id())) {
      continue;
    }
    // Without devices, the task itself fails and says so.
    if (NeedsDevice(*entry.waiting) && has_devices_) {
      if (free_devices_.empty()) continue;
      entry.device = free_devices_.front();
      free_devices_.pop_front();
      entry.waiting->set_device(*entry.device);
    }
    startable.push_back(std::move(entry.waiting));
    entry.starting = true;
  }
  starting_ += startable.size();
  return startable;
}

bool TaskTable::AnyEndsLocked(const std::string& job_id) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& each) {
    const auto& [key, entry] = each;
    return std::get<0>(key) == job_id && !entry.ordered && entry.waiting == nullptr &&
           IsRunning(*entry.report);
  });
}

void TaskTable::StartWaiting() {
  std::vector<std::unique_ptr<v1::TaskOrder>> startable;
  {
    absl::MutexLock lock(&mutex_);
    startable = TakeStartableLocked();
  }
  for (const auto& order : startable) Start(*order);
}

void TaskTable::Start(const v1::TaskOrder& order) {
  const Key key = KeyOf(order);
  absl::StatusOr<std::unique_ptr<RunningTask>> task =
      start_(order, [this, key](const v1::TaskReport& report) { Ended(key, report); });
  {
    absl::MutexLock lock(&mutex_);
    --starting_;
    Entry& entry = entries_.at(key);
    entry.starting = false;
    if (task.ok()) {
      entry.task = *std::move(task);
      // The order was withdrawn meanwhile.
      if (!entry.ordered) entry.task->Kill();
      return;
    }
  }
  v1::TaskReport report = ReportOf(order, v1::TaskReport::DIED);
  report.set_message(ToUtf8(task.status().message()));
  Ended(key, report);
}

void TaskTable::Ended(const Key& key, const v1::TaskReport& report) {
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_.at(key);
    // To the coordinator, a task that ends because its daemon does has not failed.
    if (!stopping_) *entry.report = report;
    if (entry.device.has_value()) free_devices_.push_back(*entry.device);
    entry.device.reset();
  }
  changed_();
  StartWaiting();
}

std::vector<std::unique_ptr<RunningTask>> TaskTable::ForgetLocked() {
  std::vector<std::unique_ptr<RunningTask>> forgotten;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const Entry& entry = it->second;
    if (entry.ordered || entry.starting || IsRunning(*entry.report)) {
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

int TaskTable::CountToLeave() const {
  absl::MutexLock lock(&mutex_);
  int left = 0;
  for (const auto& [key, entry] : entries_) {
    left += !entry.runs_program && (entry.ordered || IsRunning(*entry.report));
  }
  return left;
}

void TaskTable::StopAll() {
  std::vector<std::unique_ptr<RunningTask>> tasks;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    for (auto& [key, entry] : entries_) entry.ordered = false;
    mutex_.Await(absl::Condition(
        +[](int* starting) { return *starting == 0; }, &starting_));
    for (auto& [key, entry] : entries_) {
      if (entry.task == nullptr) continue;
      entry.task->Kill();
      tasks.push_back(std::move(entry.task));
    }
  }
  // Each destructor waits for its task's end, which Ended still writes to the entry.
  tasks.clear();
  absl::MutexLock lock(&mutex_);
  entries_.clear();
}

}  // namespace muster
