#include "worker/device/device_recorder.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"

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

void DeviceRecorder::DoBetween(Between between) {
  if (divide_ == nullptr) {
    between();
  } else {
    divide_(std::move(between));
  }
}

absl::Status DeviceRecorder::Capture(Segment& segment) {
  auto graphs = DeviceGraph::CaptureParts(stream_, [this, &segment](DeviceGraph::Divide divide) {
    divide_ = [&segment, divide](Between between) {
      segment.between.push_back(std::move(between));
      divide();
    };
    segment.out = QueueCalls();
    divide_ = nullptr;
    return absl::OkStatus();
  });
  MUSTER_RETURN_IF_ERROR(graphs.status());
  segment.graphs = *std::move(graphs);
  return absl::OkStatus();
}

void DeviceRecorder::Launch(const Segment& segment) {
  for (size_t i = 0; i < segment.graphs.size(); ++i) {
    segment.graphs[i]->Launch(stream_);
    if (i < segment.between.size()) segment.between[i]();
  }
}

void DeviceRecorder::Queue() {
  if (calls_.empty()) return;
  Segment& segment = recorded_->segments[names_];
  if (segment.graphs.empty() && !HaveRun()) {
    // Where a fused product proves impossible, here or in another segment, what takes its place has
    // not run yet.
    for (const uint64_t name : names_) {
      recorded_->ran_with_fused_gelu[name] = ops_.fuses_gelu();
    }
    segment.out = QueueCalls();
  } else {
    if (segment.graphs.empty()) stream_.Fail(Capture(segment));
    Launch(segment);
  }
  handed_on_ = segment.out;
  GiveUp();
}

void DeviceRecorder::GiveUp() {
  names_.clear();
  calls_.clear();
}

}  // namespace muster
