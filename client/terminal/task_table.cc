#include "client/terminal/task_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/terminal/format.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Returns the times of the last steps if the coordinator has them, otherwise of all steps.
v1::StepTimes TimesOf(const v1::TaskStatus& task) {
  if (task.has_last_steps()) return task.last_steps();
  v1::StepTimes times;
  times.set_steps(task.steps());
  times.set_training_seconds(task.training_seconds());
  times.set_compute_seconds(task.compute_seconds());
  times.set_exposed_communication_seconds(task.exposed_communication_seconds());
  times.set_waiting_seconds(task.waiting_seconds());
  return times;
}

std::string StepTime(const v1::StepTimes& times) {
  return FormatTime(times.training_seconds() / static_cast<double>(times.steps()));
}

// Returns the slot's place in the job's mesh, such as "data 1 tensor 0".
std::string Coordinates(const v1::TaskStatus& task) {
  return absl::StrJoin(task.coordinates(), " ", [](std::string* out, const v1::Coordinate& one) {
    absl::StrAppend(out, one.axis(), " ", one.position());
  });
}

// Returns which steps the times are of.
std::string Covered(const v1::JobStatus& job) {
  uint64_t fewest = 0, most = 0;
  for (const v1::TaskStatus& task : job.tasks()) {
    if (!task.has_last_steps()) continue;
    const uint64_t steps = task.last_steps().steps();
    fewest = fewest == 0 ? steps : std::min(fewest, steps);
    most = std::max(most, steps);
  }
  if (most == 0) return "times of all steps\n";
  return absl::StrCat("times of each slot's last ",
                      fewest == most ? absl::StrCat(most) : absl::StrCat(fewest, " to ", most),
                      most == 1 ? " step\n" : " steps\n");
}

}  // namespace

std::string TaskTable(const v1::JobStatus& job) {
  if (job.tasks().empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"SLOT", "WORKER", "STATE", "STEP", "STEP TIME", "COMPUTE", "COMM.", "DATA", "MEMORY"}};
  // On the axis `data` alone, slots are data ranks.
  const bool has_places =
      std::any_of(job.tasks().begin(), job.tasks().end(), [](const v1::TaskStatus& task) {
        return task.coordinates_size() > 1 ||
               (task.coordinates_size() == 1 && task.coordinates(0).axis() != "data");
      });
  if (has_places) rows[0].push_back("COORDINATES");
  bool timed = false;
  for (const v1::TaskStatus& task : job.tasks()) {
    const v1::StepTimes times = TimesOf(task);
    const bool known = times.steps() > 0 && times.training_seconds() > 0;
    timed = timed || known;
    const auto share = [&](double seconds) {
      return known ? absl::StrFormat("%.0f%%", 100 * seconds / times.training_seconds()) : "-";
    };
    rows.push_back(
        {absl::StrCat(task.slot()), task.worker_id(), task.state(), absl::StrCat(task.step()),
         known ? StepTime(times) : "-", share(times.compute_seconds()),
         share(times.exposed_communication_seconds()), share(times.waiting_seconds()),
         task.process_peak_bytes() > 0 ? FormatBytes(static_cast<double>(task.process_peak_bytes()))
                                       : "-"});
    if (has_places) rows.back().push_back(Coordinates(task));
  }
  std::string text = FormatTable(rows);
  if (timed) absl::StrAppend(&text, Covered(job));
  for (const v1::TaskStatus& task : job.tasks()) {
    if (task.slow().empty()) continue;
    absl::StrAppend(&text, "slot ", task.slot(), " is slow: ", PrintableLine(task.slow()), "\n");
  }
  return text;
}

}  // namespace muster
