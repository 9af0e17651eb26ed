#include "server/coordinator/calls/report_checks.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"

namespace muster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// All whole numbers up to this one are exact in a double; sums of them do not overflow.
constexpr uint64_t kMostCount = uint64_t{1} << 53;

absl::Status Impossible(absl::string_view field, const std::string& value,
                        const std::string& right) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; ", right));
}

absl::Status CheckAtMost(absl::string_view field, uint64_t value, uint64_t most,
                         absl::string_view what) {
  if (value <= most) return absl::OkStatus();
  return Impossible(field, absl::StrCat(value), absl::StrCat(what, " is ", most));
}

absl::Status CheckDouble(const FieldDescriptor& field, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return Impossible(field.name(), absl::StrCat(value), "a reported number must be finite");
}

// A job's number of steps is unknown before its tasks have met.
absl::Status CheckClock(const v1::JobRecord& job, absl::string_view field, uint64_t clock) {
  if (!job.has_met()) return absl::OkStatus();
  return CheckAtMost(field, clock, job.met().total_steps(), "the job's last step");
}

// Loads must be those of blocks and experts that the job has: they are kept by these.
absl::Status CheckLoads(const v1::TransformerSpec& model, const v1::ExpertLoads& loads) {
  if (loads.experts() != model.moe().experts()) {
    return Impossible("expert_loads.experts", absl::StrCat(loads.experts()),
                      absl::StrCat("the job's blocks have ", model.moe().experts()));
  }
  const auto& blocks = loads.blocks();
  for (int i = 0; i < blocks.size(); ++i) {
    if (blocks[i] < model.layers() && (i == 0 || blocks[i] > blocks[i - 1])) continue;
    return Impossible(
        absl::StrCat("expert_loads.blocks[", i, "]"), absl::StrCat(blocks[i]),
        absl::StrCat("name each block once, in order, and of the job's ", model.layers()));
  }
  const uint64_t numbers = uint64_t{loads.experts()} * static_cast<uint64_t>(blocks.size());
  if (static_cast<uint64_t>(loads.tokens_size()) != numbers) {
    return Impossible("expert_loads.tokens", absl::StrCat("of ", loads.tokens_size(), " numbers"),
                      absl::StrCat("experts times blocks are ", numbers));
  }
  if (loads.dropped_size() > 0 && loads.dropped_size() != blocks.size()) {
    return Impossible("expert_loads.dropped", absl::StrCat("of ", loads.dropped_size(), " numbers"),
                      absl::StrCat("blocks are ", blocks.size()));
  }
  for (const uint64_t dropped : loads.dropped()) {
    MUSTER_RETURN_IF_ERROR(CheckAtMost("expert_loads.dropped", dropped, kMostCount, "the most"));
  }
  if (numbers == 0) return absl::OkStatus();
  return CheckAtMost("expert_loads.tokens",
                     *std::max_element(loads.tokens().begin(), loads.tokens().end()), kMostCount,
                     "the most");
}

}  // namespace

absl::Status CheckNumbers(const Message& report, absl::Span<const absl::string_view> any) {
  const Reflection& reflection = *report.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(report, &fields);
  for (const FieldDescriptor* field : fields) {
    // Fingerprints are fixed64 and may be any number.
    if (field->type() == FieldDescriptor::TYPE_UINT64) {
      const int size = field->is_repeated() ? reflection.FieldSize(report, field) : 1;
      for (int i = 0; i < size; ++i) {
        const uint64_t value = field->is_repeated() ? reflection.GetRepeatedUInt64(report, field, i)
                                                    : reflection.GetUInt64(report, field);
        MUSTER_RETURN_IF_ERROR(CheckAtMost(field->name(), value, kMostCount, "the most"));
      }
    } else if (field->type() == FieldDescriptor::TYPE_DOUBLE && !field->is_repeated() &&
               std::find(any.begin(), any.end(), field->name()) == any.end()) {
      MUSTER_RETURN_IF_ERROR(CheckDouble(*field, reflection.GetDouble(report, field)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckReport(const v1::JobRecord&, const v1::RendezvousRequest& report) {
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report));
  return CheckAtMost("replica_clock", report.replica_clock(), report.total_steps(),
                     "the job's last step");
}

absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportProgressRequest& report) {
  if (report.has_expert_loads()) {
    MUSTER_RETURN_IF_ERROR(CheckLoads(job.spec().model().transformer(), report.expert_loads()));
  }
  // Only a program knows how many steps it makes, and of how many examples. It also goes on with
  // any loss.
  if (RunsProgram(job.spec())) return CheckNumbers(report, {"loss_sum"});
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report));
  MUSTER_RETURN_IF_ERROR(CheckClock(job, "clock", report.clock()));
  MUSTER_RETURN_IF_ERROR(CheckClock(job, "steps", report.steps()));
  // Bounds the steps so that the product fits 64 bits.
  const uint64_t largest = std::max<uint64_t>(1, LargestScaledBatch(job.spec()));
  const auto most_of = [largest](uint64_t steps) {
    return std::clamp<uint64_t>(steps, 1, kMostCount / largest) * largest;
  };
  MUSTER_RETURN_IF_ERROR(CheckAtMost("examples", report.examples(), most_of(report.steps()),
                                     absl::StrCat("the most of ", report.steps(), " steps")));
  // A slot that was left out drops those of clocks that it never computed, too.
  return CheckAtMost("dropped_examples", report.dropped_examples(), most_of(report.clock()),
                     absl::StrCat("the most of ", report.clock(), " steps"));
}

absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportEvaluationRequest& report) {
  if (report.has_value() != RunsProgram(job.spec())) {
    return Impossible("value", report.has_value() ? absl::StrCat(report.value()) : "absent",
                      "a program reports it, and only a program");
  }
  if (report.has_value()) return CheckNumbers(report, {"value", "loss_sum"});
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report));
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report.errors()));
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report.confusion()));
  // The job's record keeps every evaluation's.
  if (report.has_confusion() && !job.spec().stop().evaluate_only()) {
    return Impossible("confusion", "present", "jobs that only evaluate report it");
  }
  MUSTER_RETURN_IF_ERROR(CheckClock(job, "clock", report.clock()));
  const uint64_t weight = report.loss_weight() > 0 ? report.loss_weight() : report.examples();
  MUSTER_RETURN_IF_ERROR(CheckAtMost("correct", report.correct(), weight, "the number of labels"));
  if (!job.has_met()) return absl::OkStatus();
  return CheckAtMost("examples", report.examples(), job.met().held_out_examples(),
                     "what the data hold out");
}

absl::Status CheckReport(const v1::JobRecord& job, const v1::AdjustRequest& report) {
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report));
  return CheckClock(job, "clock", report.clock());
}

absl::Status CheckReport(const v1::JobRecord& job, const v1::VerifyStepRequest& report) {
  MUSTER_RETURN_IF_ERROR(CheckNumbers(report));
  return CheckClock(job, "clock", report.clock());
}

}  // namespace muster
