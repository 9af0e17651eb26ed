#include "worker/runtime/task/job_in_threads_for_testing.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/cluster_service.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/task/task.h"

namespace muster {

JobInThreads::JobInThreads(const v1::JobSpec& spec)
    : meeting(spec),
      spec_(spec),
      endpoints_([this](const std::string& name, CollectiveCall& call) { OnCall(name, call); }) {}

JobInThreads::~JobInThreads() {
  for (auto& [slot, thread] : threads_) thread.join();
}

void JobInThreads::Start(uint32_t slot) {
  auto task = std::make_shared<Task>();
  {
    absl::MutexLock lock(&mutex_);
    const int incarnation = ++incarnations_[slot];
    task->name = absl::StrCat(slot, "/", incarnation);
    names_[slot] = task->name;
    calls_[task->name] = 0;
  }
  task->coordinator = meeting.StartTask(slot);
  threads_[slot] = std::thread([this, slot, task] { RunTaskOf(slot, *task); });
}

void JobInThreads::StartAll() {
  for (uint32_t slot = 0; slot < spec_.workers(); ++slot) Start(slot);
}

absl::Status JobInThreads::Wait(uint32_t slot) {
  threads_.at(slot).join();
  threads_.erase(slot);
  absl::MutexLock lock(&mutex_);
  return ends_.at(slot);
}

void JobInThreads::Kill(uint32_t slot) {
  std::string name;
  {
    absl::MutexLock lock(&mutex_);
    name = names_.at(slot);
  }
  meeting.Lose(slot);
  endpoints_.Kill(name);
}

std::vector<uint64_t> JobInThreads::Checksums() const {
  std::vector<uint64_t> checksums;
  const std::vector<v1::CommitCheckpointRequest> checkpoints = meeting.checkpoints();
  if (checkpoints.empty()) return checksums;
  for (const v1::CutFile& file : checkpoints.back().files()) {
    checksums.push_back(file.checksum());
  }
  return checksums;
}

std::vector<std::string> JobInThreads::log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

void JobInThreads::RunTaskOf(uint32_t slot, const Task& task) {
  v1::TaskOrder order;
  order.set_job_id("job");
  *order.mutable_spec() = specs_.count(slot) > 0 ? specs_.at(slot) : spec_;
  order.set_generation(1);
  order.set_slot(slot);
  order.set_worker_id(absl::StrCat("worker-", slot));
  order.set_checkpoint_root("/checkpoints");
  TaskDependencies dependencies;
  dependencies.coordinator = task.coordinator.get();
  dependencies.clock = &clock_;
  dependencies.waiter = &waiter_;
  dependencies.storage = &storage_;
  dependencies.devices = devices_;
  dependencies.make_endpoint = [this, &task] { return endpoints_.Make(task.name); };
  dependencies.log = [this](absl::string_view line) {
    absl::MutexLock lock(&mutex_);
    log_.emplace_back(line);
  };
  absl::Status end = RunTask(order, dependencies);
  absl::MutexLock lock(&mutex_);
  ends_[slot] = std::move(end);
}

void JobInThreads::OnCall(const std::string& name, CollectiveCall& call) {
  int number = 0;
  {
    absl::MutexLock lock(&mutex_);
    number = calls_.at(name)++;
  }
  if (hook_ != nullptr) hook_(std::stoi(name), number, call);
}

}  // namespace muster
