#include "worker/device/passes/device_recorder.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kMostExtentsWithGraphs = 8;

}  // namespace

void DeviceRecorder::Begin(const TokenRows& rows, Pass& pass) {
  BeginUnrecorded(pass);
  const std::tuple extents(rows.sequences, rows.length, rows.token_positions != nullptr,
                           rows.whole_positions != nullptr);
  auto found = extents_.find(extents);
  if (found == extents_.end() && extents_.size() < kMostExtentsWithGraphs) {
    found = extents_.try_emplace(extents, std::make_unique<Extents>()).first;
  }
  if (found != extents_.end()) pass.extents_ = found->second.get();
}

void DeviceRecorder::BeginUnrecorded(Pass& pass) {
  Queue();
  pass.extents_ = nullptr;
  pass.handed_on_ = {};
}

void DeviceRecorder::Add(uint64_t name, Call call, Pass& pass) {
  if (pass_ != &pass) Queue();
  if (pass.extents_ == nullptr) {
    pass.handed_on_ = call(pass.handed_on_);
    return;
  }
  pass_ = &pass;
  names_.push_back(name);
  calls_.push_back(std::move(call));
}

void DeviceRecorder::AddOnce(const Call& call, Pass& pass) {
  Queue();
  pass.handed_on_ = call(pass.handed_on_);
}

ResidualStream DeviceRecorder::QueueCalls() {
  ResidualStream handed_on = pass_->handed_on_;
  for (const Call& call : calls_) handed_on = call(handed_on);
  return handed_on;
}

bool DeviceRecorder::HaveRun() const {
  const Extents& extents = *pass_->extents_;
  return std::all_of(names_.begin(), names_.end(), [this, &extents](uint64_t name) {
    const auto found = extents.ran_with_fused_gelu.find(name);
    return found != extents.ran_with_fused_gelu.end() && found->second == ops_.fuses_gelu();
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
  Extents& extents = *pass_->extents_;
  const auto set = static_cast<size_t>(pass_->set());
  if (extents.segments.size() <= set) extents.segments.resize(set + 1);
  Segment& segment = extents.segments[set][names_];
  if (segment.graphs.empty() && !HaveRun()) {
    // Where a fused product proves impossible, here or in another segment, what takes its place has
    // not run yet.
    for (const uint64_t name : names_) {
      extents.ran_with_fused_gelu[name] = ops_.fuses_gelu();
    }
    segment.out = QueueCalls();
  } else {
    if (segment.graphs.empty()) stream_.Fail(Capture(segment));
    Launch(segment);
  }
  pass_->handed_on_ = segment.out;
  GiveUp();
}

void DeviceRecorder::GiveUp() {
  pass_ = nullptr;
  names_.clear();
  calls_.clear();
}

}  // namespace muster
