#include "server/coordinator/requests/plan_job.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/memory/remedies.h"
#include "common/plan/passes/step_costs.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/layout_validator.h"
#include "common/plan/size/memory_part.h"
#include "common/plan/size/model_size.h"
#include "common/text/format_bytes.h"
#include "server/coordinator/cluster/placement.h"
#include "server/coordinator/requests/given_fields.h"

namespace muster {
namespace {

std::vector<MemoryPart> OwnParts(const MemoryPlan& plan) {
  std::vector<MemoryPart> parts;
  for (const MemoryPart& part : plan.worker) {
    if (!part.mapped) parts.push_back(part);
  }
  return parts;
}

// Returns the first of the workers with the most bytes; null: there are none.
const WorkerCapacity* WorkerWithMost(const ClusterCapacity& capacity,
                                     uint64_t WorkerCapacity::*bytes) {
  const auto most = std::max_element(
      capacity.workers.begin(), capacity.workers.end(),
      [bytes](const WorkerCapacity& a, const WorkerCapacity& b) { return a.*bytes < b.*bytes; });
  return most == capacity.workers.end() ? nullptr : &*most;
}

// Returns the processors of the present workers; later ones are unknown.
WorkerProcessors ProcessorsOf(const ClusterCapacity& capacity) {
  const bool multiply_bf16 =
      std::all_of(capacity.workers.begin(), capacity.workers.end(),
                  [](const WorkerCapacity& worker) { return worker.multiplies_bf16; });
  uint32_t threads = 1;
  for (const WorkerCapacity& worker : capacity.workers) {
    threads = std::max(threads, worker.task_threads);
  }
  return {.multiply_bf16 = multiply_bf16 && !capacity.workers.empty(), .threads = threads};
}

// Checks that a worker has the memory of one task when little else runs.
absl::Status CheckWorkersMemory(const v1::JobSpec& spec, const DataSize& data,
                                const MemoryPlan& plan, const ClusterCapacity& whole) {
  const WorkerCapacity* const most = WorkerWithMost(whole, &WorkerCapacity::bytes);
  if (most == nullptr || plan.worker_own_bytes() <= most->bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "each of the job's workers needs ", FormatBytes(plan.worker_own_bytes()), ", and worker ",
      most->id, " offers the most, ", FormatBytes(most->bytes), ":\n",
      MemoryTable(OwnParts(plan), "  "),
      DescribeRemedies(
          FindRemedies(spec, data, ProcessorsOf(whole), MemoryOf::kWorker, most->bytes)),
      "; `muster plan` shows what other settings need, and --memory gives a worker daemon more"));
}

// Checks that a device has the memory of one task, if there is any device.
absl::Status CheckDevicesMemory(const v1::JobSpec& spec, const DataSize& data,
                                const MemoryPlan& plan, const ClusterCapacity& whole) {
  const WorkerCapacity* const most = WorkerWithMost(whole, &WorkerCapacity::device_bytes);
  if (most == nullptr || most->devices == 0) return absl::OkStatus();
  if (plan.device_bytes() <= most->device_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "each of the job's workers needs ", FormatBytes(plan.device_bytes()),
      " of its device, and worker ", most->id, " offers the most, ",
      FormatBytes(most->device_bytes), " on each of its own:\n", MemoryTable(plan.device, "  "),
      DescribeRemedies(
          FindRemedies(spec, data, ProcessorsOf(whole), MemoryOf::kDevice, most->device_bytes)),
      "; `muster plan` shows what other settings need"));
}

std::string Assumed(const v1::JobSpec& spec, const DataSize& data) {
  const std::string clause = VocabularyAssumption(spec, data);
  if (clause.empty()) return "";
  return absl::StrCat("; model.transformer.vocabulary is left out, so memory is reserved as if ",
                      clause);
}

// Returns a transformer's operations per example; 0: not known.
double FlopsPerExample(const v1::JobSpec& spec, const DataSize& data) {
  if (!spec.model().has_transformer() || !VocabularyAssumption(spec, data).empty()) return 0;
  return CostsOfStep(spec, SizeOfModel(spec, data)).flops() / LargestBatch(spec);
}

// Plans a job that runs a program, which says itself what it takes.
absl::StatusOr<PlannedJob> PlanProgram(PlannedJob planned, const ClusterCapacity& whole) {
  const uint64_t bytes = planned.spec.model().program().memory_bytes();
  planned.plan.worker.push_back({.name = "program", .bytes = bytes});
  const WorkerCapacity* const most = WorkerWithMost(whole, &WorkerCapacity::bytes);
  if (most == nullptr || bytes <= most->bytes) return planned;
  return absl::ResourceExhaustedError(absl::StrCat(
      "model.program.memory_bytes is ", FormatBytes(bytes), ", and worker ", most->id,
      " offers the most, ", FormatBytes(most->bytes), "; --memory gives a worker daemon more"));
}

}  // namespace

absl::StatusOr<PlannedJob> PlanJob(const v1::JobSpec& spec, const ClusterCapacity& whole) {
  MUSTER_RETURN_IF_ERROR(ValidateJob(spec));
  PlannedJob planned;
  planned.spec = spec;
  planned.given = GivenFields(spec);
  FillDefaults(planned.spec);
  if (RunsProgram(planned.spec)) return PlanProgram(std::move(planned), whole);
  const DataSize data = SizeOfData(planned.spec.data());
  MUSTER_RETURN_IF_ERROR(ValidateLayout(planned.spec, SizeOfModel(planned.spec, data)));
  planned.flops_per_example = FlopsPerExample(planned.spec, data);
  planned.plan = PlanMemory(planned.spec, data, ProcessorsOf(whole));
  planned.assumed = Assumed(planned.spec, data);
  MUSTER_RETURN_IF_ERROR(CheckWorkersMemory(planned.spec, data, planned.plan, whole));
  MUSTER_RETURN_IF_ERROR(CheckDevicesMemory(planned.spec, data, planned.plan, whole));
  return planned;
}

}  // namespace muster
