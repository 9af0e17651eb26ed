#include "worker/runtime/device/list_devices.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/process/task_process.h"

namespace muster {

absl::StatusOr<FoundDevices> ListDevices(const std::string& program, absl::Duration timeout) {
  // Only used in errors, since libraries write there, too.
  std::string text;
  v1::TaskReport report;
  absl::Notification ended;
  TaskProcessOptions options;
  options.program = program;
  options.arguments = {kListDevicesFlag};
  options.output = [&](absl::string_view piece) { text.append(piece.data(), piece.size()); };
  options.ended = [&](const v1::TaskReport& how) {
    report = how;
    ended.Notify();
  };
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<TaskProcess> process,
                          TaskProcess::Start(v1::TaskOrder(), std::move(options)));
  if (!ended.WaitForNotificationWithTimeout(timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat(program, " ", kListDevicesFlag, " found no devices within ",
                     absl::FormatDuration(timeout), "; check the driver"));
  }
  if (report.state() != v1::TaskReport::ENDED) {
    return absl::InternalError(
        absl::StrCat(program, " ", kListDevicesFlag, ": ", report.message(), " ", text));
  }
  if (report.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(report.code()), report.message());
  }
  absl::StatusOr<FoundDevices> found = ParseDevices(report.message());
  if (found.ok()) return found;
  return absl::InternalError(
      absl::StrCat(program, " ", kListDevicesFlag, " reported ", found.status().message()));
}

}  // namespace muster
