#include "common/trace/trace_scope.h"

#include "common/text/utf8.h"

namespace muster {
namespace {

uint64_t StepHere(const TraceRecorder& recorder) {
  return trace_bound.step == TraceBound::kStepOfRecorder ? recorder.step() : trace_bound.step;
}

}  // namespace

void TraceScope::Begin(uint64_t step) {
  step_before_ = trace_bound.step;
  trace_bound.step = step;
  start_ns_ = TraceNow();
}

void TraceScope::End() {
  recorder_->Record({.start_ns = start_ns_,
                     .duration_ns = TraceNow() - start_ns_,
                     .step = StepHere(*recorder_),
                     .bytes = bytes_,
                     .index = index_,
                     .track_number = trace_bound.track_number,
                     .track = trace_bound.track,
                     .kind = kind_});
  trace_bound.step = step_before_;
}

TraceStep::TraceStep(uint64_t step) : recorder_(trace_bound.recorder) {
  if (recorder_ == nullptr) return;
  recorder_->BeginStep(step);
  if (recorder_->on()) start_ns_ = TraceNow();
}

TraceStep::~TraceStep() {
  if (recorder_ == nullptr || !recorder_->on()) return;
  recorder_->Record({.start_ns = start_ns_,
                     .duration_ns = TraceNow() - start_ns_,
                     .step = recorder_->step(),
                     .track_number = trace_bound.track_number,
                     .track = trace_bound.track,
                     .kind = ActionKind::kStep});
  recorder_->EndStep();
}

TraceSpan::TraceSpan(TraceRecorder* recorder, TraceTrack track, ActionKind kind, uint32_t index)
    : recorder_(recorder), track_(track), kind_(kind), index_(index) {
  if (recorder_ == nullptr) return;
  step_ = StepHere(*recorder_);
  start_ns_ = TraceNow();
}

void TraceSpan::End(uint64_t bytes) const {
  if (recorder_ == nullptr) return;
  recorder_->Record({.start_ns = start_ns_,
                     .duration_ns = TraceNow() - start_ns_,
                     .step = step_,
                     .bytes = bytes,
                     .index = index_,
                     .track = track_,
                     .kind = kind_});
}

void TraceCall(TraceRecorder& recorder, absl::string_view label, int64_t duration_ns,
               uint64_t bytes) {
  TraceEvent event = {.start_ns = TraceNow() - duration_ns,
                      .duration_ns = duration_ns,
                      .step = recorder.step(),
                      .bytes = bytes,
                      .track = TraceTrack::kCalls,
                      .kind = ActionKind::kCollective};
  const absl::string_view cut = CutUtf8(label, sizeof(event.label) - 1);
  cut.copy(event.label, cut.size());
  recorder.Record(event);
}

}  // namespace muster
