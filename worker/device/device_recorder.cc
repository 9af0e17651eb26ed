#include "worker/device/device_recorder.h"

#include <algorithm>

#include "absl/status/statusor.h"

namespace muster {
namespace {

constexpr size_t kMostExtentsWithGraphs = 8;

}  // namespace

void DeviceRecorder::Begin(const TokenRows& rows) {
  const std::pair<int64_t, int64_t> extents = {rows.sequences, rows.length};
  auto found = extents_.find(extents);
  if (found == extents_.end() && extents_.size() < kMostExtentsWithGraphs) {
    found = extents_.try_emplace(extents).first;
  }
  BeginUnrecorded();
  if (found != extents_.end()) recorded_ = &found->second;
}

void DeviceRecorder::BeginUnrecorded() {
  recorded_ = nullptr;
  handed_on_ = {};
}

void DeviceRecorder::Add(uint64_t name, Call call) {
  if (recorded_ == nullptr) {
    handed_on_ = call(handed_on_);
    return;
  }
  names_.push_back(name);
  calls_.push_back(std::move(call));
}

ResidualStream DeviceRecorder::QueueCalls() {
  ResidualStream handed_on = handed_on_;
  for (const Call& call : calls_) handed_on = call(handed_on);
  return handed_on;
}

bool DeviceRecorder::HaveRun() const {
  return std::all_of(names_.begin(), names_.end(), [this](uint64_t name) {
    const auto found = recorded_->ran_with_fused_gelu.find(name);
    return found != recorded_->ran_with_fused_gelu.end() && found->second == ops_.fuses_gelu();
  });
}

void DeviceRecorder::Queue() {
  if (calls_.empty()) return;
  Segment& segment = recorded_->segments[names_];
  if (segment.graph == nullptr && !HaveRun()) {
    // Where a fused product proves impossible, here or in another segment, what takes its place has
    // not run yet.
    for (const uint64_t name : names_) {
      recorded_->ran_with_fused_gelu[name] = ops_.fuses_gelu();
    }
    segment.out = QueueCalls();
  } else {
    if (segment.graph == nullptr) {
      absl::StatusOr<std::unique_ptr<DeviceGraph>> graph =
          DeviceGraph::Capture(stream_, [this, &segment] {
            segment.out = QueueCalls();
            return absl::OkStatus();
          });
      stream_.Fail(graph.status());
      if (graph.ok()) segment.graph = *std::move(graph);
    }
    if (segment.graph != nullptr) segment.graph->Launch(stream_);
  }
  handed_on_ = segment.out;
  GiveUp();
}

void DeviceRecorder::GiveUp() {
  names_.clear();
  calls_.clear();
}

}  // namespace muster
