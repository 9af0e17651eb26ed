#include "server/coordinator/job.h"

#include <utility>

namespace muster {
namespace {

template <typename Reply>
void AnswerOne(std::map<uint32_t, Call<Reply>>& calls, uint32_t slot, const absl::Status& status) {
  auto node = calls.extract(slot);
  if (!node.empty()) node.mapped().done(status);
}

template <typename Reply>
void DropGone(std::map<uint32_t, Call<Reply>>& calls) {
  for (auto it = calls.begin(); it != calls.end();) {
    if (!it->second.gone()) {
      ++it;
      continue;
    }
    it->second.done(absl::CancelledError("the caller is gone"));
    it = calls.erase(it);
  }
}

}  // namespace

Job::Job(v1::JobRecord stored, uint64_t max_log_bytes)
    : record(std::move(stored)),
      tasks(record.spec().workers()),
      progress(record.spec().workers(), record.progress()),
      rendezvous(record.spec().workers()),
      evaluation(record.spec().workers()),
      log(max_log_bytes) {}

void Job::AnswerSlot(uint32_t slot, const absl::Status& status) {
  AnswerOne(rendezvous_calls, slot, status);
  AnswerOne(evaluation_calls, slot, status);
  std::vector<ShardMapCall> others;
  for (ShardMapCall& parked : std::exchange(shard_map_calls, {})) {
    if (parked.slot == slot) {
      parked.call.done(status);
    } else {
      others.push_back(std::move(parked));
    }
  }
  shard_map_calls = std::move(others);
  // Checkpoints are committed by slot 0.
  if (slot == 0) {
    for (auto& call : std::exchange(commit_calls, {})) call.done(status);
  }
}

void Job::AnswerAll(const absl::Status& status) {
  for (uint32_t slot = 0; slot < slots(); ++slot) AnswerSlot(slot, status);
}

void Job::DropGoneCalls() {
  DropGone(rendezvous_calls);
  DropGone(evaluation_calls);
  std::vector<ShardMapCall> others;
  for (ShardMapCall& parked : std::exchange(shard_map_calls, {})) {
    if (parked.call.gone()) {
      parked.call.done(absl::CancelledError("the caller is gone"));
    } else {
      others.push_back(std::move(parked));
    }
  }
  shard_map_calls = std::move(others);
}

}  // namespace muster
