#include "worker/runtime/list_devices.h"

#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "proto/cluster_service.pb.h"
#include "worker/runtime/task_process.h"

namespace muster {
namespace {

absl::StatusOr<std::vector<OfferedDevice>> Parse(const std::string& program,
                                                 const std::string& text) {
  std::vector<OfferedDevice> devices;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> fields =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    OfferedDevice device{.name = fields.second};
    if (!absl::SimpleAtoi(fields.first, &device.memory_bytes) || device.name.empty()) {
      return absl::InternalError(
          absl::StrCat(program, " ", kListDevicesFlag, " reported \"", line,
                       "\"; a line for each device was expected, bytes and name"));
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::vector<OfferedDevice>> ListDevices(const std::string& program,
                                                       absl::Duration timeout) {
  // For errors alone: libraries write there too.
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
                     absl::FormatDuration(timeout), "; is the driver well?"));
  }
  if (report.state() != v1::TaskReport::ENDED) {
    return absl::InternalError(
        absl::StrCat(program, " ", kListDevicesFlag, ": ", report.message(), " ", text));
  }
  if (report.code() != 0) {
    return absl::Status(static_cast<absl::StatusCode>(report.code()), report.message());
  }
  return Parse(program, report.message());
}

}  // namespace muster
